"""How a product quantizer learns: k-means of each block, level by level, and its next chunks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from histrs._typing import Array, Matrix
from histrs.quantization import _codebooks, _rotation
from histrs.quantization._coder import Blocks, Coder
from histrs.quantization._metrics import sums_by_code
from histrs.quantization._rotation import rotated


@dataclass(frozen=True)
class Learner:
    """Learns codebooks of `n_codes` for each block."""

    blocks: Blocks
    n_codes: int
    algorithm: Literal["lloyd", "minibatch"]
    max_iter: int
    rng: np.random.RandomState
    progress: Callable[[str], None]

    def learn(self, rows: Matrix, n_levels: int, rotate: bool) -> tuple[Coder, int]:
        """Return what has been learned, in the dtype of the rows, and the most iterations."""
        if not rotate and n_levels == 1:
            codebooks, n_iter = self._learn_level(rows)
            rotation = None
        else:
            rotation, codebooks, n_iter = self._learn_levels(rows, n_levels, rotate)
        return Coder(self.blocks, codebooks.astype(rows.dtype), rotation, n_levels), n_iter

    def _learn_level(self, rows: Matrix) -> tuple[Array, int]:
        offsets, metric = self.blocks.offsets, self.blocks.metric
        codebooks, n_iter = _codebooks.learn(
            rows,
            offsets,
            self.n_codes,
            metric,
            self.algorithm,
            self.max_iter,
            self.rng,
            self.blocks.n_threads,
            self.progress,
        )
        codebooks = _codebooks.refine(
            rows, offsets, codebooks, metric, lambda codebooks: self.blocks.nearest(rows, codebooks)
        )
        return codebooks, n_iter

    def _learn_levels(
        self, rows: Matrix, n_levels: int, rotate: bool
    ) -> tuple[NDArray[np.floating] | None, Array, int]:
        """Return the rotation, the codebooks of all levels, and the most iterations."""
        n_threads, rotation = self.blocks.n_threads, None
        left_over = rotated(rows, None, n_threads).astype(np.float64, copy=False)
        levels: list[Array] = []
        n_iters = []
        for level in range(n_levels):
            if level == 0 and rotate:
                rotation, codebooks, n_iter = _rotation.learn(
                    left_over,
                    self.blocks.offsets,
                    self.n_codes,
                    self.algorithm,
                    self.max_iter,
                    self.rng,
                    n_threads,
                    self.blocks.nearest,
                    self.progress,
                )
                left_over = rotated(left_over, rotation, n_threads)
                rotation = rotation.astype(rows.dtype)
            else:
                codebooks, n_iter = self._learn_level(left_over)
            levels.append(codebooks)
            n_iters.append(n_iter)
            if level + 1 < n_levels:
                codes = self.blocks.nearest(left_over, codebooks)
                left_over -= self.blocks.decode(codes, codebooks)
        codebooks = np.stack(levels, axis=1).reshape(-1, *levels[0].shape[1:])
        return rotation, codebooks, max(n_iters)


def counts_of(coder: Coder, rows: Matrix) -> Array:
    """Return how many rows each codeword stands for."""
    codes, n_codes = coder.encode(rows), coder.codebooks.shape[1]
    counts = [np.bincount(column, minlength=n_codes) for column in codes.T]
    return np.stack(counts).astype(np.float64)


def moved(coder: Coder, counts: Array, rows: Matrix) -> tuple[Array, Array]:
    """Return codebooks and counts after a step of mini-batch k-means by further rows.

    A codeword becomes the mean of all rows that it has stood for.
    """
    codes, n_levels, metric = coder.encode(rows), coder.n_levels, coder.blocks.metric
    codebooks, counts = coder.codebooks.astype(np.float64), counts.copy()
    n_codes = codebooks.shape[1]
    for level, values in enumerate(coder.residuals(rows, codes)):
        for m, (start, stop) in enumerate(coder.blocks.edges()):
            book = m * n_levels + level
            part = metric.coordinates(_codebooks.block(values, start, stop))
            sums = sums_by_code(part, codes[:, book], n_codes)
            centres = codebooks[book, :, : stop - start]
            sums += counts[book][:, None] * metric.coordinates(centres)
            counts[book] += np.bincount(codes[:, book], minlength=n_codes)
            used = counts[book] > 0
            centres[used] = metric.values(sums[used] / counts[book][used, None])
    return codebooks, counts
