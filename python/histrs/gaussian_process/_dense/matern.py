"""The Matérn kernel of coordinates, parts and what is kept of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sklearn.metrics.pairwise import euclidean_distances

from histrs import _histrs
from histrs._solvers.block_cg import Array
from histrs.gaussian_process._dense.kernel import DenseKernel

# Kept entries are whole multiples of 1/65535. A matrix of their errors has eigenvalues of some
# twice their deviation, 1/65535/sqrt(12), times the root of the number of rows. Eight times that
# leaves iterations nothing to stumble over, and classes are told apart no worse.
_ROUNDING = 16.0 / (65535.0 * np.sqrt(12.0))
# Rows for each column that preconditions, and least and most of these.
_ROWS_A_LANDMARK = 16
_LANDMARKS = (512, 2048)


@dataclass(frozen=True)
class MaternKernel(DenseKernel):
    """The Matérn kernel of smoothness 3/2: `(1 + r) exp(-r)`, `r = sqrt(3) |x - y| / length`."""

    is_single = True
    least_tol = 1e-3

    length: float

    def parts(self, X: Array, Y: Array | None, n_threads: int) -> tuple[Array, ...]:
        """Return distances."""
        distances: Array = euclidean_distances(X, Y)
        return (distances,)

    def matrix(self, parts: tuple[Array, ...]) -> Array:
        """Return the kernel matrix."""
        r = parts[0] * (np.sqrt(3.0) / self.length)
        matrix: Array = np.exp(-r)
        r += 1.0
        matrix *= r
        return matrix

    def diagonal(self, X: Array, n_threads: int) -> Array:
        """Return ones."""
        return np.ones(len(X))

    def stored(self, X: Array, n_threads: int) -> _histrs.StoredMatern:
        """Return the kernel of all pairs of rows in 16 bits."""
        return _histrs.StoredMatern(np.ascontiguousarray(X), self.length, n_threads)

    def n_landmarks(self, n_rows: int) -> int:
        """Return how many columns of the matrix of so many rows are worth preconditioning by."""
        return int(np.clip(n_rows // _ROWS_A_LANDMARK, *_LANDMARKS))

    def least_ratio(self, n_rows: int) -> float:
        """Return the noise over amplitude beside which rounded entries do no harm."""
        return float(_ROUNDING * np.sqrt(n_rows))

    def product(self, stored: _histrs.StoredMatern, V: Array, n_threads: int) -> Array:
        """Return the product of the kernel matrix with `V`."""
        return stored.product(V, n_threads)
