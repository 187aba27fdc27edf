"""A component of a detector: a root, parts on springs, and where they are in an image."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from histrs._typing import Array
from histrs.detection._images import Boxes
from histrs.detection._pyramid import Pyramid

Tables = NDArray[np.float32]

PADDING = 3
"""Cells around a level, so that objects may reach over the border."""
MARGIN = 1
"""Cells of a root around its box: the object's outline lies on the border of the box."""
N_DEFORMATIONS = 4


@dataclass(frozen=True)
class Component:
    """One aspect of an object; its tables score codes, or weigh features."""

    root: Tables
    """(rows, columns, n_blocks, n_codes), or (rows, columns, 1, n_features)."""
    bias: float
    parts: Tables
    """(n_parts, rows, columns, ...), as the root."""
    anchors: NDArray[np.int64]
    """(n_parts, 2): locations of parts, down and right of the root, in cells of half the size."""
    deformations: Array
    """(n_parts, 4): linear and quadratic costs of displacements down, then across."""

    @property
    def n_cells(self) -> int:
        """Cells of the root and of all parts."""
        return int(np.prod(self.root.shape[:2]) + np.prod(self.parts.shape[:3]))

    def for_core(self) -> Any:
        """Return the component as the core takes it."""
        parts = [
            (part, tuple(anchor.tolist()), tuple(deformation.tolist()))
            for part, anchor, deformation in zip(
                self.parts, self.anchors, self.deformations, strict=True
            )
        ]
        return self.root, self.bias, parts


@dataclass(frozen=True)
class Placements:
    """Locations of components in one image."""

    scores: NDArray[np.float32]
    numbers: NDArray[np.int32]
    """Component, level, row and column of the root, then of each part."""
    boxes: Boxes = field(default_factory=lambda: np.empty((0, 4)))

    def __len__(self) -> int:
        return len(self.scores)

    def some(self, kept: Any) -> Placements:
        """Return some of the locations."""
        return Placements(self.scores[kept], self.numbers[kept], self.boxes[kept])

    def cut_off(self, shape: tuple[int, ...]) -> Placements:
        """Return the locations whose boxes are at least in part within an image, with that part."""
        rows, columns = shape[:2]
        boxes = np.clip(self.boxes, 0, [columns, rows, columns, rows])
        kept = np.flatnonzero((boxes[:, 2:] > boxes[:, :2]).all(axis=1))
        return Placements(self.scores[kept], self.numbers[kept], boxes[kept])


def boxes_of(
    numbers: NDArray[np.int32], scales: Array, sizes: NDArray[np.int64], cell_size: int
) -> Boxes:
    """Return the boxes of roots: without the margin, in pixels of the image."""
    unit = cell_size / scales[numbers[:, 1]][:, None]
    corner = (numbers[:, [3, 2]] - PADDING + MARGIN) * unit
    size = (sizes[numbers[:, 0]][:, ::-1] - 2 * MARGIN) * unit
    return np.hstack([corner, corner + size])


def part_boxes(
    numbers: NDArray[np.int32],
    components: list[Component],
    scale_of: Callable[[NDArray[Any]], Array],
    cell_size: int,
) -> Boxes:
    """Return the boxes of parts, of shape (n, n_parts, 4), in pixels of the image."""
    unit = cell_size / (2 * scale_of(numbers[:, 1]))[:, None, None]
    shapes = np.array([component.parts.shape[1:3] for component in components])
    locations = numbers[:, 4:].reshape(len(numbers), len(components[0].parts), 2)
    corner = (locations[..., ::-1] - PADDING) * unit
    size = shapes[numbers[:, 0]][:, None, ::-1] * unit
    return np.concatenate([corner, corner + size], axis=2)


def windows_of(
    component: Component, placements: Placements, pyramid: Pyramid, octave: int
) -> NDArray[Any]:
    """Return the cells of the root and of the parts, one placement per row."""
    numbers = placements.numbers.astype(np.int64)
    levels = numbers[:, 1]
    windows = [pyramid.windows(levels, numbers[:, 2], numbers[:, 3], component.root.shape[:2])]
    for part in range(len(component.parts)):
        rows, columns = numbers[:, 4 + 2 * part], numbers[:, 5 + 2 * part]
        size = component.parts.shape[1:3]
        windows.append(pyramid.windows(levels - octave, rows, columns, size))
    return np.hstack(windows)


def displacements_of(component: Component, placements: Placements) -> NDArray[np.float32]:
    """Return minus displacements and their squares, of which deformations are the weights."""
    numbers = placements.numbers.astype(np.float64)
    n_parts = len(component.parts)
    locations = numbers[:, 4:].reshape(len(numbers), n_parts, 2)
    ideal = 2 * numbers[:, None, 2:4] - PADDING + component.anchors
    away = locations - ideal
    columns = np.stack([away, away**2], axis=3)
    return (-columns).reshape(len(numbers), N_DEFORMATIONS * n_parts).astype(np.float32)
