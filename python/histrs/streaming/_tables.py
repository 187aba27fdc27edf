"""Rows of tables whose columns have names, a chunk at a time: Parquet, CSV, polars' lazy frames."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from glob import glob, has_magic
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from histrs._frames import numbers_in, order_of
from histrs.streaming._names import BEFORE, NamedRows

# Columns of a table, each an array of as many entries.
Columns = list[NDArray[Any]]
# What errors call the source of some rows, and the names and columns of these.
Batch = tuple[str, list[str], Columns]
_PARQUET, _CSV = (".parquet", ".pq"), (".csv", ".csv.gz")


@dataclass(frozen=True)
class TableFiles:
    """Files of one kind that hold a table one after the other."""

    paths: tuple[Path, ...]
    is_parquet: bool
    given: str
    """What the user named."""

    def names(self) -> list[str]:
        """Return the names of the columns."""
        return self._reader().names(self.paths[0])

    def batches(self, size: int) -> Iterator[Batch]:
        """Yield the columns of some rows at a time, with their names and their file."""
        reader = self._reader()
        for path in self.paths:
            for names, columns in reader.batches(path, size):
                yield str(path), names, columns

    def _reader(self) -> _Parquet | _Csv:
        return (_Parquet if self.is_parquet else _Csv)(self.given)


@dataclass(frozen=True)
class LazyTable:
    """A lazy frame of polars, computed anew in each pass."""

    frame: Any
    given: str = "the lazy frame"

    def names(self) -> list[str]:
        """Return the names of the columns."""
        return list(self.frame.collect_schema().names())

    def batches(self, size: int) -> Iterator[Batch]:
        """Yield the columns of some rows at a time, with their names."""
        if hasattr(self.frame, "collect_batches"):
            frames = self.frame.collect_batches(chunk_size=size, maintain_order=True)
        else:
            frames = self.frame.collect().iter_slices(size)
        for frame in frames:
            yield self.given, frame.columns, [column.to_numpy() for column in frame.get_columns()]


Table = TableFiles | LazyTable


def as_table(rows: Any) -> Table | None:
    """Return the table that rows are; None where they are something else.

    Raises
    ------
    FileNotFoundError
        If there is no such file, or none that a pattern matches.
    ValueError
        If a folder has no tables, or files are of several kinds.
    """
    if hasattr(rows, "collect_schema") and hasattr(rows, "lazy") and not hasattr(rows, "__array__"):
        return LazyTable(rows)
    if isinstance(rows, str | os.PathLike):
        paths = _paths(str(rows))
    elif isinstance(rows, list | tuple) and rows and all(map(_is_path, rows)):
        paths = [path for each in rows for path in _paths(str(each))]
    else:
        return None
    kinds = {_kind(path) for path in paths}
    if kinds == {""}:
        return None
    if len(kinds) > 1:
        raise ValueError(f"{rows}: give files of one kind, Parquet or CSV, not of several.")
    given = str(rows) if _is_path(rows) else f"{paths[0]} and others"
    return TableFiles(tuple(paths), kinds == {"parquet"}, given)


def _is_path(part: Any) -> bool:
    return isinstance(part, str | os.PathLike)


def _kind(path: Path) -> str:
    name = path.name.lower()
    if name.endswith(_PARQUET):
        return "parquet"
    return "csv" if name.endswith(_CSV) else ""


def _paths(given: str) -> list[Path]:
    """Return the files that a path, a folder or a pattern names, in the order of their names."""
    path = Path(given)
    if path.is_dir():
        for ending in (*_PARQUET, *_CSV):
            if found := sorted(path.glob(f"*{ending}")):
                return found
        raise ValueError(f"{path} has no Parquet or CSV files: give a folder that has some.")
    if path.exists():
        return [path]
    found = sorted(map(Path, glob(given, recursive=True))) if has_magic(given) else []
    if not found:
        raise FileNotFoundError(f"{path}: there is no such file or folder.")
    return found


class _Parquet:
    """Parquet files, by pyarrow."""

    def __init__(self, given: str) -> None:
        try:
            from pyarrow import parquet
        except ImportError as error:
            raise _without_pyarrow(given) from error
        self._library = parquet

    def names(self, path: Path) -> list[str]:
        return list(self._library.read_schema(path).names)

    def batches(self, path: Path, size: int) -> Iterator[tuple[list[str], Columns]]:
        with self._library.ParquetFile(path) as file:
            for batch in file.iter_batches(size):
                yield _columns_of(batch)


class _Csv:
    """CSV files with a line of names, by pyarrow."""

    def __init__(self, given: str) -> None:
        try:
            import pyarrow
            from pyarrow import csv
        except ImportError as error:
            raise _without_pyarrow(given) from error
        self._arrow, self._library = pyarrow, csv

    def names(self, path: Path) -> list[str]:
        return list(self._schema(path).names)

    def batches(self, path: Path, size: int) -> Iterator[tuple[list[str], Columns]]:
        # Types are told from the first lines, where numbers may all be whole ones.
        is_integer, real = self._arrow.types.is_integer, self._arrow.float64()
        types = {field.name: real for field in self._schema(path) if is_integer(field.type)}
        options = self._library.ConvertOptions(column_types=types)
        with self._errors_name(path), self._library.open_csv(path, convert_options=options) as file:
            for batch in file:
                yield _columns_of(batch)

    def _schema(self, path: Path) -> Any:
        with self._errors_name(path), self._library.open_csv(path) as file:
            schema = file.schema
        if all(map(_is_number, schema.names)):
            # The first row would be lost.
            raise ValueError(
                f"{path} begins with numbers, not with the names of its columns: add a line of "
                "names, or give chunks of rows, as pandas.read_csv(..., header=None, "
                "chunksize=4096) yields."
            )
        return schema

    @contextmanager
    def _errors_name(self, path: Path) -> Iterator[None]:
        try:
            yield
        except self._arrow.ArrowInvalid as error:
            raise ValueError(f"{path}: {error}.") from error


def _is_number(name: str) -> bool:
    try:
        float(name)
    except ValueError:
        return False
    return True


def _without_pyarrow(given: str) -> ImportError:
    return ImportError(
        f'{given} is read by pyarrow, which is not installed: pip install "histrs[parquet]"'
    )


def _columns_of(batch: Any) -> tuple[list[str], Columns]:
    columns = [column.to_numpy(zero_copy_only=False) for column in batch.columns]
    return list(batch.schema.names), columns


def table_chunks(
    table: Table, own: Sequence[Sequence[str]], chunk_size: int
) -> Iterator[tuple[NamedRows, list[NDArray[Any]]]]:
    """Yield rows, the columns but some, and these, a table of each group of them.

    All chunks but the last have `chunk_size` rows, whatever the batches and files. The columns are
    those of the first file, by name.
    """
    rest: list[tuple[NDArray[Any], ...]] = []
    features: list[str] | None = None
    for batch in table.batches(chunk_size):
        if features is None:
            taken = {name for group in own for name in group}
            features = [name for name in batch[1] if name not in taken]
        rest.append(_split(batch, features, own))
        n_rows = sum(len(parts[0]) for parts in rest)
        if n_rows >= chunk_size:
            whole = tuple(map(np.concatenate, zip(*rest, strict=True)))
            end = n_rows - n_rows % chunk_size
            for start in range(0, end, chunk_size):
                values, *others = (part[start : start + chunk_size] for part in whole)
                yield NamedRows(values, features), others
            rest = [tuple(part[end:] for part in whole)]
    if features is not None and sum(len(parts[0]) for parts in rest) > 0:
        values, *others = map(np.concatenate, zip(*rest, strict=True))
        yield NamedRows(values, features), others


def _split(
    batch: Batch, features: Sequence[str], own: Sequence[Sequence[str]]
) -> tuple[NDArray[Any], ...]:
    """Return the columns of features, and those of each group."""
    given, names, columns = batch
    known = dict(zip(names, columns, strict=True))
    taken = {name for group in own for name in group}
    missing = sorted(taken - set(known))
    if missing:
        raise ValueError(f"{given} has no column {missing[0]!r}; its columns are {names}.")
    # All of them, and no others.
    order_of([name for name in names if name not in taken], features, given, BEFORE)
    values = [numbers_in(known[name], f"Column {name!r} of {given}") for name in features]
    n_rows = len(columns[0]) if columns else 0
    groups = [[known[name] for name in group] for group in own]
    return tuple(
        np.column_stack(group) if group else np.empty((n_rows, 0)) for group in (values, *groups)
    )


def named_columns(part: Any, names: Sequence[str]) -> list[str]:
    """Return the columns that targets or weights name; none where they are values."""
    if isinstance(part, str):
        return [part]
    if part is None or np.asarray(part).dtype.kind != "U":
        return []
    listed: list[str] = np.asarray(part).ravel().tolist()
    # Labels may be strings too.
    return listed if set(listed) <= set(names) or len(listed) <= len(names) else []
