"""Which rows are learned from, where there are many or equal ones."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from histrs._solvers.block_cg import Array
from histrs._solvers.preconditioners import Indices


def drawn_rows(rows: Indices, most: int, random: np.random.RandomState) -> Indices:
    """Return some of the rows, in ascending order: all where there are no more."""
    return rows if len(rows) <= most else np.sort(random.choice(rows, most, replace=False))


def distinct_rows(
    A: Array, Y: Array, weights: Array | None = None
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the rows to keep of those that are equal in all columns and targets, and their groups.

    Repeated measurements with other results stay: they are what tells the noise. Of equal rows, one
    of largest weight is kept. The group of a row is the position of the row that is kept for it.
    """
    order = np.arange(len(A)) if weights is None else np.argsort(-weights, kind="stable")
    _, first, inverse = np.unique(
        np.hstack([A, Y])[order], axis=0, return_index=True, return_inverse=True
    )
    kept = np.sort(order[first])
    groups = np.empty(len(A), dtype=np.intp)
    groups[order] = np.searchsorted(kept, order[first])[inverse.ravel()]
    return kept, groups


def learned_rows(
    n_given: int, with_weight: Indices | None, learned: NDArray[np.intp]
) -> NDArray[np.intp]:
    """Return which learned row each of the given ones is; -1 for those without weight."""
    if with_weight is None:
        return learned
    found = np.full(n_given, -1, dtype=np.intp)
    found[with_weight] = learned
    return found


def without_rows(
    learned: NDArray[np.intp], removed: Indices
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return which learned row each of the other given ones is, and the learned ones that go.

    A learned row goes with the last of the given ones that it stands for.
    """
    rest = np.delete(learned, removed)
    gone = np.setdiff1d(learned[removed], np.append(rest, -1))
    return np.where(rest < 0, -1, rest - np.searchsorted(gone, rest)), gone
