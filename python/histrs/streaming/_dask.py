"""Partitions of dask arrays."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from histrs._distributed.rows import is_dask
from histrs._weights import classes_of

Array = Any


def unique(labels: Any) -> NDArray[Any]:
    """Return the different labels, in ascending order."""
    if is_dask(labels):
        from dask import array

        labels = array.unique(labels).compute()
    return classes_of(labels)


def are_indicators(labels: Any) -> bool:
    """Say whether labels are a column each, of which a row may have several."""
    return np.ndim(labels) == 2 and not is_dask(labels)


def partitions(rows: Array, targets: Any, weights: Any) -> list[tuple[Any, Any, Any]]:
    """Return the partitions of rows, whole rows each, of their targets and of their weights.

    They are delayed values.
    """
    if rows.ndim != 2:
        raise ValueError(f"X has shape {rows.shape}: expected rows and columns, a 2D array.")
    rows = rows.rechunk({1: -1}) if rows.numblocks[1] > 1 else rows
    blocks = list(rows.to_delayed().ravel())
    if not blocks:
        raise ValueError("there are no rows: moments need at least one chunk.")
    others = [
        [None] * len(blocks) if part is None else _like(part, rows, name, each)
        for part, name, each in ((targets, "Y", "target"), (weights, "sample_weight", "weight"))
    ]
    return list(zip(blocks, *others, strict=True))


def _like(targets: Any, rows: Array, name: str, each: str) -> list[Any]:
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


def computed_partitions(rows: Array, targets: Any, weights: Any) -> Iterator[tuple[Any, Any, Any]]:
    """Yield the partitions one after the other; no more than one is in memory here."""
    import dask

    for parts in partitions(rows, targets, weights):
        yield dask.compute(*parts)
