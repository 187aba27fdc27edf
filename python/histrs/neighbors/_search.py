"""The nearest of many, in the order of distance and then of index."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from histrs._typing import Array

Found = tuple[Array, NDArray[np.intp]]

# What rounding may change in a distance or a bound, single precision included.
_ROUNDING = 1e-6
# Candidates of a query in the first round; each round has twice as many as the one before.
_FIRST_ROUND = 8


def in_precision(distances: Array, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return distances in the precision of queries, and refuse those that it cannot hold."""
    with np.errstate(over="ignore"):
        narrow = distances.astype(dtype, copy=False)
    lost = np.isinf(narrow) & np.isfinite(distances)
    if lost.any():
        raise ValueError(
            f"a distance of {distances[lost][0]:.3g} is more than {dtype} holds: give X in double "
            "precision, or divide the columns by a scale."
        )
    return narrow


def nearest(D: NDArray[Any], k: int) -> Found:
    """Return the `k` smallest entries of each row, and their indices."""
    last = np.partition(D, k - 1, axis=1)[:, k - 1 : k]
    rows, columns = np.nonzero(last >= D)
    # Ties, at the last rank too, are broken by index, as everywhere else.
    order = np.lexsort((D[rows, columns], rows))
    counts = np.bincount(rows, minlength=len(D))
    first = np.cumsum(counts) - counts
    indices = columns[order[first[:, None] + np.arange(k)]]
    distances = np.take_along_axis(D, indices, axis=1)
    return distances.astype(np.float64, copy=False), indices


def nearest_by_bounds(
    bounds: Array, of_pairs: Callable[[NDArray[np.intp], NDArray[np.intp]], NDArray[Any]], k: int
) -> Found:
    """Return what `nearest` would, computing only distances that `bounds` leave open.

    Bounds, of shape (n_queries, n_candidates), are infinite for what is no candidate, and
    `of_pairs(queries, candidates)` returns distances of pairs.
    """
    n, m = bounds.shape
    order = np.argsort(bounds, axis=1, kind="stable")
    D = np.full((n, m), np.inf)
    farthest = np.full(n, np.inf)
    start, size = 0, max(k, _FIRST_ROUND)
    while start < m:
        candidates = order[:, start : start + size]
        of_candidates = np.take_along_axis(bounds, candidates, axis=1)
        limit = farthest * (1 + _ROUNDING)
        rows, at = np.nonzero((of_candidates <= limit[:, None]) & np.isfinite(of_candidates))
        if len(rows) == 0:
            break
        columns = candidates[rows, at]
        D[rows, columns] = of_pairs(rows, columns)
        farthest = np.partition(D, k - 1, axis=1)[:, k - 1]
        start, size = start + size, 2 * size
    return nearest(D, k)


def check_count(n_neighbors: Any, n_candidates: int) -> int:
    """Return a number of neighbours, or raise where there are not as many."""
    try:
        k = operator.index(n_neighbors)
    except TypeError as error:
        raise TypeError(f"n_neighbors = {n_neighbors!r}: expected an integer.") from error
    if k < 1:
        raise ValueError(f"n_neighbors = {k}: it must be at least 1.")
    if k > n_candidates:
        raise ValueError(
            f"n_neighbors = {k} is more than the {n_candidates} samples to choose from; "
            "Expected n_neighbors <= n_samples_fit."
        )
    return k
