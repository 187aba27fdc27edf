"""Scores of rows against weighted training rows, exact or from a table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from histrs import _histrs
from histrs._solvers.block_cg import Array
from histrs._validation import Matrix, to_core

# Larger tables are made a few columns at a time, for each call.
_MAX_TABLE_BYTES = 1 << 30
# Cells of tables that may be of bytes by their share of the spread of scores.
_CELLS_OF_BYTES = range(64, 129)
# One column in so many may be too odd for a table of bytes.
_ODD_SHARE = 16


class Score(Protocol):
    """`K(X, X_train) V` for any rows `X`."""

    takes_features: bool
    """Whether rows are features as they are, and not what the kernel makes of them."""

    def evaluate(self, X: Matrix, n_threads: int) -> Array:
        """Return the scores of every row of `X`, of shape (n_samples, n_outputs)."""

    def error_bound(self) -> Array:
        """Return what no score of an output is off by more than, of shape (n_outputs,)."""


class ExactScore:
    """A score from its functions of the columns, which are kept where there is room."""

    takes_features = False

    def __init__(self, columns: _histrs.SortedColumns, V: Array, n_threads: int) -> None:
        self._columns, self._V = columns, V
        self._functions: _histrs.ShapeFunctions | None = None
        if columns.n_knots * (V.shape[1] + 1) * 8 <= _MAX_TABLE_BYTES:
            self._functions = _histrs.ShapeFunctions(columns, V, n_threads)

    def evaluate(self, X: Matrix, n_threads: int) -> Array:
        """Return the scores of every row of `X`, of shape (n_samples, n_outputs)."""
        if self._functions is None:
            return self._columns.cross_product(to_core(X), self._V, n_threads)
        return self._functions.evaluate(to_core(X), n_threads)

    def error_bound(self) -> Array:
        """Return zeros."""
        return np.zeros(self._V.shape[1])


class ScoreWithIntercept:
    """A score and a number for each output, which is added to those of all rows."""

    def __init__(self, score: Score, intercepts: Array) -> None:
        self._score, self._intercepts = score, intercepts
        self.takes_features = score.takes_features

    def evaluate(self, X: Matrix, n_threads: int) -> Array:
        """Return the scores of every row of `X`, of shape (n_samples, n_outputs)."""
        scores = self._score.evaluate(X, n_threads)
        scores += self._intercepts
        return scores

    def error_bound(self) -> Array:
        """Return what no score of an output is off by more than, of shape (n_outputs,)."""
        return self._score.error_bound()


class TabulatedScore:
    """A score from `n_bins` cells per column, with its certified error.

    With `compact`, a linear table is of bytes where those are as good. Such a
    table counts the weights of the features in: `takes_features` says so.
    """

    takes_features = False

    def __init__(
        self,
        columns: _histrs.SortedColumns,
        V: Array,
        n_bins: int,
        interpolation: Literal["linear", "nearest"],
        n_threads: int,
        *,
        compact: bool = False,
        feature_weights: Array | None = None,
    ) -> None:
        if compact and interpolation == "linear":
            self._table = _histrs.LookupTable.compact(
                columns, V, n_bins, feature_weights, n_threads
            )
            self.takes_features = self._table.is_compact
        else:
            self._table = _histrs.LookupTable(columns, V, n_bins, interpolation, n_threads)

    def evaluate(self, X: Matrix, n_threads: int) -> Array:
        """Return the scores of every row of `X`, of shape (n_samples, n_outputs)."""
        if X.dtype == np.uint8 and not sparse.issparse(X):
            return self._table.evaluate_bytes(np.asarray(X), n_threads)
        return self._table.evaluate(to_core(X), n_threads)

    def error_bound(self) -> Array:
        """Return what no score of an output is off by more than, of shape (n_outputs,)."""
        return self._table.error_bound()


class SplitScore:
    """A table of bytes of most columns, and cells of the few that are too odd for one.

    A column is odd where one value is far beyond the others, or where single precision has no
    scale for it.
    """

    takes_features = True

    def __init__(
        self,
        usual: TabulatedScore,
        others: TabulatedScore,
        odd: NDArray[np.intp],
        feature_weights: Array | None,
    ) -> None:
        self._usual, self._others, self._odd = usual, others, odd
        self._weights = np.ones(len(odd)) if feature_weights is None else feature_weights[odd]

    def evaluate(self, X: Matrix, n_threads: int) -> Array:
        """Return the scores of every row of `X`, of shape (n_samples, n_outputs)."""
        scores = self._usual.evaluate(X, n_threads)
        odd = _times(X[:, self._odd], self._weights)
        scores += self._others.evaluate(odd, n_threads)
        return scores

    def error_bound(self) -> Array:
        """Return what no score of an output is off by more than, of shape (n_outputs,)."""
        return self._usual.error_bound() + self._others.error_bound()


def compact_score(
    columns: _histrs.SortedColumns,
    V: Array,
    n_bins: int,
    n_threads: int,
    feature_weights: Array | None,
    rows: Callable[[], Matrix],
) -> TabulatedScore | SplitScore:
    """Return a table of bytes where one is as good, with cells for a few odd columns if need be.

    Parameters
    ----------
    columns : SortedColumns
        Of the training rows, which have been multiplied by the weights of the features.
    V : ndarray of shape (n_samples, n_outputs)
        Weights of the rows.
    n_bins, n_threads : int
        Cells of a column, and threads.
    feature_weights : ndarray of shape (n_features,) or None
        Those weights.
    rows : callable
        Returns the training rows.
    """

    def tabulated(part: Matrix, *, compact: bool) -> TabulatedScore:
        of_part = _histrs.SortedColumns(to_core(part), n_threads)
        weights = feature_weights if compact else None
        return TabulatedScore(
            *(of_part, V, n_bins, "linear", n_threads), compact=compact, feature_weights=weights
        )

    whole = TabulatedScore(
        *(columns, V, n_bins, "linear", n_threads), compact=True, feature_weights=feature_weights
    )
    if whole.takes_features or n_bins not in _CELLS_OF_BYTES:
        return whole
    odd = _odd_columns(columns, feature_weights, n_threads)
    if len(odd) == 0:
        return whole
    given = rows()
    kept = np.ones(columns.n_columns)
    kept[odd] = 0.0
    usual = tabulated(_times(given, kept), compact=True)
    if not usual.takes_features:
        return whole
    return SplitScore(usual, tabulated(given[:, odd], compact=False), odd, feature_weights)


def _odd_columns(
    columns: _histrs.SortedColumns, feature_weights: Array | None, n_threads: int
) -> NDArray[np.intp]:
    """Return the columns whose largest value is farthest from the others, a few at most."""
    largest, spreads = columns.maxima(), columns.spreads(n_threads)
    far = np.divide(largest, spreads, out=np.zeros_like(largest), where=spreads > 0.0)
    weights = np.ones_like(largest) if feature_weights is None else feature_weights
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        given = np.where(largest > 0.0, largest / weights, 1.0)
    single = np.finfo(np.float32)
    far[(given < 1.0 / single.max) | (given > single.max)] = np.inf
    most = max(1, len(far) // _ODD_SHARE)
    return np.sort(np.argsort(-far, kind="stable")[:most])


def _times(X: Matrix, weights: Array) -> Matrix:
    """Return rows, of floats, times a weight for each column, in their precision."""
    if sparse.issparse(X):
        rows: Any = X.copy()
        rows.data = rows.data * weights[rows.indices].astype(rows.dtype)
        product: Matrix = rows
        return product
    dtype = X.dtype if X.dtype in (np.float32, np.float64) else np.float64
    return np.ascontiguousarray(X * weights, dtype=dtype)
