"""Rows of tables whose columns have names, a chunk at a time: Parquet, CSV, polars' lazy frames."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from glob import glob, has_magic
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from histrs._frames import numbers_in, order_of
from histrs.streaming._names import BEFORE, NamedRows

# Columns of a table, each an array of as many entries.
Columns = list[NDArray[Any]]
# What errors call the source of some rows, and the names and columns of these.
Batch = tuple[str, list[str], Columns]
# The columns that are read, of those that a source has.
Choice = Callable[[str, list[str]], list[str]]
_PARQUET, _TSV = (".parquet", ".pq"), (".tsv", ".tsv.gz")
_CSV = (".csv", ".csv.gz", *_TSV)
# Bytes of a file that the length of its lines is told from.
_SAMPLE = 1 << 20


@dataclass(frozen=True)
class Table:
    r"""A table whose columns are chosen by name, in files or in a lazy frame.

    Methods that take rows take a table in place of a path: `Moments.of`, `fit_rows`, `predict` and
    `score`. Columns that are not chosen are not read.

    Parameters
    ----------
    source : {path, list of paths, LazyFrame}
        A Parquet or CSV file, a folder or a pattern of such files, or a lazy frame of polars.
    columns : sequence of str, default=None
        The features. None takes all columns but targets, weights and those of `drop`.
    drop : sequence of str, default=()
        Columns that are no features. Give `columns` or `drop`.
    separator : str, default=None
        The character between values of a CSV file. None takes the tab for ``.tsv`` and the comma
        for other names.

    Raises
    ------
    ValueError
        If `columns` and `drop` are given together.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import mkdtemp
    >>> from histrs.streaming import MomentLasso, Table
    >>> path = Path(mkdtemp()) / "trees.csv"
    >>> _ = path.write_text("id;height;girth;volume\n1;21;8;10\n2;20;9;11\n3;23;12;19\n")
    >>> table = Table(path, drop=["id"], separator=";")
    >>> model = MomentLasso(0.1).fit_rows(table, "volume")
    >>> model.feature_names_in_.tolist()
    ['height', 'girth']
    >>> model.predict(table).shape
    (3,)
    """

    source: Any
    columns: Sequence[str] | None = None
    drop: Sequence[str] = ()
    separator: str | None = None

    def __post_init__(self) -> None:
        if self.columns is not None and len(self.drop) > 0:
            raise ValueError("columns and drop are both given: give only one of them.")


@dataclass(frozen=True)
class OpenTable:
    """A table that is there, and the features that are chosen of it."""

    source: TableFiles | LazyTable
    columns: list[str] | None
    drop: list[str]

    @property
    def given(self) -> str:
        """What errors call the table."""
        return self.source.given

    def of(self, names: list[str] | None) -> Self:
        """Return the same table with these features, if it says none and there are any."""
        return self if names is None or self.columns is not None else replace(self, columns=names)

    def features(self, given: str, names: list[str], own: set[str]) -> list[str]:
        """Return the features among the columns of a file, without targets and weights."""
        for name in (*sorted(own), *(self.columns or self.drop)):
            if name not in names:
                raise ValueError(f"{given} has no column {name!r}; its columns are {names}.")
        chosen = names if self.columns is None else self.columns
        return [name for name in chosen if name not in own and name not in self.drop]


@dataclass(frozen=True)
class TableFiles:
    """Files of one kind that hold a table one after the other."""

    paths: tuple[Path, ...]
    is_parquet: bool
    given: str
    """What the user named."""
    separator: str | None = None

    def names(self) -> list[str]:
        """Return the names of the columns."""
        return self._reader().names(self.paths[0])

    @property
    def n_rows(self) -> int | None:
        """Number of rows; of CSV files about, and None of compressed ones."""
        counts = list(map(self._reader().n_rows, self.paths))
        return None if None in counts else sum(count or 0 for count in counts)

    def batches(self, size: int, choose: Choice) -> Iterator[Batch]:
        """Yield chosen columns of some rows at a time, with their names and their file."""
        reader = self._reader()
        for path in self.paths:
            for names, columns in reader.batches(path, size, choose):
                yield str(path), names, columns

    def _reader(self) -> _Parquet | _Csv:
        if self.is_parquet:
            return _Parquet(self.given)
        is_tabbed = str(self.paths[0]).lower().endswith(_TSV)
        return _Csv(self.given, self.separator or ("\t" if is_tabbed else ","))


@dataclass(frozen=True)
class LazyTable:
    """A lazy frame of polars, computed anew in each pass."""

    frame: Any
    given: str = "the lazy frame"

    def names(self) -> list[str]:
        """Return the names of the columns."""
        return list(self.frame.collect_schema().names())

    @property
    def n_rows(self) -> int | None:
        """Nothing is known before the frame is computed."""
        return None

    def batches(self, size: int, choose: Choice) -> Iterator[Batch]:
        """Yield chosen columns of some rows at a time, with their names."""
        chosen = self.frame.select(choose(self.given, self.names()))
        if hasattr(chosen, "collect_batches"):
            frames = chosen.collect_batches(chunk_size=size, maintain_order=True)
        else:
            frames = chosen.collect().iter_slices(size)
        for frame in frames:
            yield self.given, frame.columns, [column.to_numpy() for column in frame.get_columns()]


def as_table(rows: Any) -> OpenTable | None:
    """Return the table that rows are; None where they are something else.

    Raises
    ------
    FileNotFoundError
        If there is no such file, or none that a pattern matches.
    ValueError
        If a folder has no tables, or files are of several kinds.
    """
    if isinstance(rows, OpenTable):
        return rows
    if isinstance(rows, Table):
        source = _source_of(rows.source, rows.separator)
        if source is None:
            raise ValueError(
                f"{rows.source!r} is not a table: give Parquet or CSV files, or a lazy frame. "
                "Files with other names need the argument separator."
            )
        columns = None if rows.columns is None else list(rows.columns)
        return OpenTable(source, columns, list(rows.drop))
    source = _source_of(rows)
    return None if source is None else OpenTable(source, None, [])


def _source_of(rows: Any, separator: str | None = None) -> TableFiles | LazyTable | None:
    if hasattr(rows, "collect_schema") and hasattr(rows, "lazy") and not hasattr(rows, "__array__"):
        return LazyTable(rows)
    if isinstance(rows, str | os.PathLike):
        paths = _paths(str(rows))
    elif isinstance(rows, list | tuple) and rows and all(map(_is_path, rows)):
        paths = [path for each in rows for path in _paths(str(each))]
    else:
        return None
    kinds = {"csv" if separator else _kind(path) for path in paths}
    if kinds == {""}:
        return None
    if len(kinds) > 1:
        raise ValueError(f"{rows}: give files of one kind, Parquet or CSV, not of several.")
    given = str(rows) if _is_path(rows) else f"{paths[0]} and others"
    return TableFiles(tuple(paths), kinds == {"parquet"}, given, separator)


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

    def n_rows(self, path: Path) -> int | None:
        return int(self._library.read_metadata(path).num_rows)

    def batches(self, path: Path, size: int, choose: Choice) -> Iterator[tuple[list[str], Columns]]:
        with self._library.ParquetFile(path) as file:
            chosen = choose(str(path), list(file.schema_arrow.names))
            for batch in file.iter_batches(size, columns=chosen):
                yield _columns_of(batch)


class _Csv:
    """CSV files with a line of names, by pyarrow."""

    def __init__(self, given: str, separator: str) -> None:
        try:
            import pyarrow
            from pyarrow import csv
        except ImportError as error:
            raise _without_pyarrow(given) from error
        self._arrow, self._library = pyarrow, csv
        self._format = csv.ParseOptions(delimiter=separator)

    def names(self, path: Path) -> list[str]:
        return list(self._schema(path).names)

    def n_rows(self, path: Path) -> int | None:
        return None if path.suffix == ".gz" else n_lines(path) - 1

    def batches(self, path: Path, size: int, choose: Choice) -> Iterator[tuple[list[str], Columns]]:
        # Types are told from the first lines, where numbers may all be whole ones.
        is_integer, real = self._arrow.types.is_integer, self._arrow.float64()
        schema = self._schema(path)
        types = {field.name: real for field in schema if is_integer(field.type)}
        chosen = choose(str(path), list(schema.names))
        options = self._library.ConvertOptions(column_types=types, include_columns=chosen)
        with self._errors_name(path), self._opened(path, options) as file:
            for batch in file:
                yield _columns_of(batch)

    def _opened(self, path: Path, options: Any = None) -> Any:
        return self._library.open_csv(path, parse_options=self._format, convert_options=options)

    def _schema(self, path: Path) -> Any:
        with self._errors_name(path), self._opened(path) as file:
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


def n_lines(path: Path) -> int:
    """Return about how many lines a file has, from the length of its first ones."""
    with open(path, "rb") as file:
        sample = file.read(_SAMPLE)
    return int(path.stat().st_size * sample.count(b"\n") / max(len(sample), 1))


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
    table: OpenTable, own: Sequence[Sequence[str]], chunk_size: int
) -> Iterator[tuple[NamedRows, list[NDArray[Any]]]]:
    """Yield rows, the columns but some, and these, a table of each group of them.

    All chunks but the last have `chunk_size` rows, whatever the batches and files. The columns are
    those of the first file, by name.
    """
    rest: list[tuple[NDArray[Any], ...]] = []
    taken = {name for group in own for name in group}
    features: list[str] = []

    def choose(given: str, names: list[str]) -> list[str]:
        found = table.features(given, names, taken)
        if not features:
            features.extend(found)
        # All of them, and no others.
        order_of(found, features, given, BEFORE)
        return [*features, *sorted(taken)]

    for batch in table.source.batches(chunk_size, choose):
        rest.append(_split(batch, features, own))
        n_rows = sum(len(parts[0]) for parts in rest)
        if n_rows >= chunk_size:
            whole = tuple(map(np.concatenate, zip(*rest, strict=True)))
            end = n_rows - n_rows % chunk_size
            for start in range(0, end, chunk_size):
                values, *others = (part[start : start + chunk_size] for part in whole)
                yield NamedRows(values, features), others
            rest = [tuple(part[end:] for part in whole)]
    if sum(len(parts[0]) for parts in rest) > 0:
        values, *others = map(np.concatenate, zip(*rest, strict=True))
        yield NamedRows(values, features), others


def _split(
    batch: Batch, features: Sequence[str], own: Sequence[Sequence[str]]
) -> tuple[NDArray[Any], ...]:
    """Return the columns of features, and those of each group."""
    given, names, columns = batch
    known = dict(zip(names, columns, strict=True))
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
