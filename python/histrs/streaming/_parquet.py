"""Rows of Parquet files, a chunk at a time."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


def is_parquet(path: Path) -> bool:
    """Say whether a path is a Parquet file, or a folder of them, by its name."""
    return path.suffix in (".parquet", ".pq") or (path.is_dir() and any(path.glob("*.parquet")))


def parquet_chunks(
    path: Path, targets: Sequence[str], chunk_size: int
) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
    """Yield the columns but the targets, and the targets, a column each.

    All chunks but the last have `chunk_size` rows, whatever the groups and files.
    """
    rest: list[NDArray[Any]] = []
    names: list[str] = []
    for names, values in _batches(path, chunk_size):
        missing = [name for name in targets if name not in names]
        if missing:
            raise ValueError(f"{path} has no column {missing[0]!r}; its columns are {names}.")
        rest.append(values)
        n_rows = sum(map(len, rest))
        if n_rows >= chunk_size:
            values = np.concatenate(rest)
            whole = n_rows - n_rows % chunk_size
            for start in range(0, whole, chunk_size):
                yield _split(values[start : start + chunk_size], names, targets)
            rest = [values[whole:]]
    if sum(map(len, rest)):
        yield _split(np.concatenate(rest), names, targets)


def _split(
    values: NDArray[Any], names: list[str], targets: Sequence[str]
) -> tuple[NDArray[Any], NDArray[Any]]:
    is_target = np.array([name in targets for name in names])
    Y = values[:, [names.index(name) for name in targets]]
    return values[:, ~is_target] if targets else values, Y


def _batches(path: Path, size: int) -> Iterator[tuple[list[str], NDArray[Any]]]:
    try:
        from pyarrow import parquet
    except ImportError as error:
        raise ImportError(
            f'{path} is read by pyarrow, which is not installed: pip install "histrs[parquet]"'
        ) from error
    for name in sorted(path.glob("*.parquet")) if path.is_dir() else [path]:
        with parquet.ParquetFile(name) as file:
            for batch in file.iter_batches(size):
                yield batch.schema.names, _values(batch, name)


def _values(batch: Any, path: Path) -> NDArray[Any]:
    columns = [column.to_numpy(zero_copy_only=False) for column in batch.columns]
    for name, column in zip(batch.schema.names, columns, strict=True):
        if column.dtype.kind not in "fiub":
            raise ValueError(f"{path}: column {name!r} has dtype {column.dtype}: expected numbers.")
    return np.column_stack(columns)
