"""Candidates of a search among codes, in the order of the distances of rows as they are."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from histrs._checks.scale import may_overflow
from histrs._threads import in_threads
from histrs.quantization._rotation import check_range

# Queries of a part of the work.
_QUERIES = 16


def reranked(
    X: NDArray[Any],
    stored: NDArray[Any],
    candidates: NDArray[np.int64],
    k: int,
    metric: str,
    n_threads: int,
    first: int,
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return exact values and the nearest `k` of the candidates of each query.

    `X` are queries from `first` on, and `stored` the indexed rows. Of rows that are equally near,
    the first comes first.
    """
    values = np.empty((len(X), k), X.dtype)
    rows = np.empty((len(X), k), np.int64)

    def part(start: int) -> None:
        for i in range(start, min(start + _QUERIES, len(X))):
            places = np.sort(candidates[i])
            some = np.take(stored, places, axis=0).astype(X.dtype, copy=False)
            with may_overflow():
                if metric == "inner_product":
                    of_some = -(some @ X[i])
                else:
                    some -= X[i]
                    of_some = np.einsum("ij,ij->i", some, some)
            best = np.argsort(of_some, kind="stable")[:k]
            values[i], rows[i] = of_some[best], places[best]

    in_threads(part, range(0, len(X), _QUERIES), n_threads=n_threads)
    check_range(values, first, "compared with the indexed rows")
    if metric == "inner_product":
        return -values, rows
    return (np.sqrt(values) if metric == "euclidean" else values), rows
