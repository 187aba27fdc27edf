"""Columns on levels, and pairs of them: which code a row has, and the functions that codes make."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from histrs._typing import Array

# Share of an increment, at least.
_LEAST_SHARE = 1e-6
_TINY = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True)
class LevelColumn:
    """One column: which code a value has, and the functions that codes make of it.

    A value is rounded to the nearest of `points`. A function of it is linear between knots, which
    are some of the points: a sum of ramps, from 0 at one knot to 1 at the next.
    """

    feature: int
    """Which column of rows it is."""
    points: Array
    """The value of each code, ascending."""
    counts: Array
    """How many training rows are at each code."""
    n_levels: int
    """How many of the points are knots, at most."""

    @classmethod
    def of(cls, X: Array, feature: int, weights: Array | None, n_levels: int, n_codes: int) -> Self:
        """Return the levels of a column of training rows: at most so many knots and codes."""
        values, index = np.unique(X[:, feature], return_inverse=True)
        counts = np.bincount(index, weights, len(values)).astype(np.float64)
        points = _spread(values.astype(np.float64), counts, n_codes)
        codes = np.searchsorted(_cuts(points), values)
        of_codes = np.bincount(codes, counts, len(points)).astype(np.float64)
        return cls(feature, points, of_codes, n_levels)

    @cached_property
    def _at(self) -> tuple[Array, Array]:
        """Points and knots, in a unit in which differences do not overflow."""
        unit = max(float(np.max(np.abs(self.points), initial=0.0)), _TINY)
        at = self.points / unit
        return at, at[evenly(len(at), self.n_levels)] if len(at) > self.n_levels else at

    @cached_property
    def functions(self) -> Array:
        """Ramps at the points, of shape (n_codes, n_weights)."""
        at, knots = self._at
        ramps: Array = np.clip((at[:, None] - knots[:-1]) / np.diff(knots), 0.0, 1.0)
        return ramps

    @cached_property
    def shares(self) -> Array:
        """What part of a measure is around each ramp, of shape (2, n_weights)."""
        hats = -np.diff(self.functions, axis=1, prepend=1.0, append=0.0)
        of_knots = self.counts @ hats
        of_rows = (of_knots[:-1] + of_knots[1:]) / (2.0 * of_knots.sum())
        widths = np.diff(self._at[1])
        both: Array = np.vstack([of_rows, widths / max(widths.sum(), _TINY)])
        return np.maximum(both, _LEAST_SHARE)

    @cached_property
    def _between(self) -> Array:
        return _cuts(self.points)

    @cached_property
    def centred(self) -> Array:
        """Ramps less their means over training rows."""
        centred: Array = self.functions - self.counts @ self.functions / self.counts.sum()
        return centred

    def has_codes_of(self, other: Term) -> bool:
        """Say whether rows have the same codes, as of the same points."""
        return isinstance(other, LevelColumn) and other.points is self.points

    def codes(self, X: Array) -> NDArray[np.uint16]:
        """Return the code of each row."""
        codes = np.searchsorted(self._between, X[:, self.feature])
        return codes.astype(np.uint16)


@dataclass(frozen=True)
class LevelCategories:
    """One column of categories: each of the most common is a level, and the others are one more.

    The last level is that of categories which training rows do not have, too: where no row is at
    it, its function is what the prior says.
    """

    feature: int
    """Which column of rows it is."""
    categories: Array
    """The most common, ascending."""
    counts: Array
    """How many training rows are at each code."""

    @classmethod
    def of(cls, X: Array, feature: int, weights: Array | None, n_levels: int) -> Self:
        """Return the levels of a column of training rows: at most so many."""
        values, index = np.unique(X[:, feature], return_inverse=True)
        counts = np.bincount(index, weights, len(values)).astype(np.float64)
        common = np.sort(np.argsort(-counts, kind="stable")[: n_levels - 1])
        rest = max(float(counts.sum() - counts[common].sum()), 0.0)
        return cls(feature, values[common].astype(np.float64), np.append(counts[common], rest))

    @property
    def points(self) -> Array:
        """A number for each code."""
        return np.arange(len(self.counts), dtype=np.float64)

    @cached_property
    def functions(self) -> Array:
        """Indicators of the codes."""
        return np.eye(len(self.counts))

    @cached_property
    def shares(self) -> Array:
        """What part of the variance of a function each level has: all are alike."""
        return np.ones((1, len(self.counts)))

    @cached_property
    def centred(self) -> Array:
        """Indicators less their means over training rows."""
        centred: Array = self.functions - self.counts / self.counts.sum()
        return centred

    def has_codes_of(self, other: Term) -> bool:
        """Say whether rows have the same codes, as of the same categories."""
        return isinstance(other, LevelCategories) and other.categories is self.categories

    def codes(self, X: Array) -> NDArray[np.uint16]:
        """Return the code of each row."""
        values, last = X[:, self.feature], len(self.categories)
        codes = np.minimum(np.searchsorted(self.categories, values), max(last - 1, 0))
        is_known = np.isin(values, self.categories)
        return np.where(is_known, codes, last).astype(np.uint16)


def _spread(values: Array, counts: Array, n: int) -> Array:
    """Return all of the distinct values, or `n`: evenly by rows, by values and along the line."""
    if len(values) <= n:
        return values
    # Differences of the largest numbers would overflow.
    halves = values / 2.0 - values[0] / 2.0
    passed = np.cumsum(counts) / counts.sum() + np.arange(len(values)) / len(values)
    passed += halves / halves[-1]
    chosen = np.searchsorted(passed, np.linspace(passed[0], passed[-1], n))
    spread: Array = values[np.unique(np.minimum(chosen, len(values) - 1))]
    return spread


def evenly(n: int, n_chosen: int) -> NDArray[np.intp]:
    """Return some of the numbers below `n`, evenly spaced from the first to the last."""
    return np.unique(np.round(np.linspace(0.0, n - 1.0, n_chosen)).astype(np.intp))


def _cuts(points: Array) -> Array:
    """Return the last value of each code but the last."""
    middle = points[:-1] / 2.0 + points[1:] / 2.0
    cuts: Array = np.where(middle < points[1:], middle, points[:-1])
    return cuts


@dataclass(frozen=True)
class LevelPair:
    """Two columns together: a code is a cell of a grid, and functions are products of ramps.

    Each ramp is less its mean over training rows. So a function has a mean of 0 over the rows of
    either column, as if they were independent, and holds no main effect.
    """

    first: LevelColumn | LevelCategories
    second: LevelColumn | LevelCategories

    @property
    def features(self) -> tuple[int, int]:
        """The columns of both."""
        return self.first.feature, self.second.feature

    @cached_property
    def functions(self) -> Array:
        """Products at the cells, of shape (n_codes, n_weights)."""
        functions: Array = np.kron(self.first.centred, self.second.centred).astype(np.float64)
        return functions

    @cached_property
    def shares(self) -> Array:
        """What part of the rows is around each product, of shape (1, n_weights)."""
        shares: Array = np.kron(self.first.shares[:1], self.second.shares[:1]).astype(np.float64)
        return shares

    def has_codes_of(self, other: Term) -> bool:
        """Say whether rows have the same codes, as of the same points."""
        both = self.first, self.second
        others = (other.first, other.second) if isinstance(other, LevelPair) else (other, other)
        return all(one.has_codes_of(another) for one, another in zip(both, others, strict=True))

    def codes(self, X: Array) -> NDArray[np.uint16]:
        """Return the code of each row."""
        n_codes = np.uint16(len(self.second.points))
        codes: NDArray[np.uint16] = self.first.codes(X) * n_codes + self.second.codes(X)
        return codes


Term: TypeAlias = LevelColumn | LevelCategories | LevelPair
