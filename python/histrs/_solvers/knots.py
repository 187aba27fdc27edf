"""The preconditioner by a projection on the knots of columns."""

from __future__ import annotations

import copy
from typing import Self

import numpy as np
from scipy import linalg

from histrs import _histrs
from histrs._checks.validation import to_core
from histrs._solvers.cholesky import factor_with_jitter
from histrs._solvers.preconditioners import Indices
from histrs._solvers.row_scale import scaled
from histrs._typing import Array, Matrix


class Knots:
    """The kernel projected on some values of every column, its knots.

    `M = Phi K_ZZ Phi^T + s I` with hat functions `Phi` on the knots; its inverse is `(I - Phi
    (Phi^T Phi + s K_ZZ^-1)^-1 Phi^T) / s`. The rest of the kernel is Brownian bridges between
    knots, with eigenvalues of order N / n_knots^2. So the number of iterations does not depend on N
    if n_knots grows as sqrt(N). With a `row_scale`, the rows of `Phi` are multiplied by it.
    """

    def __init__(
        self,
        columns: _histrs.SortedColumns,
        s: float,
        n_knots: int,
        n_threads: int,
        row_scale: Array | None = None,
    ) -> None:
        projection = _histrs.KnotProjection(columns, n_knots, n_threads)
        self._factorise(projection, s, n_threads, row_scale)

    @classmethod
    def of_projection(
        cls,
        projection: _histrs.KnotProjection,
        s: float,
        n_threads: int,
        row_scale: Array | None = None,
    ) -> Self:
        """Return the preconditioner of rows that are projected already."""
        made = object.__new__(cls)
        made._factorise(projection, s, n_threads, row_scale)
        return made

    def _factorise(
        self, projection: _histrs.KnotProjection, s: float, n_threads: int, row_scale: Array | None
    ) -> None:
        self._s = s
        self._n_threads = n_threads
        self._row_scale = row_scale
        self._projection = projection
        inner = self._gram(self._projection, row_scale)
        diagonal, upper = self._projection.inverse_kernel()
        index = np.arange(len(diagonal))
        inner[index, index] += s * diagonal
        inner[index[:-1], index[1:]] += s * upper[:-1]
        inner[index[1:], index[:-1]] += s * upper[:-1]
        # Columns of different scales would spoil the factorisation.
        self._scale = 1.0 / np.sqrt(np.diag(inner))
        inner *= self._scale
        inner *= self._scale[:, None]
        self._factor = (factor_with_jitter(inner), True)

    def solve(self, V: Array) -> Array:
        """Return `M^-1 V`."""
        weights = self._projection.project(scaled(self._row_scale, V), self._n_threads)
        weights *= self._scale[:, None]
        weights = linalg.cho_solve(self._factor, weights, overwrite_b=True, check_finite=False)
        weights *= self._scale[:, None]
        V = V - scaled(self._row_scale, self._projection.expand(weights, self._n_threads))
        V /= self._s
        return V

    solve_cheaply = solve

    def insert(self, rows: Matrix, row_scale: Array | None = None) -> Self:
        """Project further rows on the same knots."""
        columns = _histrs.SortedColumns(to_core(rows), self._n_threads)
        new = self._projection.of_rows(columns, self._n_threads)
        before = self._row_scale
        every = None if before is None or row_scale is None else np.append(before, row_scale)
        projection = self._projection.concatenate(new, self._n_threads)
        return self._changed(projection, every, self._gram(new, row_scale))

    def remove(self, kept: Indices, removed: Indices) -> Self:
        """Leave rows out; the knots stay."""
        left, gone = (self._projection.select(i, self._n_threads) for i in (kept, removed))
        r = self._row_scale
        of_left, of_gone = (None, None) if r is None else (r[kept], r[removed])
        return self._changed(left, of_left, -self._gram(gone, of_gone))

    def _gram(self, projection: _histrs.KnotProjection, row_scale: Array | None) -> Array:
        if row_scale is None:
            return projection.gram(self._n_threads)
        return projection.weighted_gram(row_scale**2, self._n_threads)

    def _changed(
        self, projection: _histrs.KnotProjection, row_scale: Array | None, change: Array
    ) -> Self:
        """Return the preconditioner with another projection, and a change of its matrix."""
        L = self._factor[0]
        inner = L @ L.T + self._scale[:, None] * change * self._scale
        changed = copy.copy(self)
        changed._projection, changed._row_scale = projection, row_scale
        changed._factor = (factor_with_jitter(inner), True)
        return changed
