"""Coarse lists of an index: a query looks at codes of the nearest ones alone."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from histrs._checks.scale import exponent_of
from histrs._typing import Array

# Of codes, tables, biases and a number of neighbours: rows and their sums.
Search = Callable[[slice, NDArray[np.intp], int], tuple[NDArray[np.int64], NDArray[np.floating]]]


def probed(
    X: Array, centres: Array, sizes: NDArray[np.intp], n_probes: int, k: int, *, inner: bool
) -> NDArray[np.bool_]:
    """Say which lists queries look into: the nearest ones, and as many as hold `k` rows."""
    exponent = exponent_of(centres)
    centres = np.ldexp(centres, -exponent)
    nearness = np.ldexp(X, -exponent) @ centres.T
    if not inner:
        nearness -= 0.5 * np.sum(centres**2, axis=1)
    order = np.argsort(-nearness, axis=1, kind="stable")
    held_before = np.cumsum(sizes[order], axis=1) - sizes[order]
    needed = (np.arange(len(sizes)) < n_probes) | (held_before < k)
    chosen = np.empty_like(needed)
    np.put_along_axis(chosen, order, needed, axis=1)
    return chosen


def nearest_in_lists(
    chosen: NDArray[np.bool_], starts: NDArray[np.int64], search: Search, k: int, dtype: np.dtype
) -> tuple[NDArray[np.int64], NDArray[np.floating]]:
    """Return the `k` rows of least sums of all lists that a query looks into, and the sums."""
    rows = np.zeros((len(chosen), k), np.int64)
    sums = np.full((len(chosen), k), np.inf, dtype)
    for number in np.flatnonzero(chosen.any(axis=0) & (np.diff(starts) > 0)):
        part = slice(starts[number], starts[number + 1])
        queries = np.flatnonzero(chosen[:, number])
        found, of_found = search(part, queries, min(k, part.stop - part.start))
        all_sums = np.hstack([sums[queries], of_found])
        all_rows = np.hstack([rows[queries], found + part.start])
        best = np.argsort(all_sums, axis=1, kind="stable")[:, :k]
        sums[queries] = np.take_along_axis(all_sums, best, axis=1)
        rows[queries] = np.take_along_axis(all_rows, best, axis=1)
    return rows, sums
