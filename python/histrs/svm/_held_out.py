"""Folds of rows, each held out once."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

N_FOLDS = 5

Indices = NDArray[np.intp]


def folds(
    labels: NDArray[np.intp], random: np.random.RandomState, n_folds: int = N_FOLDS
) -> Iterator[tuple[Indices, Indices]]:
    """Yield indices to learn from and indices held out; every class is always learned.

    Each class is dealt out to the folds in turn, so that these are as alike as can be. A class of
    a single row is never held out.
    """
    fold = np.empty(len(labels), dtype=np.intp)
    order = random.permutation(len(labels))
    dealt = 0
    for label in np.unique(labels):
        members = order[labels[order] == label]
        fold[members] = (dealt + np.arange(len(members))) % n_folds if len(members) > 1 else -1
        dealt += len(members)
    for k in range(n_folds):
        held_out = np.flatnonzero(fold == k)
        if len(held_out):
            yield np.flatnonzero(fold != k), held_out
