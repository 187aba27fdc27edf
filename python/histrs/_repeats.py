"""Equal rows, which a fit sees once, with their weights together."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from histrs._checks.sparse import is_sparse
from histrs._distributed.rows import is_dask
from histrs._typing import Array
from histrs._weights import rows_at

# Rows whose bytes are turned at once: they stay in the cache.
_BLOCK = 256
# Mixes the bits of columns: 2^64 over the golden ratio.
_ODD = np.uint64(0x9E3779B97F4A7C15)
# Bytes by which rows are told apart: no two are alike by chance.
_DIGEST = 16
# Part of the repeated rows that are known to be measurements for all to be.
_MOST = 0.1
# Behind the entries of a sparse row, of which further ones would be larger.
_END = bytes(8)


class DistinctRows(NamedTuple):
    """Rows of which no two are equal in all columns and targets.

    They are in the order in which they were given. Where they stand for different numbers of rows,
    they are in that of their columns, so that nothing tells whole weights from repeated rows.
    """

    kept: NDArray[np.intp] | None
    """The first of each group of equal rows; None for all as they are."""
    groups: NDArray[np.intp]
    """Which of these each row is."""
    weights: Array | None
    """What the equal rows of each group weigh together; None where all weigh 1."""
    stays: Array | None = None
    """What part of a group stays where one of its rows is left out; None for 0.

    It is 0 where all rows of equal columns have the same targets: they may be one measurement.
    """

    def rows(self, *arrays: Any) -> tuple[Any, ...]:
        """Return the first of each group."""
        if self.kept is None:
            return arrays
        return tuple(rows_at(array, self.kept) for array in arrays)

    def each_measured(self) -> Self:
        """Return rows all of which are measurements, where enough repeated ones are known to be.

        Those are beside rows of equal columns with another target, which no copies are.
        """
        if self.weights is None or self.stays is None or np.any(self.weights % 1.0 != 0.0):
            return self
        several = self.weights > 1.0
        known = float(self.weights[several & (self.stays > 0.0)].sum())
        if known < _MOST * float(self.weights[several].sum()):
            return self
        return self._replace(stays=1.0 - 1.0 / np.maximum(self.weights, 1.0))


def distinct_rows(
    X: Any, Y: NDArray[Any], weights: Array | None, copies: Array | None = None
) -> DistinctRows:
    """Find rows that are equal in all columns and targets; of a dask array, none are.

    Sparse rows are canonical. `copies` says how many rows each stands for, if not as many as its
    weight; less than 1 is 1.
    """
    if is_dask(X):
        return DistinctRows(None, np.arange(len(Y)), weights)
    copies = weights if copies is None else copies
    if weights is not None and np.all(weights == 1.0):
        weights = None
    Y = Y.reshape(len(Y), -1)
    groups, kept = _groups(X, Y)
    if weights is None and len(kept) == len(Y):
        return DistinctRows(None, groups, None)
    together = np.bincount(groups, weights).astype(np.float64)
    whole = copies is None or np.all(copies == np.floor(copies))
    if whole and np.ptp(together) > 0.0:
        keys = list(_keys(X[kept], Y[kept]))
        order = np.array(sorted(range(len(keys)), key=keys.__getitem__), dtype=np.intp)
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        kept, groups, together = kept[order], place[groups], together[order]
    numbers = np.bincount(groups, None if copies is None else np.maximum(copies, 1.0))
    stays = np.where(_have_equals(X[kept]), 1.0 - 1.0 / numbers, 0.0)
    return DistinctRows(kept, groups, together, stays if np.any(stays > 0.0) else None)


def equal_rows(X: Any) -> NDArray[np.intp]:
    """Return a number for each row, the same for rows that are equal."""
    if is_dask(X):
        return np.arange(X.shape[0])
    return _groups(X, np.empty((X.shape[0], 0)))[0]


def _have_equals(X: Any) -> NDArray[np.bool_]:
    groups = equal_rows(X)
    return np.bincount(groups)[groups] > 1


def _groups(X: Any, Y: NDArray[Any]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return a number for each row, and the first row of each number."""
    if _differ(X, Y):
        own = np.arange(len(Y))
        return own, own
    numbers: dict[bytes, int] = {}
    digests = (blake2b(key, digest_size=_DIGEST).digest() for key in _keys(X, Y))
    groups = np.array([numbers.setdefault(d, len(numbers)) for d in digests], dtype=np.intp)
    first = np.empty(len(numbers), dtype=np.intp)
    first[groups[::-1]] = np.arange(len(Y))[::-1]
    return groups, first


def _differ(X: Any, Y: NDArray[Any]) -> bool:
    """Say whether all rows differ for certain, by numbers that equal rows share."""
    mixed = np.zeros(len(Y), dtype=np.uint64)
    if is_sparse(X):
        entries = _mixed(_mixed(np.zeros(X.nnz, dtype=np.uint64), X.indices), X.data)
        filled = np.diff(X.indptr) > 0
        mixed[filled] = np.add.reduceat(entries, X.indptr[:-1][filled]) if X.nnz else 0
    else:
        for column in X.reshape(len(Y), -1).T:
            mixed = _mixed(mixed, column)
    for column in Y.reshape(len(Y), -1).T:
        mixed = _mixed(mixed, column)
    # `np.unique` looks them up one by one, which takes longer.
    mixed.sort()
    return not np.any(mixed[1:] == mixed[:-1])


def _mixed(mixed: NDArray[np.uint64], values: NDArray[Any]) -> NDArray[np.uint64]:
    """Return numbers into which further ones are mixed."""
    # Of one sign of zero.
    mixed = (mixed ^ (values.astype(np.float64) + 0.0).view(np.uint64)) * _ODD
    return mixed ^ (mixed >> np.uint64(32))


def _keys(X: Any, Y: NDArray[Any]) -> Iterator[bytes]:
    """Yield bytes for each row and its targets, which are in the order of their numbers."""
    if is_sparse(X):
        # Where a row has an entry earlier than another, the other has a 0.
        entries = np.hstack([_sortable(-X.indices.astype(np.int64)), _sortable(X.data)])
        for start, end, y in zip(X.indptr[:-1], X.indptr[1:], _sortable(Y), strict=True):
            yield entries[start:end].tobytes() + _END + y.tobytes()
        return
    for start in range(0, len(X), _BLOCK):
        rows = slice(start, start + _BLOCK)
        for key in np.hstack([_sortable(X[rows]), _sortable(Y[rows])]):
            yield key.tobytes()


def _sortable(values: NDArray[Any]) -> NDArray[np.uint8]:
    """Return bytes for each row of numbers, which are in their order."""
    n, kind, size = len(values), values.dtype.kind, values.dtype.itemsize
    # Of one sign of zero.
    values = values.reshape(n, int(np.prod(values.shape[1:])))
    values = np.ascontiguousarray(values + values.dtype.type(0))
    bits = values.view(f"u{size}")
    if kind != "u":
        sign = bits.dtype.type(1 << (8 * size - 1))
        negative = values.view(f"i{size}") < 0
        bits = np.where(negative & (kind == "f"), ~bits, bits ^ sign)
    return (
        bits.astype(bits.dtype.newbyteorder(">"))
        .view(np.uint8)
        .reshape(n, values.nbytes // max(n, 1))
    )
