"""Exact scores of rows against weighted training rows."""

from histrs import _histrs
from histrs._solvers.block_cg import Array
from histrs._validation import Matrix, to_core

# Larger tables are made a few columns at a time, for each call.
_MAX_TABLE_BYTES = 1 << 30


class ExactScore:
    """`K(X, X_train) V`, from a table of its functions of the columns where that can be kept."""

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
