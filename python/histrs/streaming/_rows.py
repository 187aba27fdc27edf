"""Rows from arrays, files and iterables, a chunk at a time."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TypeAlias
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from histrs._dask import is_dask
from histrs._sparse import is_sparse, sound
from histrs._validation import canonical
from histrs.streaming._dask import computed_partitions
from histrs.streaming._tables import Table, as_table, named_columns, table_chunks

# An array or a frame, a CSR matrix, a dask array, the path of an .npy or .npz file or of Parquet or
# CSV files, a lazy frame, or an iterable of such chunks.
Rows: TypeAlias = Any
# Rows, their targets and their weights.
Chunk: TypeAlias = tuple[Any, NDArray[Any] | None, Any]

# What estimators ask of scikit-learn's check of rows.
ROW_CHECKS: dict[str, Any] = {"accept_sparse": "csr", "dtype": [np.float64, np.float32]}


def set_n_features(model: Any, n_features: int, names: NDArray[Any] | None = None) -> None:
    """Take note of features, and of their names; those of an earlier fit are not theirs."""
    model.n_features_in_ = n_features
    model.__dict__.pop("feature_names_in_", None)
    if names is not None:
        model.feature_names_in_ = names


def checked(rows: Any, name: str = "Z") -> Any:
    """Return finite rows, as an array of two dimensions or as CSR."""
    Z = matrix(rows, name)
    check_finite(Z, name)
    return Z


def matrix(rows: Any, name: str = "Z") -> Any:
    """Return rows, finite or not; a memmap is not read."""
    Z: Any = canonical(sound(rows, name).tocsr()) if is_sparse(rows) else np.asarray(rows)
    n_columns(Z, name)
    if Z.dtype.kind not in "fiub":
        raise ValueError(f"{name} has dtype {Z.dtype}: expected real numbers.")
    return Z


def n_columns(rows: Any, name: str = "Z") -> int:
    """Return the number of columns of what must be a matrix."""
    shape = np.shape(rows)
    if len(shape) != 2:
        raise ValueError(f"{name} has shape {shape}: expected rows and columns, a 2D array.")
    return int(shape[1])


def check_finite(Z: Any, name: str = "Z") -> None:
    """Refuse NaN and infinity, with the place of the first."""
    values = Z.data[: Z.nnz] if is_sparse(Z) else Z
    if Z.dtype.kind == "f" and not np.isfinite(values).all():
        place = _first_not_finite(Z)
        raise ValueError(
            f"{name}[{place[0]}, {place[1]}] is NaN or infinite; drop or impute the row."
        )


def _first_not_finite(Z: Any) -> tuple[int, int]:
    if is_sparse(Z):
        entry = int(np.flatnonzero(~np.isfinite(Z.data))[0])
        row = int(np.searchsorted(Z.indptr, entry, side="right")) - 1
        return row, int(Z.indices[entry])
    row, column = np.argwhere(~np.isfinite(Z))[0]
    return int(row), int(column)


def chunks(rows: Rows, Y: Any, weights: Any, chunk_size: int) -> Iterator[Chunk]:
    """Yield chunks of rows, targets and weights.

    Sparse chunks are sound: feature maps of others see them next.
    """
    rows = sound(rows, "rows") if is_sparse(rows) else rows
    for Z, *others in _chunks(rows, Y, weights, chunk_size):
        yield (sound(Z, "Z") if is_sparse(Z) else Z), *others


def _chunks(rows: Rows, Y: Any, weights: Any, chunk_size: int) -> Iterator[Chunk]:
    table = as_table(rows)
    if table is not None:
        yield from _of_table(table, Y, weights, chunk_size)
    elif isinstance(rows, str | os.PathLike):
        path = Path(rows)
        if path.suffix == ".npz":
            yield from _slices(*_npz(path, Y, weights), chunk_size)
        else:
            yield from _slices(_NpyFile(path), Y, weights, chunk_size)
    elif is_dask(rows):
        yield from computed_partitions(rows, Y, weights)
    elif is_sparse(rows) or hasattr(rows, "__array__"):
        whole = rows.tocsr() if is_sparse(rows) else np.asanyarray(rows)
        yield from _slices(whole, Y, weights, chunk_size)
    elif isinstance(rows, Iterable):
        if Y is not None:
            raise ValueError("Y must be None for an iterable of chunks: yield pairs (Z, Y).")
        if weights is not None:
            raise ValueError(
                "sample_weight must be None for an iterable of chunks: yield triples "
                "(Z, Y, sample_weight), where Y may be None."
            )
        for chunk in rows:
            parts = chunk if isinstance(chunk, tuple) else (chunk,)
            if not 1 <= len(parts) <= 3:
                raise ValueError(
                    f"a chunk is a tuple of {len(parts)}: expected rows, with or without targets "
                    "and weights."
                )
            yield (*parts, *(None,) * (3 - len(parts)))
    else:
        raise TypeError(f"rows is {type(rows).__name__}: expected an array, a path or an iterable.")


class _NpyFile:
    """The rows of an .npy file, mapped for as long as a part of them is read.

    A map of the whole file would keep what was read in the memory of the process.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.shape = self._map().shape
        if len(self.shape) != 2:
            raise ValueError(
                f"{path} has shape {self.shape}: expected rows and columns, a 2D array."
            )

    def __getitem__(self, part: slice) -> NDArray[Any]:
        return np.array(self._map()[part])

    def _map(self) -> NDArray[Any]:
        try:
            rows: Any = np.load(self._path, mmap_mode="r", allow_pickle=False)
        except (ValueError, EOFError):  # NumPy's messages are of pickles
            rows = None
        if not isinstance(rows, np.ndarray):
            if hasattr(rows, "close"):
                rows.close()
            raise ValueError(
                f"{self._path} is not an .npy file of numbers: give one that numpy.save has "
                "written, a Parquet or CSV file, or an iterable of chunks, such as "
                "pandas.read_csv(..., chunksize=4096) yields."
            )
        return rows


