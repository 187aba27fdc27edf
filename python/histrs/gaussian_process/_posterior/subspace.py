"""A Krylov space of a linear system, and what training rows near a row tell of it beside that."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from histrs._solvers.row_scale import scaled
from histrs._threads import blas_threads_at_most
from histrs._typing import Array, Matrix
from histrs.gaussian_process._systems.system import LEAST_NOISE, System

# Right-hand sides from which a space is built: whole vectors of the core.
N_PROBES = 8
# What a row that is left out keeps on the diagonal, as part of `s`: with nothing, the matrix would
# be singular.
_APART = 1e-6
# Part of a vector below which what is left of it is rounding.
_ROUNDING = 1e-12
# Cells at most, rows that make one worth while, and rows near its centre that are conditioned on.
_MAX_CELLS = 1024
_ROWS_OF_CELL = 16
_NEAR = 256
# Cells that are asked of a row.
_ASKED = 2
# Noise, as part of the mean variance, that is far above the rounding of single precision.
_LEAST_NOISE_OF_SINGLE = 1e-4
# Numbers of a block of distances.
_BLOCK = 1 << 22

Indices = NDArray[np.intp]


class KrylovSpace:
    """A block Krylov space of `A = K + s I`, from random signs.

    `Q` is an orthonormal basis, `T` is `Q^T A Q`, and `AQ` has some `rows` of `A Q`, ascending.
    """

    def __init__(
        self, system: System, rank: int, rows: NDArray[np.intp], rng: np.random.Generator
    ) -> None:
        n = len(system.diagonal)
        Q = np.empty((n, 0))
        T = np.zeros((rank, rank))
        AQ = np.empty((len(rows), rank))
        V = rng.choice([-1.0, 1.0], size=(n, min(N_PROBES, rank)))
        while True:
            V = new_directions(Q, V, rng)[:, : rank - Q.shape[1]]
            Q = np.hstack([Q, V])
            with blas_threads_at_most(1):
                product = system.multiply(np.ascontiguousarray(V))
            new = slice(Q.shape[1] - V.shape[1], Q.shape[1])
            T[: Q.shape[1], new] = Q.T @ product
            AQ[:, new] = product[rows]
            if Q.shape[1] == rank:
                break
            V = product
        self.Q, self.rows, self.AQ = Q, rows, AQ
        # Of the lower half, nothing was computed.
        self.T = np.triu(T) + np.triu(T, 1).T
        self._system, self._s = system, system.s

    @cached_property
    def root(self) -> Array:
        """`W` with `W W^T = T^-1`, without what is rounding."""
        values, vectors = linalg.eigh(self.T, check_finite=False)
        kept = values > 0.5 * self._s
        root: Array = vectors[:, kept] / np.sqrt(values[kept])
        # Rounding decides which way an eigenvector points, and must decide nothing else.
        largest = np.argmax(np.abs(root), axis=0)
        root *= np.where(root[largest, np.arange(root.shape[1])] < 0.0, -1.0, 1.0)
        return root

    @cached_property
    def directions(self) -> Array:
        """`R = Q W`, with `R R^T = Q T^-1 Q^T`."""
        directions: Array = self.Q @ self.root
        return directions

    @cached_property
    def coordinates(self) -> Array:
        """`R^T k_x` of `rows`, as of rows that are not scaled."""
        coordinates: Array = (self.AQ - self._s * self.Q[self.rows]) @ self.root
        scale = self._system.row_scale
        return scaled(None if scale is None else 1.0 / scale[self.rows], coordinates)

    def upper_without_itself(self, indices: NDArray[np.intp]) -> Array:
        """Return what is left of the variance of some of `rows`, each as if it were not one."""
        T, projected = self.without(indices)
        with blas_threads_at_most(1):
            solved = np.linalg.solve(T, projected[:, :, None])[:, :, 0]
        prior = self._system.diagonal[self.rows[indices]]
        upper: Array = prior - np.einsum("ij,ij->i", projected, solved)
        return upper

    def without(self, indices: NDArray[np.intp]) -> tuple[Array, Array]:
        """Return `T` of the matrix with zeros for what a row has to do with others, ...

        ... and what the space has to do with that row, for each of some of `rows`.
        """
        rows, diagonal = self.rows[indices], self._system.diagonal
        q, w, prior = self.Q[rows], self.AQ[indices], diagonal[rows]
        cross = q[:, :, None] * w[:, None, :]
        square = q[:, :, None] * q[:, None, :]
        T = self.T - cross - cross.transpose(0, 2, 1)
        T += (prior + (1.0 + _APART) * self._s)[:, None, None] * square
        # Noise that vanishes beside the kernel does not keep the matrix from being singular.
        lacking = max(LEAST_NOISE * float(diagonal.sum()) - self._s, 0.0)
        T += lacking * np.eye(T.shape[-1])
        return T, w - (prior + self._s)[:, None] * q


def new_directions(Q: Array, V: Array, rng: np.random.Generator) -> Array:
    """Return orthonormal vectors, orthogonal to `Q`, that span what it lacks of `V`."""
    # In a unit in which squares stay within the range; a power of 2 rounds nothing.
    V = np.ldexp(V, -np.frexp(np.max(np.abs(V), initial=0.0))[1])
    left = V - Q @ (Q.T @ V)
    # Where the space ends, random directions go on.
    lost = np.linalg.norm(left, axis=0) <= _ROUNDING * np.linalg.norm(V, axis=0)
    left[:, lost] = rng.standard_normal((len(V), int(np.sum(lost))))
    for _ in range(3):
        left -= Q @ (Q.T @ left)
        left, _ = linalg.qr(left, mode="economic", check_finite=False)
        if np.max(np.abs(Q.T @ left), initial=0.0) <= _ROUNDING:
            break
    return np.asarray(left)


def is_far_above_rounding(system: System) -> bool:
    """Say whether the noise is so large that single precision is as good for variances."""
    return bool(system.s > _LEAST_NOISE_OF_SINGLE * float(np.mean(system.diagonal)))


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
        self._system, self._rows = replace(system), space.rows
        coordinates = space.coordinates
        cells = _cells(coordinates, min(_MAX_CELLS, -(-len(coordinates) // _ROWS_OF_CELL)))
        self._centres = np.array([coordinates[cell].mean(axis=0) for cell in cells])
        near = _nearest(coordinates, self._centres, min(_NEAR, len(coordinates)))
        self._members = near.astype(np.int32)
        self._single = is_far_above_rounding(system)
        known = space.AQ @ space.root
        self._known = known.astype(np.float32) if self._single else known
        self._factors: dict[int, NDArray[np.floating]] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Return all but the factors, which are made again where they are asked for."""
        return {**vars(self), "_factors": {}}

    def _factor_of(self, cell: int) -> NDArray[np.floating]:
        """Return the factor of `C` of a cell, made when it is first asked for."""
        if cell not in self._factors:
            near = self._members[cell]
            known = self._known[near].astype(np.float64)
            C = self._matrix(near) - known @ known.T
            factor = _factor(C, self._least)
            self._factors[cell] = factor.astype(np.float32) if self._single else factor
        return self._factors[cell]

    @property
    def _least(self) -> float:
        """What is added to a diagonal that rounding could make indefinite."""
        return LEAST_NOISE * float(self._system.diagonal.sum())

    def known(self, rows: Matrix, scores: Array) -> Array:
        """Return how much less is left of the variance of rows, with their `R^T k_x`."""

        def left(near: Indices, part: Indices) -> Array:
            cross = self._system.cross_of(self._rows[near], rows[part])
            cross -= self._known[near] @ scores[part].T
            return cross

        return self._largest(scores, left)

    def known_by_rounding(self, scores: Array, errors: Array) -> Array:
        """Return what errors of `R^T k_x` seem to know of rows, beside what is linear in them."""
        return self._largest(scores, lambda near, part: self._known[near] @ errors[part].T)

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
        factor = self._factor_of(int(cell))
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
