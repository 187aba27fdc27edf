"""The check of sparse matrices, before SciPy or the core follows their indices."""

from __future__ import annotations

from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse import issparse

_CURE = "build it with SciPy's constructors or check the parts."


def is_sparse(Z: Any) -> bool:
    """Say whether rows are a sparse matrix; SciPy's own guard narrows to a type without parts."""
    return bool(sparse.issparse(Z))


def sound(X: Any, name: str = "X") -> Any:
    """Return a sparse matrix whose parts fit together, in a format whose parts were looked at.

    SciPy follows row pointers and indices without a look at their limits, so that a damaged matrix
    reads or writes memory of others. This is linear in the number of stored entries. CSR, CSC, BSR
    and COO are returned as they are, with indices of one type and without room to spare behind the
    last entry, other formats as COO or CSR.

    Raises ValueError if the parts do not form a matrix; the message names the part.
    """
    try:
        if X.format in ("csr", "csc", "bsr"):
            _check_compressed(X)
            n = X.indptr[-1]
            if len(X.data) > n or X.indices.dtype != X.indptr.dtype:
                # SciPy's own loops refuse what its constructor makes alike.
                X = type(X)((X.data[:n], X.indices[:n], X.indptr), shape=X.shape)
        elif X.format == "lil":
            X = _from_lists(X)
            _check_compressed(X)
        else:
            if X.format == "dia":
                _check_diagonals(X)
            # From a dictionary or from diagonals by NumPy, which does look.
            X = X if X.format == "coo" else X.tocoo()
            _check_coordinates(X)
    except (_MalformedError, AttributeError, TypeError, IndexError, OverflowError) as error:
        raise ValueError(f"malformed {X.format.upper()} matrix {name}: {error}; {_CURE}") from error
    return X


def refuse_sparse(X: Any, name: str) -> None:
    """Refuse a sparse matrix where NumPy would take it for a number or iterate over it."""
    if issparse(X):
        raise TypeError(
            f"Sparse data was passed for {name}, but dense data is required: {name}.toarray()."
        )


class _MalformedError(Exception):
    """What is wrong with the parts."""


def _check_compressed(X: Any) -> None:
    # One row of values may be a matrix of one dimension, which has one row pointer too.
    n_rows, n_columns = X.shape if X.ndim == 2 else (1, *X.shape)
    if X.format == "csc":
        n_rows, n_columns = n_columns, n_rows
    if X.format == "bsr":
        _check_part(X.data, "data", 3)
        height, width = X.data.shape[1:]
        if height == 0 or width == 0 or n_rows % height or n_columns % width:
            raise _MalformedError(f"blocks of shape {(height, width)} do not tile {X.shape}")
        n_rows, n_columns = n_rows // height, n_columns // width
    else:
        _check_part(X.data, "data", 1)
    indices = _integers(X.indices, "indices")
    indptr = _integers(X.indptr, "indptr")
    n_stored = len(X.data)
    if len(indices) != n_stored:
        raise _MalformedError(f"{n_stored} values but {len(indices)} indices")
    if len(indptr) != n_rows + 1:
        what = "columns" if X.format == "csc" else "rows"
        raise _MalformedError(f"indptr has {len(indptr)} entries for {n_rows} {what}")
    # There may be room to spare behind the last entry.
    if indptr[0] != 0 or indptr[-1] > n_stored or np.any(indptr[1:] < indptr[:-1]):
        raise _MalformedError(f"indptr must ascend from 0 to {n_stored}")
    what = "row" if X.format == "csc" else "column"
    _check_range(indices[: indptr[-1]], n_columns, f"a {what} index")


def _check_coordinates(X: Any) -> None:
    _check_part(X.data, "data", 1)
    if len(X.coords) != len(X.shape):
        raise _MalformedError(f"{len(X.coords)} arrays of indices for the shape {X.shape}")
    for number, (indices, limit) in enumerate(zip(X.coords, X.shape, strict=True)):
        what = ("row", "column")[number] if len(X.shape) == 2 else f"axis-{number}"
        indices = _integers(indices, f"the {what} indices")
        if len(indices) != len(X.data):
            raise _MalformedError(f"{len(X.data)} values but {len(indices)} {what} indices")
        _check_range(indices, limit, f"a {what} index")


def _check_diagonals(X: Any) -> None:
    _check_part(X.data, "data", 2)
    offsets = _integers(X.offsets, "offsets")
    if len(offsets) != len(X.data):
        raise _MalformedError(f"{len(X.data)} diagonals but {len(offsets)} offsets")
    if len(np.unique(offsets)) != len(offsets):
        raise _MalformedError("an offset occurs twice")
    reach = max(X.shape[-1], X.data.shape[1])
    if np.any((offsets <= -X.shape[0] - reach) | (offsets >= X.shape[-1] + reach)):
        raise _MalformedError(f"an offset is far outside {X.shape}")


def _from_lists(X: Any) -> Any:
    """Return lists of lists as CSR; SciPy's own way trusts that the lists fit."""
    n_rows = X.shape[0] if X.ndim == 2 else 1
    if len(X.rows) != n_rows or len(X.data) != n_rows:
        raise _MalformedError(f"{len(X.rows)} lists of columns for {n_rows} rows")
    lengths = np.fromiter(map(len, X.rows), dtype=np.int64, count=n_rows)
    if np.any(lengths != np.fromiter(map(len, X.data), dtype=np.int64, count=n_rows)):
        raise _MalformedError("a row has more values than columns, or fewer")
    n_stored = int(lengths.sum())
    indices = np.fromiter(chain.from_iterable(X.rows), dtype=np.int64, count=n_stored)
    _check_range(indices, X.shape[-1], "a column index")
    return X.tocsr()


def _check_part(part: Any, name: str, ndim: int) -> None:
    if not isinstance(part, np.ndarray) or part.ndim != ndim:
        raise _MalformedError(f"{name} must be an array of {ndim} dimension{'s' * (ndim > 1)}")


def _integers(part: Any, name: str) -> NDArray[np.integer[Any]]:
    _check_part(part, name, 1)
    if part.dtype.kind not in "iu":
        raise _MalformedError(f"{name} must be integers, not {part.dtype}")
    integers: NDArray[np.integer[Any]] = part
    return integers


def _check_range(indices: NDArray[np.integer[Any]], limit: int, what: str) -> None:
    if len(indices) == 0:
        return
    for index in (int(indices.min()), int(indices.max())):
        if not 0 <= index < limit:
            raise _MalformedError(f"{what} is {index}, not one of 0 to {limit - 1}")
