"""From rows of a table to the non-negative projections that the inner model takes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from histrs import _histrs
from histrs._typing import Array
from histrs.gaussian_process._sliced.columns import Columns

# Levels of a projection: with so few, products read them as bytes.
_N_LEVELS = 255
# Rows at a time: what is in between stays in the cache.
_ROWS = 512


@dataclass(frozen=True)
class Projection:
    """`max(A W - low, 0) * weights` of standardised columns `A`, rounded where there are levels.

    The kernel's weights go through the minimum, so that no second matrix is made for them.
    """

    columns: Columns
    W: Array
    low: Array
    weights: Array
    levels: Array | None = None
    """Ascending levels of each projection, of shape (n_projections, n_levels)."""

    def apply(self, numbers: Array, n_threads: int) -> NDArray[Any]:
        """Return the projections of rows, in single precision where they are rounded."""
        dtype = np.float64 if self.levels is None else np.float32
        T = np.empty((len(numbers), self.W.shape[1]), dtype)
        for start in range(0, len(numbers), _ROWS):
            rows = slice(start, start + _ROWS)
            part: NDArray[Any] = self._unrounded(self.columns.apply(numbers[rows]))
            if self.levels is not None:
                part = _histrs.nearest_levels(part, self.levels, n_threads)
            T[rows] = part
        return T

    def rounding(self, numbers: Array) -> Projection:
        """Return the projection that rounds to quantiles of these rows."""
        T = self._unrounded(self.columns.apply(numbers))
        levels = np.quantile(T, np.linspace(0.0, 1.0, _N_LEVELS), axis=0).T
        return replace(self, levels=np.ascontiguousarray(levels))

    @cached_property
    def _copied(self) -> tuple[NDArray[np.intp], NDArray[np.intp], list[slice]]:
        """Projections that are a column times a number, these columns, and the others."""
        is_copied = np.count_nonzero(self.W, axis=0) == 1
        copied = np.flatnonzero(is_copied)
        others = np.flatnonzero(~is_copied)
        runs = np.split(others, np.flatnonzero(np.diff(others) > 1) + 1)
        slices = [slice(run[0], run[-1] + 1) for run in runs if len(run) > 0]
        return copied, np.argmax(self.W[:, copied] != 0.0, axis=0), slices

    def _unrounded(self, A: Array) -> Array:
        copied, of_columns, others = self._copied
        T = np.empty((len(A), self.W.shape[1]))
        T[:, copied] = A[:, of_columns] * self.W[of_columns, copied]
        for run in others:
            T[:, run] = A @ self.W[:, run]
        T -= self.low
        np.maximum(T, 0.0, out=T)
        T *= self.weights
        return T
