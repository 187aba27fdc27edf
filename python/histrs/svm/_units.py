"""The units of rows: columns counted from where they begin, in units of their spread."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from histrs import _histrs
from histrs._checks.sparse import is_sparse
from histrs._checks.validation import canonical, stored, to_core
from histrs._typing import Array, Matrix

# Rows that are looked at at once.
_CHUNK = 4096
# A column that varies by less than this part of its largest value is constant.
_CONSTANT = 1e-12
# Entries of a column that are so many times those of a typical one are in another unit.
_FAR = 100.0
# The constant of the intercept, in mean sums of a row: scores are within one.
_CONSTANT_ROWS = 10.0


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
        # What is divided by: no entry of an empty column is positive.
        largest = np.where(high > 0, high, 1.0)
        (n_positive,) = _sums(X, len(high), lambda columns, values: [None])
        n_positive += n_before * (values_before > 0)
        full = n_positive == n_rows
        offset = np.where(full, low, 0.0)
        if not spread:
            return cls(offset, np.ones_like(high)), full & (low == high)

        def moments(columns: NDArray[Any], values: Array) -> list[Array | None]:
            parts = (values - offset[columns]) / largest[columns]
            return [parts, parts**2]

        total, squares = _sums(X, len(high), moments)
        parts = (values_before - offset) / largest
        total, squares = total + n_before * parts, squares + n_before * parts**2
        mean = total / n_rows
        deviation = np.sqrt(np.maximum(squares / n_rows - mean**2, 0.0))
        constant = deviation <= _CONSTANT
        return cls(offset, np.where(constant, 1.0, deviation * high)), constant

    def differ(self, X: Any) -> bool:
        """Say whether one column has far larger entries than a typical one, or too large ones."""
        entries = stored(X)
        largest = float(entries.max(initial=0.0))
        if largest > _largest(entries.dtype):
            return True
        # A power of two, which rounds nothing: sums of huge entries would overflow.
        unit = float(np.ldexp(1.0, int(np.frexp(largest)[1]) - 1)) if largest > 0.0 else 1.0
        n_positive, total = _sums(
            X,
            len(self.offset),
            lambda columns, values: [None, np.maximum(values - self.offset[columns], 0.0) / unit],
        )
        sizes = total[total > 0.0] / n_positive[total > 0.0]
        return len(sizes) > 0 and bool(sizes.max() > _FAR * np.median(sizes))

    def change(self, X: Any) -> Any:
        """Return rows in these units, 0 below where a column begins."""
        if not self.offset.any() and np.all(self.unit == 1.0):
            return X
        if not is_sparse(X):
            return _changed(X, self.offset, self.unit)
        values = _changed(X.data, self.offset[X.indices], self.unit[X.indices])
        return type(X)((values, X.indices, X.indptr), shape=X.shape)


@dataclass(frozen=True)
class Lengths:
    """How large rows are and their positive entries; 1 where all are 0."""

    n_rows: int
    total: float
    n_positive: int
    maximum: float

    @classmethod
    def of(cls, X: Matrix) -> Self:
        """Measure rows."""
        stored = to_core(X)
        values = stored[0] if isinstance(stored, tuple) else stored
        # Row by row and without zeros, so that sparse rows have the same sum to the last bit.
        positive = values[values > 0]
        total = float(positive.sum(dtype=np.float64))
        return cls(X.shape[0], total, len(positive), float(positive.max(initial=0.0)))

    def with_rows(self, X: Matrix) -> Self:
        """Return the lengths of these rows and further ones."""
        new = self.of(X)
        return type(self)(
            self.n_rows + new.n_rows,
            self.total + new.total,
            self.n_positive + new.n_positive,
            max(self.maximum, new.maximum),
        )

    @property
    def row(self) -> float:
        """The mean sum of a row."""
        return self.total / self.n_rows if self.n_positive else 1.0

    @property
    def entry(self) -> float:
        """The mean positive entry."""
        return self.total / self.n_positive if self.n_positive else 1.0

    @property
    def largest(self) -> float:
        """The largest entry."""
        return self.maximum if self.n_positive else 1.0


@dataclass(frozen=True)
class Units:
    """The units of columns, and how large rows are in them."""

    columns: Columns
    pending: NDArray[np.bool_]
    """Columns that have been constant, whose units mean nothing yet."""
    spread: bool
    """Whether units are standard deviations."""
    seen: Lengths
    """Of the rows until every column has varied."""
    lengths: Lengths
    """Of these, up to the last in which a column varied for the first time."""

    @classmethod
    def of(cls, X: Any, scale: str, n_threads: int) -> tuple[Self, Any]:
        """Return the units of rows, and the rows in them."""
        spread = scale == "spread"
        columns, pending = Columns.of(X, spread=spread, n_threads=n_threads)
        if scale == "auto" and columns.differ(X):
            spread = True
            columns, pending = Columns.of(X, spread=True, n_threads=n_threads)
        X = columns.change(X)
        lengths = Lengths.of(X)
        return cls(columns, pending, spread, lengths, lengths), X

    def joined(self, X: Any, n_threads: int) -> tuple[Self, NDArray[np.bool_], Any]:
        """Return units for columns that vary in further rows alone, these, and the rows."""
        columns, pending, new = self.columns, self.pending, self.pending
        is_open = bool(pending.any()) or not self.seen.n_positive
        if pending.any():
            before = self.seen.n_rows, columns.offset
            found, constant = Columns.of(X, spread=self.spread, n_threads=n_threads, before=before)
            new, pending = pending & ~constant, pending & constant
            columns = Columns(
                np.where(new, found.offset, columns.offset), np.where(new, found.unit, columns.unit)
            )
        X = columns.change(X)
        units = replace(self, columns=columns, pending=pending)
        if is_open:
            seen = self.seen.with_rows(X)
            stays = not new.any() and self.seen.n_positive
            units = replace(units, seen=seen, lengths=self.lengths if stays else seen)
        return units, new, X

    def with_constant(self, X: Any) -> Any:
        """Return rows with a last column whose weight is the intercept: no weight reaches it."""
        constant = _CONSTANT_ROWS * self.lengths.row + self.lengths.largest
        last = np.full((X.shape[0], 1), constant, dtype=X.dtype)
        if is_sparse(X):
            return canonical(sparse.hstack([X, sparse.csr_array(last)], format="csr"))
        return np.hstack([X, last])


def _largest(dtype: Any) -> float:
    """Return what entries may be at most, so that their squares stay within the range."""
    return float(np.sqrt(np.finfo(dtype).max))


def _changed(values: Any, offset: Array, unit: Array) -> Any:
    largest = _largest(values.dtype)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        offset, unit = offset.astype(values.dtype), unit.astype(values.dtype)
        parts = np.maximum(values - offset, 0) / unit
    return np.minimum(parts, parts.dtype.type(largest), out=parts)


def _sums(
    X: Any, n_columns: int, of: Callable[[NDArray[Any], Array], list[Array | None]]
) -> list[Array]:
    """Return the sums in each column of what `of` says of positive entries; None is 1 for each."""
    totals: list[Array] = []
    for start in range(0, X.shape[0], _CHUNK):
        columns, values = _positive(X[start : start + _CHUNK])
        sums: list[Any] = [np.bincount(columns, parts, n_columns) for parts in of(columns, values)]
        totals = [a + b for a, b in zip(totals, sums, strict=True)] if totals else sums
    return totals


def _positive(X: Any) -> tuple[NDArray[Any], Array]:
    """Return the columns and values of positive entries, row by row."""
    if is_sparse(X):
        kept = X.data > 0
        return X.indices[kept], X.data[kept].astype(np.float64)
    rows, columns = np.nonzero(X)
    return columns, X[rows, columns].astype(np.float64)
