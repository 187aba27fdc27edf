"""One reader for each kind of rows: each yields chunks of them, of targets and of weights.

A further kind is a further reader, and its place in `reader_of`.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.datasets import load_svmlight_file

from histrs._checks.sparse import is_sparse, sound
from histrs._checks.validation import validate_data
from histrs._distributed.cluster import computed
from histrs._distributed.rows import is_dask, partitions_with
from histrs._frames import frame_of
from histrs.streaming._names import ColumnNames
from histrs.streaming._rows import ROW_CHECKS, Chunk, Rows, n_columns, set_n_features
from histrs.streaming._tables import OpenTable, as_table, n_lines, named_columns, table_chunks
from histrs.streaming._weights import weights_of


@dataclass(frozen=True)
class RowReader(ABC):
    """Rows of one kind of source, with their targets and weights, a chunk at a time."""

    rows: Any

    is_distributed: ClassVar[bool] = False
    """Whether rows are on a cluster, which adds up what is made of them."""
    has_own_chunks: ClassVar[bool] = False
    """Whether rows come in chunks of their own, of any sizes."""

    @property
    def n_rows(self) -> int | None:
        """About how many rows there are, where it is known before they are read."""
        return None

    @property
    def n_features(self) -> int | None:
        """Number of columns, where only the source knows it: no pass brings rows here."""
        return None

    @property
    def has_one_pass(self) -> bool:
        """Whether rows are gone once they are read."""
        return False

    @abstractmethod
    def read(self, Y: Any, weights: Any, chunk_size: int) -> Iterator[Chunk]:
        """Yield chunks of rows, targets and weights."""

    def chunks(self, Y: Any, weights: Any, chunk_size: int, names: ColumnNames) -> Iterator[Chunk]:
        """Yield chunks of sound rows, whose columns are matched with those that have names."""
        for number, (Z, *others) in enumerate(self.read(Y, weights, chunk_size)):
            yield names.matched(Z, self._title(number)), *others

    def _title(self, number: int) -> str:
        """Return what errors call a chunk."""
        return f"chunk {number}, counted from 0,"


class TableReader(RowReader):
    """Parquet and CSV files, and lazy frames; targets and weights may be names of columns."""

    @property
    def n_rows(self) -> int | None:
        """About how many rows there are, where it is known before they are read."""
        found: int | None = self.rows.source.n_rows
        return found

    def read(self, Y: Any, weights: Any, chunk_size: int) -> Iterator[Chunk]:
        """Yield chunks of rows, targets and weights."""
        return _of_table(self.rows, Y, weights, chunk_size)


class FileReader(RowReader):
    """The array of an .npy file, and those of an .npz file, which may have names."""

    @property
    def n_rows(self) -> int | None:
        """About how many rows there are, where it is known before they are read."""
        return None if self.rows.suffix == ".npz" else int(_NpyFile(self.rows).shape[0])

    def read(self, Y: Any, weights: Any, chunk_size: int) -> Iterator[Chunk]:
        """Yield chunks of rows, targets and weights."""
        if self.rows.suffix == ".npz":
            return _slices(*_npz(self.rows, Y, weights), chunk_size)
        return _slices(_NpyFile(self.rows), Y, weights, chunk_size)


class SvmlightReader(RowReader):
    """A file of sparse rows that begin with their targets, as svmlight has them."""

    has_own_chunks = True

    @property
    def n_rows(self) -> int | None:
        """About how many rows there are, where it is known before they are read."""
        return n_lines(self.rows)

    def read(self, Y: Any, weights: Any, chunk_size: int) -> Iterator[Chunk]:
        """Yield rows and the targets of the file, at most so many at a time."""
        if Y is not None:
            raise ValueError(f"Y must be None: {self.rows} has targets of its own.")
        given = None if weights is None else np.asarray(weights)
        columns = _svmlight_columns(self.rows, self.rows.stat().st_mtime_ns)
        start = 0
        for rows, targets in _svmlight_parts(self.rows):
            stop = start + len(targets)
            own = None if given is None else given[start:stop]
            yield from _slices(rows[:, columns], targets, own, chunk_size)
            start = stop
        if given is not None and len(given) != start:
            raise _not_one_each("sample_weight", given, self.rows)


class DaskReader(RowReader):
    """A dask array, whose partitions are chunks."""

    is_distributed = True
    has_own_chunks = True

    @property
    def n_features(self) -> int | None:
        """Number of columns, where only the source knows it: no pass brings rows here."""
        return int(self.rows.shape[1])

    def read(self, Y: Any, weights: Any, chunk_size: int) -> Iterator[Chunk]:
        """Yield the partitions one after the other; no more than one is in memory here."""
        for parts in partitions_with(self.rows, Y, weights):
            yield computed(parts)


class ArrayReader(RowReader):
    """An array of any library, a frame, or a sparse matrix."""

    @property
    def n_rows(self) -> int | None:
        """Number of rows, where it is known before they are read."""
        shape = getattr(self.rows, "shape", None)
        return None if shape is None else int(shape[0])

    def read(self, Y: Any, weights: Any, chunk_size: int) -> Iterator[Chunk]:
        """Yield chunks of rows, targets and weights."""
        if is_sparse(self.rows):
            return _slices(sound(self.rows, "rows").tocsr(), Y, weights, chunk_size)
        if _is_name(Y) or _is_name(weights):
            return _slices(*_of_frame(self.rows, Y, weights), chunk_size)
        frame = frame_of(self.rows)
        rows = np.asanyarray(self.rows) if frame is None else frame
        return _slices(rows, Y, weights, chunk_size)

    def _title(self, number: int) -> str:
        """Return what errors call a chunk."""
        return "the rows"


class ChunkReader(RowReader):
    """An iterable of chunks: rows, or tuples of rows, targets and weights."""

    has_own_chunks = True

    @property
    def has_one_pass(self) -> bool:
        """Whether rows are gone once they are read."""
        return isinstance(self.rows, Iterator)

    def read(self, Y: Any, weights: Any, chunk_size: int) -> Iterator[Chunk]:
        """Yield chunks of rows, targets and weights, as many rows as they come with."""
        for what, part, cure in (
            ("Y", Y, "pairs (Z, Y)"),
            ("sample_weight", weights, "triples (Z, Y, sample_weight), where Y may be None"),
        ):
            if part is not None and not _is_name(part):
                raise ValueError(
                    f"{what} must be None for an iterable of chunks: yield {cure}; of frames it "
                    "may be the name of a column."
                )
        for chunk in self.rows:
            if Y is not None or weights is not None:
                yield _of_frame(chunk, Y, weights)
                continue
            parts = chunk if isinstance(chunk, tuple) else (chunk,)
            if not 1 <= len(parts) <= 3:
                raise ValueError(
                    f"a chunk is a tuple of {len(parts)}: expected rows, with or without targets "
                    "and weights."
                )
            yield (*parts, *(None,) * (3 - len(parts)))


def reader_of(rows: Rows) -> RowReader:
    """Return the reader of rows.

    Raises TypeError if they are of a kind that has none.
    """
    # In this order: a path may name a table, and a dask array is an array, too.
    table = as_table(rows)
    if table is not None:
        return TableReader(table)
    if isinstance(rows, str | os.PathLike):
        path = Path(rows)
        return SvmlightReader(path) if path.suffix in _SVMLIGHT else FileReader(path)
    if is_dask(rows):
        return DaskReader(rows)
    if is_sparse(rows) or hasattr(rows, "__array__") or frame_of(rows) is not None:
        return ArrayReader(rows)
    if isinstance(rows, Iterable):
        return ChunkReader(rows)
    raise TypeError(f"rows is {type(rows).__name__}: expected an array, a path or an iterable.")


def is_stream(rows: Any) -> bool:
    """Say whether rows are in files, in a lazy frame or in an iterator: not in memory."""
    return isinstance(rows, str | os.PathLike | Iterator) or as_table(rows) is not None


def given(
    model: Any,
    X: Any,
    Y: Any = "no_validation",
    weights: Any = None,
    *,
    made: Callable[[Any], Any] = lambda targets: targets,
    used_only: bool = False,
    **checks: Any,
) -> tuple[Any, Any, Any]:
    """Return what `fit` was given, what is made of targets, and weights; the model notes features.

    What is in memory is checked, as `validate_data` does with `checks`; with `used_only`, rows of
    no weight are left out of it. A dask array stays as it is.
    """
    if is_dask(X):
        set_n_features(model, X.shape[1])
        return X, Y if is_dask(Y) else made(Y), weights
    X = validate_data(model, X, Y, ensure_min_samples=2, **ROW_CHECKS, **checks)
    X, Y = X if isinstance(X, tuple) else (X, None)
    Y, weights = made(Y), weights_of(weights, X.shape[0])
    if used_only and weights is not None and not np.all(weights):
        used = np.flatnonzero(weights)
        X, Y, weights = X[used], Y[used], weights[used]
    return X, Y, weights


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
                f"{self._path} is not an .npy file of numbers: give a file of numpy.save, Parquet "
                "or CSV, or an iterable of chunks, such as pandas.read_csv(..., chunksize=4096)."
            )
        return rows


def _is_name(part: Any) -> bool:
    """Say whether targets or weights are the names of columns of frames."""
    return isinstance(part, str) or (
        isinstance(part, list) and bool(part) and all(isinstance(name, str) for name in part)
    )


def _of_frame(rows: Any, Y: Any, weights: Any) -> Chunk:
    """Return rows, targets and weights of a frame; those that are names are its columns."""
    frame = frame_of(rows)
    if frame is None:
        raise ValueError(
            f"Y = {Y!r}, sample_weight = {weights!r}: names of columns need frames, and rows are "
            f"{type(rows).__name__}."
        )
    own = [name for part in (Y, weights) if _is_name(part) for name in np.ravel(part).tolist()]
    for name in own:
        if name not in frame.columns:
            raise ValueError(f"rows have no column {name!r}; their columns are {frame.columns}.")
    values = [frame[part].to_numpy() if _is_name(part) else part for part in (Y, weights)]
    return frame.drop(own), *values


# Text of svmlight that is read at a time, and a number of columns that none has.
_SVMLIGHT_BYTES, _MOST_COLUMNS = 1 << 24, 2**31 - 1
_SVMLIGHT = (".svm", ".svmlight", ".libsvm")


def _svmlight_parts(path: Path) -> Iterator[tuple[Any, NDArray[Any]]]:
    """Yield what is in some megabytes of a file; a column is where its number is from 0 on."""
    for offset in range(0, path.stat().st_size, _SVMLIGHT_BYTES):
        try:
            rows, targets = load_svmlight_file(
                str(path),
                n_features=_MOST_COLUMNS,
                zero_based=True,
                offset=offset,
                length=_SVMLIGHT_BYTES,
            )
        except (ValueError, IndexError) as error:
            raise ValueError(f"{path} is not an svmlight file: {error}.") from error
        if rows.shape[0]:
            yield rows, targets


@lru_cache(maxsize=32)
def _svmlight_columns(path: Path, _changed: int) -> slice:
    """Return the columns of a file, from 0 or from 1 on, which takes a pass."""
    first, last = 1, 0
    for rows, _ in _svmlight_parts(path):
        first = min(first, int(rows.indices.min(initial=1)))
        last = max(last, int(rows.indices.max(initial=0)))
    if first > last:
        raise ValueError(f"{path} has no entries: give a file with rows that have some.")
    return slice(first, last + 1)


def _npz(path: Path, Y: Any, weights: Any) -> tuple[Any, Any, Any]:
    """Return the rows of an .npz file, targets and weights, which may be names of its arrays."""
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = dict(file)
    except (ValueError, OSError, BadZipFile) as error:
        raise ValueError(
            f"{path} is not an .npz file of numbers: give one that numpy.savez has written."
        ) from error
    if {"format", "shape"} <= set(arrays):
        return sound(sparse.load_npz(path), "rows").tocsr(), Y, weights
    parts = []
    for part in (Y, weights):
        if isinstance(part, str):
            if part not in arrays:
                raise ValueError(f"{path} has no array {part!r}; its arrays are {sorted(arrays)}.")
            part = arrays.pop(part)
        parts.append(part)
    if "X" not in arrays and len(arrays) != 1:
        raise ValueError(
            f"{path} has arrays {sorted(arrays)}: name the array of rows X, or store no other "
            "array beside targets and weights."
        )
    rows = arrays["X"] if "X" in arrays else next(iter(arrays.values()))
    n_columns(rows, str(path))
    return rows, parts[0], parts[1]


def _of_table(table: OpenTable, Y: Any, weights: Any, chunk_size: int) -> Iterator[Chunk]:
    """Yield rows; targets and weights are the names of columns, or arrays."""
    known = table.source.names()
    columns = [named_columns(part, known) for part in (Y, weights)]
    arrays = [
        None if part is None or names else np.asarray(part)
        for part, names in zip((Y, weights), columns, strict=True)
    ]
    start = 0
    for Z, own in table_chunks(table, columns, chunk_size):
        stop = start + len(Z.rows)
        chunk: list[Any] = [Z]
        for what, array, names, values in zip(_EACH, arrays, columns, own, strict=True):
            if array is not None and stop > len(array):
                raise _not_one_each(what, array, table.given)
            picked = values[:, 0] if len(names) == 1 else values
            chunk.append(picked if names else None if array is None else array[start:stop])
        yield tuple(chunk)
        start = stop
    for what, array in zip(_EACH, arrays, strict=True):
        if array is not None and start != len(array):
            raise _not_one_each(what, array, table.given)


# What there is one of for each row, by the name of its argument.
_EACH = {"Y": "target", "sample_weight": "weight"}


def _not_one_each(what: str, array: NDArray[Any], given: Any) -> ValueError:
    return ValueError(
        f"{what} has {len(array)} rows, not as many as {given}: give a {_EACH[what]} for each row."
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
