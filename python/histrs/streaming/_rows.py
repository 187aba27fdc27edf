"""Rows from arrays, files and iterables, a chunk at a time."""

import os
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from histrs._validation import canonical

# An array, a CSR matrix, the path of an .npy file, or an iterable of such chunks.
Rows: TypeAlias = Any
Chunk: TypeAlias = tuple[Any, NDArray[Any] | None]

# What estimators ask of scikit-learn's check of rows.
ROW_CHECKS: dict[str, Any] = {"accept_sparse": "csr", "dtype": [np.float64, np.float32]}


def is_sparse(Z: Any) -> bool:
    """Say whether rows are a sparse matrix; SciPy's own guard narrows to a type without parts."""
    return bool(sparse.issparse(Z))


def checked(rows: Any, name: str = "Z") -> Any:
    """Return finite rows, as an array of two dimensions or as CSR; a memmap is not read whole."""
    Z: Any = canonical(rows.tocsr()) if is_sparse(rows) else np.asarray(rows)
    values = Z.data[: Z.nnz] if is_sparse(Z) else Z
    if Z.ndim != 2:
        raise ValueError(f"{name} has shape {Z.shape}: expected rows and columns, a 2D array.")
    if Z.dtype.kind not in "fiub":
        raise ValueError(f"{name} has dtype {Z.dtype}: expected real numbers.")
    if Z.dtype.kind == "f" and not np.isfinite(values).all():
        place = _first_not_finite(Z)
        raise ValueError(
            f"{name}[{place[0]}, {place[1]}] is NaN or infinite; drop or impute the row."
        )
    return Z


def _first_not_finite(Z: Any) -> tuple[int, int]:
    if is_sparse(Z):
        entry = int(np.flatnonzero(~np.isfinite(Z.data))[0])
        row = int(np.searchsorted(Z.indptr, entry, side="right")) - 1
        return row, int(Z.indices[entry])
    row, column = np.argwhere(~np.isfinite(Z))[0]
    return int(row), int(column)


def chunks(rows: Rows, Y: Any, chunk_size: int, skip: int) -> Iterator[Chunk]:
    """Yield chunks of rows and targets, without the first `skip` chunks."""
    if isinstance(rows, str | os.PathLike):
        rows = np.load(Path(rows), mmap_mode="r", allow_pickle=False)
    if is_sparse(rows) or isinstance(rows, np.ndarray):
        yield from _slices(rows.tocsr() if is_sparse(rows) else rows, Y, chunk_size, skip)
    elif isinstance(rows, Iterable):
        if Y is not None:
            raise ValueError("Y must be None for an iterable of chunks: yield pairs (Z, Y).")
        for chunk in islice(rows, skip, None):
            yield chunk if isinstance(chunk, tuple) else (chunk, None)
    else:
        raise TypeError(f"rows is {type(rows).__name__}: expected an array, a path or an iterable.")


def _slices(rows: Any, Y: Any, chunk_size: int, skip: int) -> Iterator[Chunk]:
    n_rows = rows.shape[0]
    Y = None if Y is None else np.asarray(Y)
    if Y is not None and len(Y) != n_rows:
        raise ValueError(f"Y has {len(Y)} rows and the data {n_rows}: give a target for each row.")
    for start in range(skip * chunk_size, n_rows, chunk_size):
        part = slice(start, start + chunk_size)
        yield rows[part], None if Y is None else Y[part]