def _npz(path: Path, Y: Any, weights: Any) -> tuple[Any, Any, Any]:
    """Return the rows of an .npz file, targets and weights, which may be names of its arrays."""
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = dict(file)
    except (ValueError, OSError, BadZipFile) as error:
        raise ValueError(
            f"{path} is not an .npz file of numbers: give one that numpy.savez has written."
        ) from error
    parts = []
    for part in (Y, weights):
        if isinstance(part, str):
            if part not in arrays:
                raise ValueError(f"{path} has no array {part!r}; its arrays are {sorted(arrays)}.")
            part = arrays.pop(part)
        parts.append(part)
    if "X" not in arrays and len(arrays) != 1:
        raise ValueError(
            f"{path} has arrays {sorted(arrays)}: the one of the rows is named X, or is the only "
            "one beside targets and weights."
        )
    rows = arrays["X"] if "X" in arrays else next(iter(arrays.values()))
    n_columns(rows, str(path))
    return rows, parts[0], parts[1]


def _of_table(table: Table, Y: Any, weights: Any, chunk_size: int) -> Iterator[Chunk]:
    """Yield rows; targets and weights are the names of columns, or arrays."""
    known = table.names()
    columns = [named_columns(part, known) for part in (Y, weights)]
    arrays = [
        None if part is None or names else np.asarray(part)
        for part, names in zip((Y, weights), columns, strict=True)
    ]
    start = 0
    for Z, own in table_chunks(table, columns, chunk_size):
        stop = start + len(Z)
        chunk: list[Any] = [Z]
        for what, array, names, values in zip(_EACH, arrays, columns, own, strict=True):
            if array is not None and stop > len(array):
                raise _not_one_each(what, array, table)
            picked = values[:, 0] if len(names) == 1 else values
            chunk.append(picked if names else None if array is None else array[start:stop])
        yield tuple(chunk)
        start = stop
    for what, array in zip(_EACH, arrays, strict=True):
        if array is not None and start != len(array):
            raise _not_one_each(what, array, table)


# What there is one of for each row, by the name of its argument.
_EACH = {"Y": "target", "sample_weight": "weight"}


def _not_one_each(what: str, array: NDArray[Any], table: Table) -> ValueError:
    return ValueError(
        f"{what} has {len(array)} rows, not as many as {table.given}: give a {_EACH[what]} for "
        "each row."
    )


def _slices(rows: Any, Y: Any, weights: Any, chunk_size: int) -> Iterator[Chunk]:
    n_rows = rows.shape[0]
    parts = [None if part is None else np.asarray(part) for part in (Y, weights)]
    for (what, each), array in zip(_EACH.items(), parts, strict=True):
        # A single number has no length.
        if array is not None and (array.ndim == 0 or len(array) != n_rows):
            raise ValueError(
                f"{what} has {array.size} rows and the data {n_rows}: give a {each} for each row."
            )
    for start in range(0, n_rows, chunk_size):
        part = slice(start, start + chunk_size)
        Y_part, weights_part = (None if array is None else array[part] for array in parts)
        yield rows[part], Y_part, weights_part
