"""Which rows are learned from, where there are many."""

from __future__ import annotations

import numpy as np

from histrs._solvers.preconditioners import Indices


def drawn_rows(rows: Indices, most: int, random: np.random.RandomState) -> Indices:
    """Return some of the rows, in ascending order: all where there are no more."""
    return rows if len(rows) <= most else np.sort(random.choice(rows, most, replace=False))
