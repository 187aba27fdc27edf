"""Costs of transport to prototypes, each as exact as the probabilities of classes need it.

Any potentials of a prototype bound the cost of transport to it from below. The bound takes an inner
product with the row, since the sums over bins, which take most of the time, do not depend on the
row. The bound says how much a prototype can add to a probability, and so how far its transport is
iterated. Iterations start from the best bound. For most prototypes the bound alone is enough.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from histrs import _histrs
from histrs._checks.validation import count_threads, to_core
from histrs._threads import blas_threads_at_most
from histrs._typing import Array, Matrix
from histrs.transport._pairs import sinkhorn_of_pairs

Indices = NDArray[np.intp]
Pairs: TypeAlias = tuple[Indices, Indices]

FEWEST_ROWS = 64
"""Rows for which the bounds pay."""

# Prototypes whose potentials are tried, and the error of a marginal that these have.
_MOST_SOURCES = 16
_SOURCE_TOL = 1e-2
# Rows that are looked at at once.
_CHUNK = 512
# What a prototype adds to a probability, at most, from which on its cost is iterated to an error of
# the marginals, in double precision or not. The error of the cost is some ten times the square of
# that, in units of the regularisation.
_LEVELS = ((2e-2, (2e-5, True)), (1e-4, (1e-4, False)), (1e-8, (1e-3, False)))


# Its products end before other threads of BLAS have woken, which then wait in a loop.
@blas_threads_at_most(1)
def decisive_costs(
    X: Matrix,
    prototypes: Array,
    own: Array,
    *,
    M: Array,
    reg: float,
    inverse_temperature: float,
    max_iter: int,
    n_jobs: int | None,
) -> Array:
    """Return regularised costs of transport, less `own` of the prototype.

    With the softmax of `-inverse_temperature` times them, probabilities are right to 1e-6. All
    histograms have a sum of 1, and `M` is symmetric.
    """
    tables = _bounding_tables(prototypes, M, reg, max_iter, n_jobs)
    solve = _Solver(X, prototypes, M=M, reg=reg, max_iter=max_iter, n_jobs=n_jobs)
    costs = np.empty((X.shape[0], len(prototypes)))
    for start in range(0, X.shape[0], _CHUNK):
        rows = X[start : start + _CHUNK]
        dense = np.asarray(rows.toarray() if sparse.issparse(rows) else rows, dtype=np.float64)
        bounds = _Bounds(dense, *tables)
        found = reg * bounds.values - own

        def improve(
            indices: Pairs, level: tuple[float, bool], bounds: _Bounds = bounds, start: int = start
        ) -> Array:
            of, columns = indices
            costs_of = solve(start + of, columns, bounds.scalings(of, columns), *level)
            return costs_of - own[columns]

        nearest = np.arange(len(dense)), found.argmin(axis=1)
        least_cost = improve(nearest, _LEVELS[0][1])
        share = np.exp(-inverse_temperature * (found - least_cost[:, None]).clip(min=0.0))
        found[nearest], share[nearest] = least_cost, 0.0
        above = np.inf
        for least, level in _LEVELS:
            rows_at, columns = np.nonzero((share >= least) & (share < above))
            found[rows_at, columns] = improve((rows_at, columns), level)
            above = least
        costs[start : start + _CHUNK] = found
    return costs


class _Bounds:
    """Bounds of some rows, in units of the regularisation, and the scalings that they belong to."""

    def __init__(self, rows: Array, sums: Array, constants: Array) -> None:
        self._sums = sums
        self._logs = np.log(rows, out=np.zeros_like(rows), where=rows > 0)
        duals = constants[:, :, None] - np.tensordot(sums, rows, axes=(2, 1))
        self._best = duals.argmax(axis=0)
        best = np.take_along_axis(duals, self._best[None], axis=0)[0]
        self.values: Array = np.sum(rows * self._logs, axis=1)[:, None] + best.T

    def scalings(self, of: Indices, columns: Indices) -> NDArray[np.float32]:
        """Return logarithms of the scalings of rows that lead to the bounds."""
        scalings = self._logs[of] - self._sums[self._best[columns, of], columns]
        return np.asarray(scalings, dtype=np.float32)


class _Solver:
    """Transport of chosen pairs, in double precision or in single."""

    def __init__(self, X: Matrix, prototypes: Array, **options: Any) -> None:
        self._pairs = {
            double: (X.astype(dtype, copy=False), prototypes.astype(dtype))
            for double, dtype in ((True, X.dtype), (False, np.float32))
        }
        self._options = options

    def __call__(
        self, rows: Indices, columns: Indices, starts: NDArray[np.float32], tol: float, double: bool
    ) -> Array:
        found = sinkhorn_of_pairs(
            *self._pairs[double],
            rows,
            columns,
            tol=tol,
            cost="regularized",
            starts=starts,
            **self._options,
        )
        return found.astype(np.float64)


def _bounding_tables(
    prototypes: Array, M: Array, reg: float, max_iter: int, n_jobs: int | None
) -> tuple[Array, Array]:
    """Return `log sum_j exp(g_j - M_ij / reg)` of potentials `g` of each prototype, and `h . g`.

    They are those of transport from some of the prototypes. In units of `reg`, `a . log a` less the
    inner product of a histogram `a` with the first, and the second, are the dual of the cost.
    """
    n = len(prototypes)
    sources = prototypes[:: -(-n // _MOST_SOURCES)]
    _, _, _, potentials = _histrs.sinkhorn_distances(
        *(to_core(sources), to_core(prototypes), M, reg, _SOURCE_TOL, max_iter, True, True),
        count_threads(n_jobs),
    )
    assert potentials is not None
    # A bin without mass takes no part.
    g = np.where(prototypes > 0, potentials[1] / reg, -np.inf)
    largest = g.max(axis=2, keepdims=True)
    kernel = np.exp(np.maximum(-M / reg, -700.0))
    # A sum that is too large only loosens the bound.
    sums = np.log(np.maximum(np.exp(g - largest) @ kernel, np.finfo(np.float64).tiny)) + largest
    constants = np.sum(np.where(prototypes > 0, g, 0.0) * prototypes, axis=2)
    return sums, constants
