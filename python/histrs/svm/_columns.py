"""Columns counted from where they begin, in units of their spread."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from histrs import _histrs
from histrs._checks.sparse import is_sparse
from histrs._checks.validation import stored, to_core
from histrs._typing import Array, Matrix

# Rows that are looked at at once.
_CHUNK = 4096
# A column that varies by less than this part of its largest value is constant.
_CONSTANT = 1e-12
# Entries of a column that are so many times those of a typical one are in another unit.
_FAR = 100.0


@dataclass(frozen=True)
class Columns:
    """Where the columns begin, and the unit of each."""

    offset: Array
    unit: Array

    @classmethod
    def of(
        cls, X: Matrix, *, spread: bool, n_threads: int, before: tuple[int, Array] | None = None
    ) -> tuple[Self, NDArray[np.bool_]]:
        """Look at training rows: the smallest value, and the standard deviation or 1.

        The second result says which columns are constant, so that their units mean nothing yet.
        `before` is a number of earlier rows and the values that these had in every column.

        A matrix and the same in sparse form, or in units of another power of two, have the same
        columns to the last bit.
        """
        low, high = _histrs.column_ranges(to_core(X), n_threads)
        n_before, values_before = before if before is not None else (0, np.zeros_like(high))
        n_rows = X.shape[0] + n_before
        if n_before:
            seen = np.where(high > 0, np.minimum(low, values_before), values_before)
            low = np.where(values_before > 0, seen, low)
            high = np.maximum(high, values_before)
        n_positive, total, squares = np.zeros((3, len(high)))
        # What is divided by: no entry of an empty column is positive.
        largest = np.where(high > 0, high, 1.0)
        offset = np.zeros_like(high)
        for start in range(0, X.shape[0], _CHUNK):
            columns, _ = _positive(X[start : start + _CHUNK])
            n_positive += np.bincount(columns, minlength=len(high))
        n_positive += n_before * (values_before > 0)
        full = n_positive == n_rows
        offset[full] = low[full]
        if not spread:
            return cls(offset, np.ones_like(high)), full & (low == high)
        for start in range(0, X.shape[0], _CHUNK):
            columns, values = _positive(X[start : start + _CHUNK])
            parts = (values - offset[columns]) / largest[columns]
            total += np.bincount(columns, weights=parts, minlength=len(high))
            squares += np.bincount(columns, weights=parts**2, minlength=len(high))
        if n_before:
            parts = (values_before - offset) / largest
            total += n_before * parts
            squares += n_before * parts**2
        mean = total / n_rows
        deviation = np.sqrt(np.maximum(squares / n_rows - mean**2, 0.0))
        constant = deviation <= _CONSTANT
        return cls(offset, np.where(constant, 1.0, deviation * high)), constant

    def differ(self, X: Any) -> bool:
        """Say whether one column has far larger entries than a typical one, or too large ones."""
        n_positive, total = np.zeros((2, len(self.offset)))
        entries = stored(X)
        largest = float(entries.max(initial=0.0))
        if largest > _largest(entries.dtype):
            return True
        # A power of two, which rounds nothing: sums of huge entries would overflow.
        unit = float(np.ldexp(1.0, int(np.frexp(largest)[1]) - 1)) if largest > 0.0 else 1.0
        for start in range(0, X.shape[0], _CHUNK):
            columns, values = _positive(X[start : start + _CHUNK])
            parts = np.maximum(values - self.offset[columns], 0.0) / unit
            n_positive += np.bincount(columns, minlength=len(self.offset))
            total += np.bincount(columns, weights=parts, minlength=len(self.offset))
        sizes = total[total > 0.0] / n_positive[total > 0.0]
        return len(sizes) > 0 and bool(sizes.max() > _FAR * np.median(sizes))

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


def _largest(dtype: Any) -> float:
    """Return what entries may be at most, so that their squares stay within the range."""
    return float(np.sqrt(np.finfo(dtype).max))


def _changed(values: Any, offset: Array, unit: Array) -> Any:
    largest = _largest(values.dtype)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        offset, unit = offset.astype(values.dtype), unit.astype(values.dtype)
        parts = np.maximum(values - offset, 0) / unit
    return np.minimum(parts, parts.dtype.type(largest), out=parts)


def _positive(X: Any) -> tuple[NDArray[Any], Array]:
    """Return the columns and values of positive entries, row by row."""
    if is_sparse(X):
        kept = X.data > 0
        return X.indices[kept], X.data[kept].astype(np.float64)
    rows, columns = np.nonzero(X)
    return columns, X[rows, columns].astype(np.float64)
