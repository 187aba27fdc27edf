"""What a detector has seen: images, examples, the sizes of roots."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from histrs import _histrs
from histrs.detection._evaluation import overlaps
from histrs.detection._images import Boxes
from histrs.detection._model import MARGIN, N_DEFORMATIONS, PADDING, Component, Placements, boxes_of
from histrs.detection._pyramid import Pyramid, pyramid_of, pyramid_scales
from histrs.quantization import ProductQuantizer

Image = NDArray[np.float32]
# Cells of a root without its margin.
_LARGEST = 70


@dataclass(frozen=True)
class Settings:
    """What does not change while a detector learns."""

    cell_size: int
    levels_per_octave: int
    quantizer: ProductQuantizer | None
    n_threads: int

    @property
    def tail(self) -> tuple[int, int]:
        """Blocks of a cell, and entries of each."""
        if self.quantizer is None:
            return 1, 31
        return self.quantizer.codebooks_.shape[:2]

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of what describes a cell."""
        if self.quantizer is None:
            return np.dtype(np.float32)
        return np.dtype(np.uint8 if self.tail[1] <= 256 else np.uint16)


class Model:
    """Components, laid out for the core once for many images."""

    def __init__(self, components: list[Component], settings: Settings) -> None:
        self.components, self.settings = components, settings
        self.sizes = np.array([component.root.shape[:2] for component in components])
        self.core = _histrs.PartModel([component.for_core() for component in components])

    @property
    def octave(self) -> int:
        """Levels from a root to its parts."""
        return self.settings.levels_per_octave if len(self.components[0].parts) else 0


def look(image: Image, model: Model, threshold: float) -> tuple[Pyramid, Placements]:
    """Return the cells of an image, and the locations that score above a threshold."""
    settings, sizes, octave = model.settings, model.sizes, model.octave
    # The coarsest level is that on which the smallest root reaches over the border on both sides.
    smallest = np.maximum(sizes.min(axis=0) - 2 * PADDING, 1)
    scales = pyramid_scales(
        image.shape,
        (int(smallest[0]), int(smallest[1])),
        cell_size=settings.cell_size,
        levels_per_octave=settings.levels_per_octave,
        first=-octave,
    )
    if len(scales) <= octave:
        # The image is too small for any of the roots.
        n_parts = len(model.components[0].parts)
        none = np.zeros((0, 4 + 2 * n_parts), dtype=np.int32)
        nothing = np.zeros((0, *settings.tail[:1]), dtype=settings.dtype)
        return Pyramid(nothing, [], scales), Placements(np.zeros(0, dtype=np.float32), none)
    pyramid = pyramid_of(
        image,
        scales,
        cell_size=settings.cell_size,
        padding=PADDING,
        quantizer=settings.quantizer,
        n_threads=settings.n_threads,
    )
    scores, numbers = model.core.placements(
        pyramid.cells, (pyramid.shapes, octave, PADDING), threshold, settings.n_threads
    )
    boxes = boxes_of(numbers, scales, sizes, settings.cell_size)
    return pyramid, Placements(scores, numbers, boxes)


@dataclass
class Examples:
    """Windows of one component that are learned from, of one label."""

    windows: list[NDArray[Any]] = field(default_factory=list)
    displacements: list[NDArray[np.float32]] = field(default_factory=list)

    def add(self, windows: NDArray[Any], displacements: NDArray[np.float32]) -> None:
        self.windows.append(windows)
        self.displacements.append(displacements)

    def __len__(self) -> int:
        return sum(map(len, self.windows))

    @property
    def n_bytes(self) -> int:
        return sum(part.nbytes for part in [*self.windows, *self.displacements])

    def stacked(self) -> tuple[NDArray[Any], NDArray[np.float32]]:
        return np.concatenate(self.windows), np.concatenate(self.displacements)


def mirrored(images: list[Image], boxes: list[Boxes]) -> Iterator[tuple[Image, Boxes]]:
    """Yield each image as it is, and seen in a mirror."""
    for image, own in zip(images, boxes, strict=True):
        yield image, own
        width = image.shape[1]
        turned = np.column_stack([width - own[:, 2], own[:, 1], width - own[:, 0], own[:, 3]])
        yield np.ascontiguousarray(image[:, ::-1]), turned


def aspect_groups(boxes: Boxes, n_components: int) -> NDArray[np.intp]:
    """Return the group of each box: as many of equal numbers, by the ratio of width to height."""
    width, height = (boxes[:, 2:] - boxes[:, :2]).T
    groups = np.empty(len(boxes), dtype=np.intp)
    order = np.argsort(width / height, kind="stable")
    for group, members in enumerate(np.array_split(order, n_components)):
        groups[members] = group
    return groups


def root_sizes(boxes: Boxes, groups: NDArray[np.intp], cell_size: int) -> list[tuple[int, int]]:
    """Return rows and columns of the roots, one for each group of aspect ratios.

    One box in five is smaller than a root at the scale 1; but no root has more cells than help.
    """
    width, height = (boxes[:, 2:] - boxes[:, :2]).T
    area = np.clip(np.quantile(width * height, 0.2), 4 * cell_size**2, _LARGEST * cell_size**2)
    aspect = width / height
    sizes = []
    for group in range(groups.max() + 1):
        ratio = float(np.median(aspect[groups == group]))
        rows, columns = np.sqrt(area / ratio), np.sqrt(area * ratio)
        size = [max(int(np.round(n / cell_size)), 1) + 2 * MARGIN for n in (rows, columns)]
        sizes.append((size[0], size[1]))
    return sizes


def without_weights(size: tuple[int, int], tail: tuple[int, int]) -> Component:
    """Return a root that scores nothing."""
    root = np.zeros((*size, *tail), dtype=np.float32)
    return Component(
        root,
        0.0,
        np.zeros((0, 1, 1, *tail), dtype=np.float32),
        np.zeros((0, 2), dtype=np.int64),
        np.zeros((0, N_DEFORMATIONS)),
    )


def shared_boxes(image: Image, own: Boxes, model: Model) -> tuple[Pyramid, Placements, Boxes]:
    """Return all placements, and what they share with each object."""
    pyramid, found = look(image, model, -np.inf)
    return pyramid, found, overlaps(found.boxes, own)


def described_cells(
    images: list[Image], settings: Settings, n_cells: int, rng: np.random.RandomState
) -> NDArray[np.float32]:
    """Return features of cells drawn from all images at scales an octave apart."""
    drawn = []
    each = -(-n_cells // len(images))
    for image in images:
        scales = pyramid_scales(
            image.shape, (3, 3), cell_size=settings.cell_size, levels_per_octave=1, first=-1
        )
        cells = pyramid_of(
            image,
            scales,
            cell_size=settings.cell_size,
            padding=0,
            quantizer=None,
            n_threads=settings.n_threads,
        ).cells
        drawn.append(cells[np.sort(rng.permutation(len(cells))[:each])])
    return np.concatenate(drawn)
