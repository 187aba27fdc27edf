"""Rows as they were given, of which those that are equal are one training row."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from histrs._solvers.preconditioners import Indices
from histrs._typing import Array


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
    """-1 for rows without weight."""
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

    def behind(self, n: int) -> GivenRows:
        """Return the rows behind the first."""
        return GivenRows(self.learned[n:], self.weights[n:])

    def shifted(self, n: int) -> GivenRows:
        """Return the rows where training rows come behind others."""
        return self._replace(learned=self.learned + n)

    def through(self, others: GivenRows) -> GivenRows:
        """Return the rows where each training row was given as one of the others."""
        known = self.learned >= 0
        learned = np.full(len(known), -1, dtype=np.intp)
        learned[known] = others.learned[self.learned[known]]
        return self._replace(learned=learned)

    def of_all(self, n: int, with_weight: Indices | None) -> GivenRows:
        """Return all `n` rows, where these are the ones that have a weight."""
        if with_weight is None:
            return self
        learned, weights = np.full(n, -1, dtype=np.intp), np.zeros(n)
        learned[with_weight], weights[with_weight] = self
        return GivenRows(learned, weights)

    def without(self, removed: Indices) -> tuple[GivenRows, LighterRows]:
        """Return the other rows, before training rows move, and what training rows lose."""
        touched = np.unique(self.learned[removed])
        touched = touched[touched >= 0]
        rest = GivenRows(np.delete(self.learned, removed), np.delete(self.weights, removed))
        known = rest.learned >= 0
        n = 1 + max(int(self.learned.max()), 0)
        weights = np.zeros(n)
        np.add.at(weights, rest.learned[known], rest.weights[known])
        left = touched[np.isin(touched, rest.learned)]
        return rest, LighterRows(touched, left, weights[left])

    def moved(self, n: int, lighter: LighterRows) -> GivenRows:
        """Return the rows when those left were put behind `n` others, and the touched removed."""
        behind = np.arange(n + len(lighter.left))
        behind[lighter.left] = n + np.arange(len(lighter.left))
        moved = behind - np.searchsorted(lighter.touched, behind)
        return self._replace(learned=np.where(self.learned < 0, -1, moved[self.learned]))
