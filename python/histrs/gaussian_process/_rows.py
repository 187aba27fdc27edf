"""Rows as they were given, of which equal ones are one training row, and what they weigh.

The noise variance of a row is that of all, divided by its weight. With weights `W` and their roots
`R`, the system `(K + s W^-1) alpha = Y` is `(R K R + s I) beta = R Y` with `alpha = R beta`. So
systems are those of rows of one noise, in coordinates that are scaled by `R`; only there is a
likelihood, with `log det R` added.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from histrs._solvers.preconditioners import Indices
from histrs._typing import Array
from histrs._weights import in_units_of_mean


class LighterRows(NamedTuple):
    """What training rows lose by given rows that go."""

    touched: NDArray[np.intp]
    """Training rows that lose weight."""
    left: NDArray[np.intp]
    """Those of them that others of the given rows stand for too."""
    weights: Array
    """What these weigh without."""


class GivenRows(NamedTuple):
    """Which training row each of the given ones is, and what it weighs."""

    learned: NDArray[np.intp]
    weights: Array

    @classmethod
    def of(cls, groups: NDArray[np.intp], weights: Array | None) -> GivenRows:
        """Return rows of weights, None of 1."""
        return cls(groups, np.ones(len(groups)) if weights is None else weights)

    def followed_by(self, others: GivenRows) -> GivenRows:
        """Return these rows, and behind them others of the same training rows."""
        return GivenRows(
            np.append(self.learned, others.learned), np.append(self.weights, others.weights)
        )

    def shifted(self, n: int) -> GivenRows:
        """Return the rows where training rows come behind others."""
        return self._replace(learned=self.learned + n)

    def without(self, removed: Indices) -> tuple[GivenRows, LighterRows]:
        """Return the other rows, before training rows move, and what training rows lose."""
        touched = np.unique(self.learned[removed])
        rest = GivenRows(np.delete(self.learned, removed), np.delete(self.weights, removed))
        weights = np.zeros(1 + int(self.learned.max()))
        np.add.at(weights, rest.learned, rest.weights)
        left = touched[np.isin(touched, rest.learned)]
        return rest, LighterRows(touched, left, weights[left])

    def moved(self, n: int, lighter: LighterRows) -> GivenRows:
        """Return the rows when those left were put behind `n` others, and the touched removed."""
        behind = np.arange(n + len(lighter.left))
        behind[lighter.left] = n + np.arange(len(lighter.left))
        moved = behind - np.searchsorted(lighter.touched, behind)
        return self._replace(learned=moved[self.learned])


def roots(weights: Array | None) -> Array | None:
    """Return what rows of systems are multiplied by; None for 1."""
    return None if weights is None else np.sqrt(weights)


def telling(weights: Array | None, stays: Array | None) -> Array | None:
    """Return the weights with which rows tell hyper-parameters; None for 1.

    Rows that are equal, targets too, may be copies of one measurement, which would say that there
    is no noise: they count once, in units of the mean weight. Where rows of equal columns have
    different targets, each counts. `stays` is what part of a row one of its copies leaves.
    """
    if stays is None or weights is None:
        return in_units_of_mean(weights)[0]
    found, once = weights.copy(), stays == 0.0
    if np.any(once):
        of_mean = in_units_of_mean(weights[once])[0]
        found[once] = 1.0 if of_mean is None else of_mean
    return found


def repeats(stays: Array | None) -> float:
    """Return how many rows tell noise beside those that are distinct."""
    return 0.0 if stays is None else float(np.sum(stays / (1.0 - stays)))


def rows_of(numbers: Array | None, rows: Any) -> Array | None:
    """Return the numbers of some rows; None stays None."""
    return None if numbers is None else numbers[rows]


def appended(before: Array | None, n_before: int, added: Array | None) -> Array | None:
    """Return the numbers of rows, and of those behind them; None is 1 for those before, or all."""
    if added is None:
        return before
    return np.append(np.ones(n_before) if before is None else before, added)
