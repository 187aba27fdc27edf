"""The cells of an image at many scales, by their features or codes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from histrs import _histrs
from histrs._typing import Array
from histrs.quantization import ProductQuantizer


@dataclass(frozen=True)
class Pyramid:
    """Cells of all levels, one level below the other."""

    cells: NDArray[Any]
    """(n_cells, 31) features, or (n_cells, n_blocks) codes."""
    shapes: list[tuple[int, int]]
    """Rows and columns of each level, with padding."""
    scales: Array
    """Of each level: cells are so many pixels of the scaled image."""

    @property
    def firsts(self) -> NDArray[np.int64]:
        """The first cell of each level."""
        sizes = [rows * columns for rows, columns in self.shapes]
        return np.cumsum([0, *sizes[:-1]]).astype(np.int64)

    def windows(
        self, levels: NDArray[Any], rows: NDArray[Any], columns: NDArray[Any], size: tuple[int, int]
    ) -> NDArray[Any]:
        """Return what is in windows of some cells, one window per row."""
        pitch = np.array([shape[1] for shape in self.shapes])[levels]
        corner = self.firsts[levels] + rows * pitch + columns
        down, across = np.arange(size[0]), np.arange(size[1])
        inside = pitch[:, None, None] * down[:, None] + across
        cells: NDArray[Any] = self.cells[corner[:, None, None] + inside]
        return cells.reshape(len(corner), -1)


def pyramid_of(
    image: NDArray[np.float32],
    scales: Array,
    *,
    cell_size: int,
    padding: int,
    quantizer: ProductQuantizer | None,
    n_threads: int,
) -> Pyramid:
    """Return the cells of an image at some scales."""
    cells, shapes = _histrs.hog_pyramid(image, cell_size, scales, padding, n_threads)
    codes = cells if quantizer is None else quantizer.transform(cells)
    return Pyramid(codes, shapes, scales)


def pyramid_scales(
    shape: tuple[int, ...],
    smallest: tuple[int, int],
    *,
    cell_size: int,
    levels_per_octave: int,
    first: int,
) -> Array:
    """Return scales from `2^-first/levels` on, while some cells fit into the image.

    Negative numbers of the first level enlarge the image.
    """
    room = min(n / (cell_size * m) for n, m in zip(shape[:2], smallest, strict=True))
    last = int(np.floor(levels_per_octave * np.log2(max(room, 1e-9))))
    numbers = np.arange(first, max(last, first - 1) + 1)
    return np.asarray(2.0 ** (-numbers / levels_per_octave))
