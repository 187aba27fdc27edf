"""Columns counted from where they begin, in units of their spread."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from histrs import _histrs
from histrs._sparse import is_sparse
from histrs._validation import Matrix, to_core

Array = NDArray[np.float64]

# Rows that are looked at at once.
_CHUNK = 4096
# A column that varies by less than this part of its largest value is constant.
_CONSTANT = 1e-12


@dataclass(frozen=True)
class Columns:
    """Where the columns begin, and the unit of each."""

    offset: Array
    unit: Array

    @classmethod
    def of(cls, X: Matrix, *, spread: bool, n_threads: int) -> Self:
        """Look at training rows: the smallest value, and the standard deviation or 1.

        A matrix and the same in sparse form, or in units of another power of two, have the same
        columns to the last bit.
        """
        low, high = _histrs.column_ranges(to_core(X), n_threads)
        n_positive, total, squares = np.zeros((3, len(high)))
        inverse = np.divide(1.0, high, out=np.zeros_like(high), where=high > 0)
        offset = np.zeros_like(high)
        for start in range(0, X.shape[0], _CHUNK):
            columns, _ = _positive(X[start : start + _CHUNK])
            n_positive += np.bincount(columns, minlength=len(high))
        full = n_positive == X.shape[0]
        offset[full] = low[full]
        if not spread:
            return cls(offset, np.ones_like(high))
        for start in range(0, X.shape[0], _CHUNK):
            columns, values = _positive(X[start : start + _CHUNK])
            parts = (values - offset[columns]) * inverse[columns]
            total += np.bincount(columns, weights=parts, minlength=len(high))
            squares += np.bincount(columns, weights=parts**2, minlength=len(high))
        mean = total / X.shape[0]
        deviation = np.sqrt(np.maximum(squares / X.shape[0] - mean**2, 0.0))
        unit = np.where(deviation > _CONSTANT, deviation * high, 1.0)
        return cls(offset, unit)

    def change(self, X: Any) -> Any:
        """Return rows in these units, 0 below where a column begins."""
        if not self.offset.any() and np.all(self.unit == 1.0):
            return X
        if not is_sparse(X):
            return _changed(X, self.offset, self.unit)
        X = without_spare_room(X)
        values = _changed(X.data, self.offset[X.indices], self.unit[X.indices])
        return type(X)((values, X.indices, X.indptr), shape=X.shape)


def without_spare_room(X: Any) -> Any:
    """Return a CSR matrix whose arrays end with its last entry, which SciPy's functions expect."""
    n = X.indptr[-1]
    if len(X.data) == len(X.indices) == n:
        return X
    return type(X)((X.data[:n], X.indices[:n], X.indptr), shape=X.shape)


def _changed(values: Any, offset: Array, unit: Array) -> Any:
    offset, unit = offset.astype(values.dtype), unit.astype(values.dtype)
    largest = np.sqrt(np.finfo(values.dtype).max)
    with np.errstate(over="ignore", divide="ignore"):
        parts = np.maximum(values - offset, 0) / unit
    return np.minimum(parts, largest, out=parts)


def _positive(X: Any) -> tuple[NDArray[Any], Array]:
    """Return the columns and values of positive entries, row by row."""
    if is_sparse(X):
        kept = X.data > 0
        return X.indices[kept], X.data[kept].astype(np.float64)
    rows, columns = np.nonzero(X)
    return columns, X[rows, columns].astype(np.float64)
