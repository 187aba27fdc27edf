"""Folds of rows, each held out once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import check_cv

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


def given_folds(
    cv: Any, labels: NDArray[Any], place: NDArray[np.intp]
) -> Iterator[tuple[Indices, Indices]]:
    """Yield the folds that a user asks for, of rows of which equal ones are kept as one.

    `place` is which kept row each of the given ones is, -1 for none. What equals a row held out is
    not learned from.
    """
    for learned, others in check_cv(cv, labels, classifier=True).split(labels, labels):
        held_out = np.setdiff1d(place[others], [-1])
        rest = np.setdiff1d(place[learned], [-1, *held_out])
        if len(held_out) and len(rest):
            yield rest, held_out
