"""Rows of a dask array: checked as an argument, and in a task."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from histrs import _histrs


def is_dask(rows: Any) -> bool:
    """Say whether rows are a dask array, without importing dask."""
    return all(hasattr(rows, name) for name in ("__dask_graph__", "to_delayed", "numblocks"))


def in_memory(values: Any) -> Any:
    """Return an array of dask as one of NumPy; anything else as it is."""
    return np.asarray(values.compute()) if is_dask(values) else values


class Part(NamedTuple):
    """Where the entries of a part of a matrix are in the whole."""

    row: int
    column: int

    def moved(self, message: str) -> str:
        """Return a message of the core with the index in the whole."""

        def index(found: re.Match[str]) -> str:
            row, column = int(found[1]) + self.row, int(found[2]) + self.column
            return f"X[{row}, {column}]"

        return re.sub(r"X\[(\d+), (\d+)\]", index, message)

    @contextmanager
    def naming_indices(self) -> Iterator[None]:
        """Name indices in the whole in errors of what is done with the part."""
        try:
            yield
        except ValueError as error:
            raise ValueError(self.moved(str(error))) from None


def partitions(X: Any) -> list[tuple[Any, Part]]:
    """Return the partitions of rows, whole rows each, delayed, and where they begin.

    That is 0 where their sizes are unknown.
    """
    # Shuffles that know of one another would start anew with every worker that is lost.
    rows = X.rechunk({1: -1}, method="tasks") if X.numblocks[1] > 1 else X
    edges = np.cumsum([0, *X.chunks[0][:-1]])
    parts = [Part(0 if np.isnan(edge) else int(edge), 0) for edge in edges]
    return list(zip(rows.to_delayed().ravel(), parts, strict=True))


def partitions_with(X: Any, targets: Any, weights: Any) -> list[tuple[Any, Any, Any]]:
    """Return the partitions of rows, of their targets and of their weights, delayed."""
    if X.ndim != 2:
        raise ValueError(f"X has shape {X.shape}: expected rows and columns, a 2D array.")
    blocks = [rows for rows, _ in partitions(X)]
    if not blocks:
        raise ValueError("there are no rows: moments need at least one chunk.")
    others = [
        [None] * len(blocks) if part is None else _like(part, X, name, each)
        for part, name, each in ((targets, "Y", "target"), (weights, "sample_weight", "weight"))
    ]
    return list(zip(blocks, *others, strict=True))


def _like(targets: Any, rows: Any, name: str, each: str) -> list[Any]:
    """Return partitions of targets, or of weights, that fit those of the rows."""
    known = not np.isnan(np.sum(rows.shape[0]))
    if known and len(targets) != rows.shape[0]:
        raise ValueError(
            f"{name} has {len(targets)} rows and the data {rows.shape[0]}: give a {each} for each "
            "row."
        )
    if not is_dask(targets):
        if not known:
            raise ValueError(
                f"{name} must be a dask array with the partitions of X, whose sizes are unknown."
            )
        edges = np.cumsum([0, *rows.chunks[0]])
        return [np.asarray(targets)[a:b] for a, b in pairwise(edges)]
    chunks = (rows.chunks[0], *((-1,) if targets.ndim == 2 else ()))
    if targets.ndim == 2 or (known and targets.chunks[0] != rows.chunks[0]):
        targets = targets.rechunk(chunks if known else {1: -1})
    if targets.numblocks[0] != rows.numblocks[0]:
        raise ValueError(
            f"X has {rows.numblocks[0]} partitions and {name} {targets.numblocks[0]}: compute the "
            f"sizes of the partitions, or give {name} the partitions of X."
        )
    return list(targets.to_delayed().ravel())


def rows_of_blocks(
    rows: NDArray[np.intp], edges: list[int]
) -> tuple[list[tuple[int, NDArray[np.intp]]], list[int]]:
    """Return the blocks that have some of the rows, which are ascending, with their own numbers.

    Also where the blocks of these rows alone begin, and where the last one ends.
    """
    ends = np.searchsorted(rows, edges)
    local = [rows[a:b] - start for (a, b), start in zip(pairwise(ends), edges[:-1], strict=True)]
    some = [(k, part) for k, part in enumerate(local) if len(part) > 0]
    return some, [0, *np.cumsum([len(part) for _, part in some]).tolist()]


def stand_in(X: Any) -> NDArray[Any]:
    """Return an array as large as rows of dask to whoever looks at its shape, and one number.

    Where the sizes of the partitions are unknown it has one row.
    """
    _check_shape(X)
    n_rows = 1 if np.isnan(X.shape[0]) else int(X.shape[0])
    return np.broadcast_to(np.zeros((), dtype_of(X)), (n_rows, X.shape[1]))


def stand_in_to_fit(X: Any) -> NDArray[Any]:
    """Return the same of rows whose number must be known."""
    _check_shape(X)
    if np.isnan(X.shape[0]):
        raise ValueError(
            "The partitions of X have unknown sizes: X.compute_chunk_sizes() finds them, and "
            "to_dask_array(lengths=True) those of a frame."
        )
    return stand_in(X)


def dtype_of(X: Any) -> Any:
    """Return the precision that rows of dask are read in."""
    return X.dtype if X.dtype in (np.float32, np.float64) else np.dtype(np.float64)


def of_floats(X: Any) -> Any:
    """Return rows of dask in that precision."""
    return X if X.dtype == dtype_of(X) else X.astype(np.float64)


def as_rows(X: Any) -> NDArray[Any]:
    """Return a partition as a contiguous array of single or double precision."""
    rows = np.asarray(X)
    return np.ascontiguousarray(
        rows, dtype=rows.dtype if rows.dtype in (np.float32, np.float64) else np.float64
    )


def count_task_threads(n_jobs: int | None) -> int:
    """Return the threads of a task: None is one, as each of a worker's own has a task already."""
    most = _histrs.most_threads()
    if n_jobs is None:
        return 1
    return min(n_jobs, most) if n_jobs > 0 else max(1, most + 1 + n_jobs)


def _check_shape(X: Any) -> None:
    if X.ndim != 2:
        raise ValueError(f"X has shape {X.shape}: expected rows and columns, a 2D array.")
    if sparse.issparse(X._meta) or not isinstance(X._meta, np.ndarray):
        raise TypeError(
            f"The partitions of X are {type(X._meta).__name__}: give dense ones, "
            "X.map_blocks(lambda part: part.toarray())."
        )
    if X.dtype.kind not in "biuf":
        raise ValueError(f"X is of {X.dtype}: give numbers.")
