"""Sums over the partitions of dask arrays, made where the partitions lie."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from histrs._distributed.cluster import computed, lazy, total
from histrs._distributed.rows import partitions_with
from histrs.streaming._source import RowSource


def reduced(source: RowSource, moments_of: Callable[[RowSource], list[Any]]) -> list[Any]:
    """Return moments of all partitions: those of each, merged as a tree.

    The tree depends on the number of partitions alone, so that results do not depend on who
    computes what, or twice because a worker was lost.
    """
    of_part, bare = lazy(_of_partition), source.without_rows()
    parts = [
        of_part(moments_of, bare, number, *parts)
        for number, parts in enumerate(partitions_with(source.rows, source.targets, source.weights))
    ]
    moments: list[Any] = computed(total(parts, _merge))
    return moments


def _of_partition(
    moments_of: Callable[[RowSource], list[Any]], source: RowSource, number: int, *parts: Any
) -> list[Any]:
    try:
        return moments_of(source.with_rows([parts]))
    except ValueError as error:
        message = str(error).replace("in chunk 0,", f"in chunk {number},", 1)
        raise ValueError(message) from None


def _merge(first: list[Any], second: list[Any]) -> list[Any]:
    return [a.merge(b) for a, b in zip(first, second, strict=True)]
