"""What the training rows near a row tell of it beside a subspace."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from histrs._threads import blas_threads_at_most
from histrs._typing import Array, Matrix
from histrs.gaussian_process._posterior.krylov_space import KrylovSpace
from histrs.gaussian_process._systems.system import LEAST_NOISE, System

# Cells at most, rows that make one worth while, and rows near its centre that are conditioned on.
_MAX_CELLS = 1024
_ROWS_OF_CELL = 16
_NEAR = 256
# Cells that are asked of a row.
_ASKED = 2
# Noise, as part of the mean variance, above which factors are kept in single precision: less would
# not be far above its rounding.
_LEAST_NOISE_OF_SINGLE = 1e-4
# Numbers of a block of distances.
_BLOCK = 1 << 22

Indices = NDArray[np.intp]


class NearbyRows:
    r"""Groups of training rows, near to one another, whose values are conditioned on.

    With :math:`R R^T = Q T^{-1} Q^T` from a Krylov space `Q` of `A = K + s I`, the rows `N` know of
    a row `x`, beyond what the space does,

    .. math::
        c^T C^{-1} c, \quad c = k(x, N) - (A R)_N R^T k_x, \quad
        C = A_{NN} - (A R)_N (A R)_N^T

    Rows are near in the coordinates :math:`R^T k_x`, in which distances are nearly those of the
    kernel. `N` is near the centre of a cell of training rows; of the two whose centres are nearest
    to `x`, that counts which knows more.
    """

    def __init__(self, system: System, space: KrylovSpace) -> None:
        self._system, self._rows = system, space.rows
        coordinates = space.coordinates
        cells = _cells(coordinates, min(_MAX_CELLS, -(-len(coordinates) // _ROWS_OF_CELL)))
        self._centres = np.array([coordinates[cell].mean(axis=0) for cell in cells])
        self._members = _nearest(coordinates, self._centres, min(_NEAR, len(coordinates)))
        self._known = space.AQ @ space.root
        single = system.s > _LEAST_NOISE_OF_SINGLE * float(np.mean(system.diagonal))
        self._factors: list[NDArray[np.floating]] = []
        with blas_threads_at_most(1):
            for near in self._members:
                C = self._matrix(near) - self._known[near] @ self._known[near].T
                factor = _factor(C, self._least)
                self._factors.append(factor.astype(np.float32) if single else factor)

    @property
    def _least(self) -> float:
        """What is added to a diagonal that rounding could make indefinite."""
        return LEAST_NOISE * float(self._system.diagonal.sum())

    def known(self, rows: Matrix, scores: Array) -> Array:
        """Return how much less is left of the variance of rows, with their `R^T k_x`."""

        def left(near: Indices, part: Indices) -> Array:
            cross = self._system.cross_of(self._rows[near], rows[part])
            cross -= self._shared(near, scores[part])
            return cross

        return self._largest(scores, left)

    def known_by_rounding(self, scores: Array, errors: Array) -> Array:
        """Return what errors of `R^T k_x` seem to know of rows, beside what is linear in them."""
        return self._largest(scores, lambda near, part: self._shared(near, errors[part]))

    def _shared(self, near: Indices, scores: Array) -> Array:
        shared: Array = self._known[near] @ scores.T
        return shared

    def _largest(self, scores: Array, of: Callable[[Indices, Indices], Array]) -> Array:
        """Return the largest `c^T C^-1 c` in the cells of rows, for `c` of members and of rows."""
        largest = np.zeros(len(scores))
        with blas_threads_at_most(1):
            for cells in self._asked(scores).T:
                order = np.argsort(cells, kind="stable")
                for part in np.split(order, np.flatnonzero(np.diff(cells[order])) + 1):
                    if len(part) > 0:
                        cell = cells[part[0]]
                        square = self._square(cell, of(self._members[cell], part))
                        largest[part] = np.maximum(largest[part], square)
        return largest

    def _asked(self, coordinates: Array) -> Indices:
        """Return the cells that are asked of each row."""
        return _nearest(self._centres, coordinates, min(_ASKED, len(self._centres)))

    def _square(self, cell: int, c: Array) -> Array:
        factor = self._factors[cell]
        c = c.astype(factor.dtype, copy=False)
        left = linalg.solve_triangular(factor, c, lower=True, check_finite=False)
        square: Array = np.einsum("ij,ij->j", left, left)
        return square

    def known_without_itself(self, space: KrylovSpace, indices: Indices) -> Array:
        """Return the same of some of the space's rows, each as if it were not a training row."""
        less = np.zeros(len(indices))
        with blas_threads_at_most(1):
            cells = self._asked(space.coordinates[indices])
            T, projected = space.without(indices)
            for i, index in enumerate(indices):
                for near in self._members[cells[i]]:
                    others = near[near != index]
                    known = self._known_of_others(space, index, others, T[i], projected[i])
                    less[i] = max(less[i], known)
        return less

    def _known_of_others(
        self, space: KrylovSpace, index: np.intp, others: Indices, T: Array, projected: Array
    ) -> float:
        A = self._matrix(np.append(others, index))
        of_row, A = A[:-1, -1], A[:-1, :-1]
        AQ = space.AQ[others] - np.outer(of_row, space.Q[space.rows[index]])
        solved = np.linalg.solve(T, np.column_stack([AQ.T, projected]))
        factor = _factor(A - AQ @ solved[:, :-1], self._least)
        c = of_row - AQ @ solved[:, -1]
        left = linalg.solve_triangular(factor, c, lower=True, check_finite=False)
        return float(left @ left)

    def _matrix(self, indices: Indices) -> Array:
        """Return `A` of some rows of the space."""
        system, rows = self._system, self._rows[indices]
        A = system.matrix_of(rows)
        A[np.diag_indices_from(A)] += system.s
        return A


def _cells(F: Array, n_cells: int) -> list[Indices]:
    """Return parts of the rows, made by halving the largest where it is widest."""
    cells = [np.arange(len(F))]
    while len(cells) < n_cells:
        # Parts are halved in turn, so that their sizes differ by few.
        halved: list[Indices] = []
        for k, cell in enumerate(cells):
            if len(halved) + len(cells) - k >= n_cells or len(cell) < 2:
                halved.append(cell)
                continue
            widest = int(np.argmax(np.var(F[cell], axis=0)))
            order = cell[np.argsort(F[cell, widest], kind="stable")]
            halved += [order[: len(order) // 2], order[len(order) // 2 :]]
        if len(halved) == len(cells):
            break
        cells = halved
    return cells


def _nearest(F: Array, to: Array, k: int) -> Indices:
    """Return the `k` rows of `F` that are nearest to each row of another matrix, ascending."""
    nearest = np.empty((len(to), k), np.intp)
    squares = np.einsum("ij,ij->i", F, F)
    step = max(1, _BLOCK // max(len(F), 1))
    for start in range(0, len(to), step):
        part = slice(start, start + step)
        distances = squares - 2.0 * (to[part] @ F.T)
        found = np.argpartition(distances, k - 1, axis=1)[:, :k]
        nearest[part] = np.sort(found, axis=1)
    return nearest


def _factor(C: Array, least: float) -> Array:
    """Return the lower factor of a matrix that is positive semi-definite but for rounding."""
    while True:
        C[np.diag_indices_from(C)] += least
        try:
            return np.asarray(np.linalg.cholesky(C), dtype=np.float64)
        except np.linalg.LinAlgError:
            least = max(10.0 * least, np.finfo(np.float64).tiny)
