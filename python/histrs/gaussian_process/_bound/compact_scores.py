"""Tables of bytes, beside which a few odd columns or rows are scored by themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from histrs import _histrs
from histrs._checks.rows import in_row_blocks
from histrs._checks.validation import to_core
from histrs._typing import Array, Matrix
from histrs.gaussian_process._bound.scores import Score, TabulatedScore

# Cells of tables that may be of bytes by their share of the spread of scores.
_CELLS_OF_BYTES = range(64, 129)
# One column in so many may be too odd for a table of bytes.
_ODD_SHARE = 16
# One row in so many may be.
_ODD_ROWS = 500


class ScoreOfFewRows:
    """The score of a few training rows, from the kernel between these and others."""

    takes_features = False

    def __init__(self, rows: Matrix, V: Array) -> None:
        self._rows, self._V = to_core(rows.astype(np.float64)), V

    def evaluate(self, X: Matrix, n_threads: int) -> Array:
        """Return the scores of every row of `X`, of shape (n_samples, n_outputs)."""
        K = _histrs.intersection_gram(to_core(X.astype(np.float64)), self._rows, n_threads)
        return np.asarray(K @ self._V)

    def error_bound(self) -> Array:
        """Return zeros."""
        return np.zeros(self._V.shape[1])


class SplitScore:
    """A table of bytes of what is usual, and the score of what is too odd for one.

    Odd are a few columns in which one value is far beyond the others, or for which single
    precision has no scale; or a few rows that are far larger than the others.
    """

    takes_features = True

    def __init__(
        self, usual: TabulatedScore, others: Score, part: Callable[[Matrix], Matrix]
    ) -> None:
        self._usual, self._others, self._part = usual, others, part

    def evaluate(self, X: Matrix, n_threads: int) -> Array:
        """Return the scores of every row of `X`, of shape (n_samples, n_outputs)."""
        scores = self._usual.evaluate(X, n_threads)
        scores += in_row_blocks(X, lambda X: self._others.evaluate(self._part(X), n_threads))
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
    """Return a table of bytes where one is as good, if need be beside a few odd columns or rows.

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
    whole = TabulatedScore(
        *(columns, V, n_bins, "linear", n_threads), compact=True, feature_weights=feature_weights
    )
    if whole.takes_features or n_bins not in _CELLS_OF_BYTES:
        return whole
    splits = _Splits(rows(), V, n_bins, n_threads, feature_weights)
    odd = _odd_columns(columns, feature_weights, n_threads)
    return splits.by_columns(odd) or splits.by_rows(_odd_rows(splits.rows, columns)) or whole


class _Splits(NamedTuple):
    """Training rows, multiplied by the weights, and what else a table is made of."""

    rows: Matrix
    V: Array
    n_bins: int
    n_threads: int
    weights: Array | None

    def by_columns(self, odd: NDArray[np.intp]) -> SplitScore | None:
        """Return a table of bytes of all columns but some, and cells of these, if that suits."""
        kept = np.ones(self.rows.shape[1])
        kept[odd] = 0.0
        usual = self._table(_times(self.rows, kept), self.V, compact=True)
        if not usual.takes_features:
            return None
        weights = None if self.weights is None else self.weights[odd]
        others = self._table(self.rows[:, odd], self.V, compact=False)
        return SplitScore(usual, others, lambda X: _times(X[:, odd], weights))

    def by_rows(self, odd: NDArray[np.intp]) -> SplitScore | None:
        """Return a table of bytes of all rows but some, and the score of these, if that suits."""
        kept = np.ones(len(self.V), dtype=bool)
        kept[odd] = False
        usual = self._table(self.rows[kept], self.V[kept], compact=True)
        if not usual.takes_features:
            return None
        others = ScoreOfFewRows(self.rows[odd], self.V[odd])
        return SplitScore(usual, others, lambda X: _times(X, self.weights))

    def _table(self, rows: Matrix, V: Array, *, compact: bool) -> TabulatedScore:
        columns = _histrs.SortedColumns(to_core(rows), self.n_threads)
        weights = self.weights if compact else None
        return TabulatedScore(
            *(columns, V, self.n_bins, "linear", self.n_threads),
            compact=compact,
            feature_weights=weights,
        )


def _odd_rows(rows: Matrix, columns: _histrs.SortedColumns) -> NDArray[np.intp]:
    """Return the rows with the largest share of the largest values, a few at most."""
    largest = columns.maxima()
    shares = rows @ np.divide(1.0, largest, out=np.zeros_like(largest), where=largest > 0.0)
    most = max(1, len(shares) // _ODD_ROWS)
    return np.sort(np.argsort(-shares, kind="stable")[:most])


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


def _times(X: Matrix, weights: Array | None) -> Matrix:
    """Return rows, of floats, times a weight for each column, in their precision; None is 1."""
    if weights is None:
        return X
    if sparse.issparse(X):
        rows: Any = X.copy()
        rows.data = rows.data * weights[rows.indices].astype(rows.dtype)
        product: Matrix = rows
        return product
    dtype = X.dtype if X.dtype in (np.float32, np.float64) else np.float64
    return np.ascontiguousarray(X * weights, dtype=dtype)
