"""Scores of rows against weighted training rows, exact or from a table."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from histrs import _histrs
from histrs._checks.rows import in_row_blocks
from histrs._checks.validation import to_core
from histrs._typing import Array, Matrix
from histrs.gaussian_process._bound.pairs import PairRows, PairTerm
from histrs.gaussian_process._kernels.distances import DistanceMixture
from histrs.gaussian_process._kernels.generalized import GeneralizedKernel
from histrs.gaussian_process._options import Interpolation

# Larger tables are made a few columns at a time, for each call.
_MAX_TABLE_BYTES = 1 << 30
# Rows whose cells among the knots of pairs are in memory at once.
_ROWS = 1 << 15
# Cells of tables that may be of bytes by their share of the spread of scores.
_CELLS_OF_BYTES = range(64, 129)
# One column in so many may be too odd for a table of bytes.
_ODD_SHARE = 16
# One row in so many may be.
_ODD_ROWS = 500


class Score:
    """`K(X, X_train) V` for any rows `X`."""

    n_outputs: int
    takes_features: bool = False
    """Whether rows are features as they are, and not what the kernel makes of them."""

    def evaluate(self, X: Any, n_threads: int) -> Array:
        """Return the scores of every row of `X`, of shape (n_samples, n_outputs)."""
        raise NotImplementedError

    def error_bound(self) -> Array:
        """Return what no score of an output is off by more than: 0, unless there is a table."""
        return np.zeros(self.n_outputs)


class ExactScore(Score):
    """A score from its functions of the columns, which are kept where there is room.

    With a `kernel`, rows are features as they are, which the columns are not.
    """

    def __init__(
        self,
        columns: _histrs.SortedColumns,
        V: Array,
        n_threads: int,
        kernel: GeneralizedKernel | None = None,
    ) -> None:
        self._columns, self._V, self._kernel = columns, V, kernel
        self.n_outputs = V.shape[1]
        self.takes_features = kernel is not None
        self._functions: _histrs.ShapeFunctions | None = None
        if columns.n_knots * (V.shape[1] + 1) * 8 <= _MAX_TABLE_BYTES:
            self._functions = _histrs.ShapeFunctions(columns, V, n_threads)

    def evaluate(self, X: Matrix, n_threads: int) -> Array:
        kernel = self._kernel
        X = X.astype(np.float32) if X.dtype == np.uint8 else X
        if kernel is not None and (self._functions is None or kernel.is_plain):
            X, kernel = kernel.rows(X, n_threads), None
        if self._functions is None:
            return self._columns.cross_product(to_core(X), self._V, n_threads)
        if kernel is None:
            return self._functions.evaluate(to_core(X), n_threads)
        return kernel.evaluate(self._functions, X, n_threads)


class TabulatedScore(Score):
    """A score from `n_bins` cells per column, with its certified error.

    With `compact`, a linear table is of bytes where those are as good. Such a
    table counts the weights of the features in: `takes_features` says so.
    """

    def __init__(
        self,
        columns: _histrs.SortedColumns,
        V: Array,
        n_bins: int,
        interpolation: Interpolation,
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
        if X.dtype == np.uint8 and not sparse.issparse(X):
            return self._table.evaluate_bytes(np.asarray(X), n_threads)
        return self._table.evaluate(to_core(X), n_threads)

    def error_bound(self) -> Array:
        return self._table.error_bound()


class PairScore(Score):
    """What pairs of features add, which is a table of its own."""

    def __init__(self, term: PairTerm, V: Array, feature_weights: Array | None) -> None:
        self._kernel, self._feature_weights = term.kernel, feature_weights
        self._values, self.n_outputs = term.cell_values(V), V.shape[1]

    def evaluate(self, X: Matrix, n_threads: int) -> Array:
        scores = np.empty((X.shape[0], self.n_outputs))
        for start in range(0, len(scores), _ROWS):
            part = slice(start, start + _ROWS)
            cells = PairRows(self._kernel, X[part], self._feature_weights).cells
            scores[part] = cells @ self._values
        return scores


class ScoreOfPairs(Score):
    """A score from a function that multiplies the kernel with the training rows by `V`."""

    def __init__(self, product: Callable[[Any, Array, int], Array], V: Array) -> None:
        self._product, self.weights, self.n_outputs = product, V, V.shape[1]

    def evaluate(self, X: Any, n_threads: int) -> Array:
        return self._product(X, self.weights, n_threads)

    def behind(self, V: Array) -> ScoreOfPairs:
        """Return the score of other weights, and these behind them."""
        return ScoreOfPairs(self._product, np.hstack([V, self.weights]))


class ScoreOfDistances(Score):
    """A score of a kernel of distances, of weights and of such in single precision behind them."""

    def __init__(
        self, kernel: DistanceMixture, X: Array, V: Array, singles: NDArray[np.float32]
    ) -> None:
        self._kernel, self._X, self._V, self._singles = kernel, X, V, singles
        self.n_outputs = V.shape[1] + singles.shape[1]

    @cached_property
    def _made(self) -> _histrs.DistanceScores:
        return self._kernel.scores(self._X, self._V, self._singles)

    def evaluate(self, X: Array, n_threads: int) -> Array:
        return self._made.evaluate(X, n_threads)

    def behind(self, V: Array) -> ScoreOfDistances:
        """Return the score of other weights, and these behind them."""
        return ScoreOfDistances(self._kernel, self._X, np.hstack([V, self._V]), self._singles)

    def __getstate__(self) -> dict[str, Any]:
        """Return what the core makes the score of."""
        return {name: value for name, value in vars(self).items() if name != "_made"}


class SumOfScores(Score):
    """The sum of two scores, the second of rows as `view` has them, and of a number an output."""

    def __init__(
        self,
        first: Score,
        second: Score | None = None,
        view: Callable[[Matrix], Matrix] = lambda X: X,
        intercepts: Array | None = None,
    ) -> None:
        self._first, self._second, self._view = first, second, view
        self._intercepts = intercepts
        self.takes_features = first.takes_features

    def evaluate(self, X: Matrix, n_threads: int) -> Array:
        scores, second = self._first.evaluate(X, n_threads), self._second
        if second is not None:
            scores += in_row_blocks(X, lambda X: second.evaluate(self._view(X), n_threads))
        if self._intercepts is not None:
            scores += self._intercepts
        return scores

    def error_bound(self) -> Array:
        bound = self._first.error_bound()
        return bound if self._second is None else bound + self._second.error_bound()


def compact_score(
    columns: _histrs.SortedColumns,
    V: Array,
    n_bins: int,
    n_threads: int,
    feature_weights: Array | None,
    rows: Callable[[], Matrix],
) -> Score:
    """Return a table of bytes where one is as good, if need be beside a few odd columns or rows.

    A column is odd if one value is far beyond the others, or if single precision has no scale for
    it. A row is odd if it is far larger than the others. `rows` returns the training rows, which
    have been multiplied by the weights of the features, as `columns` have.
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

    def by_columns(self, odd: NDArray[np.intp]) -> SumOfScores | None:
        """Return a table of bytes of all columns but some, and cells of these, if that suits."""
        kept = np.ones(self.rows.shape[1])
        kept[odd] = 0.0
        usual = self._table(_times(self.rows, kept), self.V, compact=True)
        if not usual.takes_features:
            return None
        weights = None if self.weights is None else self.weights[odd]
        others = self._table(self.rows[:, odd], self.V, compact=False)
        return SumOfScores(usual, others, lambda X: _times(X[:, odd], weights))

    def by_rows(self, odd: NDArray[np.intp]) -> SumOfScores | None:
        """Return a table of bytes of all rows but some, and the score of these, if that suits."""
        kept = np.ones(len(self.V), dtype=bool)
        kept[odd] = False
        usual = self._table(self.rows[kept], self.V[kept], compact=True)
        if not usual.takes_features:
            return None
        few = to_core(self.rows[odd].astype(np.float64))

        def product(X: Matrix, V: Array, n_threads: int) -> Array:
            rows = to_core(X.astype(np.float64))
            return np.asarray(_histrs.intersection_gram(rows, few, n_threads) @ V)

        others = ScoreOfPairs(product, self.V[odd])
        return SumOfScores(usual, others, lambda X: _times(X, self.weights))

    def _table(self, rows: Matrix, V: Array, *, compact: bool) -> TabulatedScore:
        columns = _histrs.SortedColumns(to_core(rows), self.n_threads)
        weights = self.weights if compact else None
        return TabulatedScore(
            *(columns, V, self.n_bins, "linear", self.n_threads),
            compact=compact,
            feature_weights=weights,
        )


def _odd_rows(rows: Matrix, columns: _histrs.SortedColumns) -> NDArray[np.intp]:
    """Return the rows with the largest fraction of the largest values, a few at most."""
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
