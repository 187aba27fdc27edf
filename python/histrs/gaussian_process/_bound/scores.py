"""Scores of rows against weighted training rows, exact or from a table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np
from scipy import sparse

from histrs import _histrs
from histrs._checks.validation import to_core
from histrs._typing import Array, Matrix
from histrs.gaussian_process._bound.pairs import PairRows, PairTerm
from histrs.gaussian_process._kernels.generalized import GeneralizedKernel
from histrs.gaussian_process._options import Interpolation

# Larger tables are made a few columns at a time, for each call.
_MAX_TABLE_BYTES = 1 << 30
# Rows whose cells among the knots of pairs are in memory at once.
_ROWS = 1 << 15


class Score(Protocol):
    """`K(X, X_train) V` for any rows `X`."""

    takes_features: bool
    """Whether rows are features as they are, and not what the kernel makes of them."""

    def evaluate(self, X: Matrix, n_threads: int) -> Array:
        """Return the scores of every row of `X`, of shape (n_samples, n_outputs)."""

    def error_bound(self) -> Array:
        """Return what no score of an output is off by more than, of shape (n_outputs,)."""


class ExactScore:
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
        self.takes_features = kernel is not None
        self._functions: _histrs.ShapeFunctions | None = None
        if columns.n_knots * (V.shape[1] + 1) * 8 <= _MAX_TABLE_BYTES:
            self._functions = _histrs.ShapeFunctions(columns, V, n_threads)

    def evaluate(self, X: Matrix, n_threads: int) -> Array:
        """Return the scores of every row of `X`, of shape (n_samples, n_outputs)."""
        kernel = self._kernel
        X = X.astype(np.float32) if X.dtype == np.uint8 else X
        if kernel is not None and (self._functions is None or kernel.is_plain):
            X, kernel = kernel.rows(X, n_threads), None
        if self._functions is None:
            return self._columns.cross_product(to_core(X), self._V, n_threads)
        if kernel is None:
            return self._functions.evaluate(to_core(X), n_threads)
        return kernel.evaluate(self._functions, X, n_threads)

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
        """Return the scores of every row of `X`, of shape (n_samples, n_outputs)."""
        if X.dtype == np.uint8 and not sparse.issparse(X):
            return self._table.evaluate_bytes(np.asarray(X), n_threads)
        return self._table.evaluate(to_core(X), n_threads)

    def error_bound(self) -> Array:
        """Return what no score of an output is off by more than, of shape (n_outputs,)."""
        return self._table.error_bound()


class ScoreWithPairs:
    """An additive score, and what pairs of features add, which is a table of its own."""

    takes_features = False

    def __init__(
        self, additive: Score, term: PairTerm, V: Array, feature_weights: Array | None
    ) -> None:
        self._additive, self._kernel = additive, term.kernel
        self._feature_weights = feature_weights
        self._values = term.cell_values(V)

    def evaluate(self, X: Matrix, n_threads: int) -> Array:
        """Return the scores of every row of `X`, of shape (n_samples, n_outputs)."""
        scores = self._additive.evaluate(X, n_threads)
        for start in range(0, len(scores), _ROWS):
            part = slice(start, start + _ROWS)
            cells = PairRows(self._kernel, X[part], self._feature_weights).cells
            scores[part] += np.asarray(cells @ self._values)
        return scores

    def error_bound(self) -> Array:
        """Return what no score of an output is off by more than: the pairs' part is exact."""
        return self._additive.error_bound()


class ScoreOfPairs:
    """A score from the kernel of rows with the training rows, a block of rows after the other."""

    takes_features = False

    def __init__(
        self, blocks: Callable[[Any, int], Iterator[tuple[slice, Array]]], V: Array
    ) -> None:
        self._blocks, self._V = blocks, V

    def evaluate(self, X: Any, n_threads: int) -> Array:
        """Return the scores of every row of `X`, of shape (n_samples, n_outputs)."""
        scores = np.empty((X.shape[0], self._V.shape[1]))
        for rows, k in self._blocks(X, n_threads):
            scores[rows] = k @ self._V
        return scores

    def error_bound(self) -> Array:
        """Return zeros."""
        return np.zeros(self._V.shape[1])
