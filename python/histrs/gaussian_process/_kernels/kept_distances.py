"""Kernels of distances of all pairs of rows, kept in two bytes each."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from histrs import _histrs
from histrs._solvers.low_rank import factor_by_pivots
from histrs._typing import Array

# Columns of the factor that is kept as it is: smooth functions are in it, whose amplitudes rounding
# would drown noise in. With the part of the largest variance below which nothing is left of a row.
_RANK = 256
_FLOOR = 1e-9
# What is left is kept as whole multiples of 1/32767. A matrix of their errors has eigenvalues of
# some twice their deviation, 1/32767/sqrt(12), times the root of the number of rows. Twice that
# leaves iterations nothing to stumble over.
_ROUNDING = 4.0 / (32767.0 * np.sqrt(12.0))
# Rows for each column that preconditions, and least and most of these.
_ROWS_A_LANDMARK = 16
_LANDMARKS = (512, 2048)


class KeptDistances:
    """What a kernel of distances has in common with others whose pairs of rows are kept."""

    is_single: ClassVar[bool] = True
    least_tol: ClassVar[float] = 1e-3

    def core(self, n_columns: int) -> _histrs.DistanceKernel:
        """Return the kernel of rows of so many columns."""
        raise NotImplementedError

    def diagonal(self, X: Array, n_threads: int) -> Array:
        """Return the kernel of every row with itself."""
        raise NotImplementedError

    def stored(self, X: Array, n_threads: int) -> _histrs.StoredDistances:
        """Return the kernel of all pairs of rows."""
        X = np.ascontiguousarray(X, dtype=np.float64)
        core, diagonal = self.core(X.shape[1]), self.diagonal(X, n_threads).copy()
        floor = _FLOOR * float(np.max(diagonal, initial=0.0))
        F_T, _ = factor_by_pivots(
            lambda pivots: core.matrix(X[pivots], X, n_threads), diagonal, floor, _RANK, np.float64
        )
        return core.stored(X, np.ascontiguousarray(F_T.T), n_threads)

    def product(self, stored: _histrs.StoredDistances, V: Array, n_threads: int) -> Array:
        """Return the product of the kernel matrix with `V`."""
        return stored.product(V, n_threads)

    def n_landmarks(self, n_rows: int) -> int:
        """Return how many columns of the matrix of so many rows are worth preconditioning by."""
        return int(np.clip(n_rows // _ROWS_A_LANDMARK, *_LANDMARKS))

    def least_ratio(self, stored: _histrs.StoredDistances, n_rows: int) -> float:
        """Return the noise over amplitude beside which rounded entries do no harm."""
        return float(_ROUNDING * np.sqrt(n_rows)) * stored.mean_rest()
