"""Which rows are learned from, where there are many or equal ones."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from histrs._solvers.block_cg import Array
from histrs._solvers.preconditioners import Indices


def drawn_rows(rows: Indices, most: int, random: np.random.RandomState) -> Indices:
    """Return some of the rows, in ascending order: all where there are no more."""
    return rows if len(rows) <= most else np.sort(random.choice(rows, most, replace=False))


def distinct_rows(A: Array, Y: Array, weights: Array | None = None) -> NDArray[np.intp]:
    """Return the rows to keep of those that are equal in all columns and targets.

    Repeated measurements with other results stay: they are what tells the noise. Of equal rows, one
    of largest weight is kept.
    """
    order = np.arange(len(A)) if weights is None else np.argsort(-weights, kind="stable")
    _, first = np.unique(np.hstack([A, Y])[order], axis=0, return_index=True)
    return np.sort(order[first])
