"""Which matrix is nearly the inverse of an additive system, of what size, and with pairs."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from scipy import linalg, sparse

from histrs._solvers.low_rank import LowRank, precision_of_factor
from histrs._solvers.preconditioners import Indices, Preconditioner
from histrs._typing import Array, Matrix
from histrs.gaussian_process._bound.pairs import PairRows, PairTerm
from histrs.gaussian_process._bound.splines import SmoothTerm
from histrs.gaussian_process._options import PreconditionerName

# Preconditioning with knots factorises a matrix of all knots of all columns. With as many as the
# root of the number of rows asks for, the iterations do not grow with it.
_KNOTS_PER_ROOT_OF_ROWS = 6.5
_MAX_KNOTS = 6144
_MIN_KNOTS_PER_COLUMN = 8
_MAX_KNOTS_PER_COLUMN = 255
# More columns have so few knots each that a low-rank preconditioner does better.
_MAX_KNOT_COLUMNS = 256
MAX_RANK = 512
# Bytes of its factor at most, and the rank that it always may have: a lower one makes more
# iterations, each cheaper, in as much time.
_FACTOR_BYTES = 1 << 30
_MIN_RANK = 64
# Features that the additive preconditioner is solved for at a time.
_BLOCK = 64


def of_splines(
    smooth: SmoothTerm, s: float, n_rows: int, n_threads: int, row_scale: Array | None
) -> LowRank:
    """Return some columns' approximation; smooth functions leave little beside it."""
    T = smooth.rows.T
    return LowRank(
        lambda rows: smooth.cross(T[rows]).T,
        smooth.diagonal,
        s,
        _rank(n_rows, np.float64),
        n_threads,
        row_scale,
    )


def name_of(name: PreconditionerName, n_columns: int) -> PreconditionerName:
    """Return the preconditioner, chosen by the number of columns if it is to be."""
    if name != "auto":
        return name
    return "knots" if n_columns <= _MAX_KNOT_COLUMNS else "pivoted-cholesky"


def n_knots_of(shape: tuple[int, int]) -> int:
    """Return the knots of a column."""
    n_rows, n_columns = shape
    wanted = min(_KNOTS_PER_ROOT_OF_ROWS * n_rows**0.5, _MAX_KNOTS) / max(n_columns, 1)
    return int(np.clip(wanted, _MIN_KNOTS_PER_COLUMN, _MAX_KNOTS_PER_COLUMN))


def rank_of(diagonal: Array, s: float, row_scale: Array | None) -> int:
    """Return how many columns a factor has room for, and a use."""
    return _rank(len(diagonal), precision_of_factor(diagonal, s, row_scale)[0])


def _rank(n_rows: int, dtype: type[np.floating[Any]]) -> int:
    fits = max(_MIN_RANK, _FACTOR_BYTES // (np.dtype(dtype).itemsize * max(n_rows, 1)))
    return int(min(MAX_RANK, fits, max(1, n_rows // 8)))


class WithPairs:
    """`M + Phi Phi^T` with a preconditioner `M` and features `Phi = sqrt(w) H B` of the pairs.

    Its inverse is `M^-1 - M^-1 Phi (I + Phi^T M^-1 Phi)^-1 Phi^T M^-1` (Woodbury).
    """

    def __init__(
        self,
        base: Preconditioner,
        term: PairTerm,
        feature_weights: Array | None,
        cells: sparse.csr_array,
    ) -> None:
        """Extend a preconditioner of rows with these cells, multiplied by the rows' scale."""
        self._base, self._term, self._cells = base, term, cells
        self._feature_weights = feature_weights
        root = np.sqrt(term.weight) * term.kernel.root
        self._root = sparse.csc_array(root)
        inner = np.empty((root.shape[1], root.shape[1]))
        for start in range(0, root.shape[1], _BLOCK):
            block = slice(start, start + _BLOCK)
            features = np.ascontiguousarray((cells @ self._root[:, block]).toarray())
            inner[:, block] = self._project(base.solve(features))
        inner = 0.5 * (inner + inner.T)
        inner[np.diag_indices_from(inner)] += 1.0
        self._factor = (linalg.cholesky(inner, lower=True, check_finite=False), True)

    @classmethod
    def of(
        cls,
        base: Preconditioner,
        term: PairTerm,
        feature_weights: Array | None,
        row_scale: Array | None,
    ) -> Self:
        """Extend a preconditioner of the term's rows."""
        return cls(base, term, feature_weights, _scaled(row_scale, term.rows.cells))

    def _project(self, V: Array) -> Array:
        """Return `Phi^T V`."""
        return np.asarray(self._root.T @ (self._cells.T @ V))

    def solve(self, V: Array) -> Array:
        """Return the inverse times vectors."""
        solved = self._base.solve(V)
        inner = linalg.cho_solve(self._factor, self._project(solved), check_finite=False)
        expanded = np.asarray(self._cells @ (self._root @ inner))
        return solved - self._base.solve(np.ascontiguousarray(expanded))

    solve_cheaply = solve

    def insert(self, rows: Matrix, row_scale: Array | None = None) -> Self:
        """Take further rows, as the kernel takes minima of them."""
        cells = PairRows(self._term.kernel, rows, self._feature_weights).cells
        every = sparse.vstack([self._cells, _scaled(row_scale, cells)], "csr")
        return self._with(self._base.insert(rows, row_scale), every)

    def remove(self, kept: Indices, removed: Indices) -> Self:
        """Leave rows out."""
        return self._with(self._base.remove(kept, removed), self._cells[kept])

    def _with(self, base: Preconditioner, cells: sparse.csr_array) -> Self:
        return type(self)(base, self._term, self._feature_weights, cells)


def _scaled(row_scale: Array | None, cells: sparse.csr_array) -> sparse.csr_array:
    """Return the rows of cells, each multiplied by its number."""
    if row_scale is None:
        return cells
    return sparse.csr_array(sparse.diags_array(row_scale) @ cells)
