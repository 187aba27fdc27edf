"""What residuals tell: means, and the distribution of the standardised, near each prediction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.special import ndtr, ndtri
from scipy.stats import t as student

from histrs._checks.rows import in_row_blocks
from histrs._typing import Array

# Quantiles that the shape is kept by.
_N_NODES = 101
_PROBABILITIES = (np.arange(_N_NODES) + 0.5) / _N_NODES
_NORMAL = ndtri(_PROBABILITIES)
# Of few rows, how many independent residuals each is worth: all had a say in all of them.
_WORTH = 0.4
# Rows that a normal distribution counts for, and that all rows count for near a prediction.
_OF_NORMAL = 100.0
_OF_ALL = 50.0
# Predictions near which residuals have a shape of their own, and rows for each.
_MOST_PLACES = 16
_ROWS_OF_PLACE = 60
# Squares that means of residuals must explain to count, over what they explain by chance.
_SURELY = 1.5
# Part of a standard deviation over which a density is measured.
_STEP = 0.1


class _Places:
    """Predictions at equal steps of their ranks, and how near rows are to each of them."""

    def __init__(self, means: Array, residuals: Array, weights: Array) -> None:
        # Weights that differ much are of few rows.
        self.n_rows = _effective(weights)
        self.n = int(np.clip(self.n_rows // _ROWS_OF_PLACE, 1, _MOST_PLACES))
        # Rows of one mean are in an order that does not depend on theirs.
        order = np.lexsort((residuals, means))
        ranks = np.empty(len(weights))
        ranks[order] = (np.cumsum(weights[order]) - 0.5 * weights[order]) / weights.sum()
        at = np.linspace(0.0, 1.0, self.n)
        self.means = np.interp(at, ranks[order], means[order])
        self.weights = weights * np.maximum(1.0 - (self.n - 1) * np.abs(at[:, None] - ranks), 0.0)
        self._residuals, self._of_rows = residuals, weights

    def explained_by(self, of_rows: Array) -> bool:
        """Say whether means of residuals explain more of their squares than chance does."""
        before, after = (
            float(np.average(left**2, weights=self._of_rows))
            for left in (self._residuals, self._residuals - of_rows)
        )
        return before - after > _SURELY * self.n / self.n_rows * before


@dataclass(frozen=True)
class Correction:
    """What is added to predictions: means of residuals of rows with similar ones, or nothing."""

    at: Array
    added: Array

    @classmethod
    def of(cls, residuals: Array, means: Array, row_weights: Array | None) -> Self:
        """Learn from residuals of rows that are left out, and from what these were predicted."""
        weights = np.ones(len(means)) if row_weights is None else row_weights
        places = _Places(means, residuals, weights)
        if places.n > 1:
            found = np.array([_pulled_mean(residuals, near) for near in places.weights])
            if places.explained_by(np.interp(means, places.means, found)):
                return cls(places.means, found)
        return cls(np.zeros(1), np.zeros(1))

    def apply(self, means: Array) -> Array:
        """Return corrected predictions."""
        return np.asarray(means + np.interp(means, self.at, self.added))


class Shape:
    """Distributions by their quantiles: those of residuals, and of a normal where few.

    Counts, and targets that many rows share, have residuals whose distribution depends on the
    prediction. So there is a distribution for each of several predictions, and between them.
    Its mean is 0, unless means of residuals explain more of their squares than chance does.
    Beyond its outermost quantiles a distribution goes on as a normal does.

    Parameters
    ----------
    residuals : ndarray of shape (n_rows,)
        Residuals of rows that are left out, over what standard deviation they were given.
    means : ndarray of shape (n_rows,)
        What these rows were predicted to be.
    row_weights : ndarray of shape (n_rows,) or None
        Weights of rows.
    """

    def __init__(self, residuals: Array, means: Array, row_weights: Array | None) -> None:
        n = len(residuals)
        weights = np.ones(n) if row_weights is None else row_weights
        spread = float(np.sqrt(np.average(residuals**2, weights=weights)))
        # Of few rows, the spread itself is uncertain.
        usual = spread * student.ppf(_PROBABILITIES, max(_WORTH * n - 1.0, 2.0))
        everywhere = _mixed(residuals, weights, usual, _OF_NORMAL)
        everywhere -= everywhere.mean()
        places = _Places(means, residuals, weights)
        self._places, self._values = places.means, everywhere[None]
        if places.n < 2:
            return
        self._values = np.stack(
            [
                _mixed(residuals[near > 0.0], near[near > 0.0], everywhere, _OF_ALL)
                for near in places.weights
            ]
        )
        if not places.explained_by(self.values(means).mean(axis=1)):
            self._values -= self._values.mean(axis=1, keepdims=True)

    def _between(self, of_places: Array, means: Array) -> Array:
        """Return what holds at each place, at predictions between them."""
        where = np.interp(means, self._places, np.arange(len(self._places)))
        low = where.astype(np.intp)
        high, part = np.minimum(low + 1, len(self._places) - 1), (where - low)[..., None]
        return np.asarray((1.0 - part) * of_places[low] + part * of_places[high])

    def values(self, means: Array) -> Array:
        """Return quantiles of each row, at equal steps of probability."""
        return self._between(self._values, means)

    def std(self, means: Array) -> Array:
        """Return the standard deviation of each row."""
        return np.asarray(self.values(means).std(axis=-1))

    def quantiles(self, means: Array, probabilities: Array) -> Array:
        """Return quantiles of each row, of shape (n_rows, n_quantiles)."""
        normal = ndtri(probabilities)
        of_places = np.stack([_extended(normal, _NORMAL, values) for values in self._values])
        return self._between(of_places, means)

    def density(self, means: Array, u: Array) -> Array:
        """Return the density at each of `u`, never zero."""
        at = np.column_stack([np.broadcast_to(means, u.shape).ravel(), u.ravel()])

        def of_rows(at: Array) -> Array:
            values, x = self.values(at[:, 0]), at[:, 1]
            step = _STEP * np.maximum(values.std(axis=1), 1e-300)
            below, above = (ndtr(_normal_at(end, values)) for end in (x - step, x + step))
            return np.asarray((above - below) / (2.0 * step))

        found: Array = in_row_blocks(at, of_rows).reshape(u.shape)
        return np.asarray(np.maximum(found, np.finfo(np.float64).tiny))


def _effective(weights: Array) -> float:
    """Return how many rows of equal weights say as much."""
    return float(weights.sum() ** 2 / np.sum(weights**2))


def _pulled_mean(residuals: Array, weights: Array) -> float:
    """Return a weighted mean, the fewer the rows the nearer to 0."""
    n = _effective(weights)
    return float(np.average(residuals, weights=weights)) * n / (n + _OF_ALL)


def _mixed(residuals: Array, weights: Array, others: Array, n_others: float) -> Array:
    """Return quantiles of weighted residuals and of others, which count for so many rows."""
    n = _effective(weights)
    of_others = np.full(len(others), n_others / len(others))
    weights = np.concatenate([weights * n / weights.sum(), of_others])
    values = np.concatenate([residuals, others])
    order = np.argsort(values, kind="stable")
    passed = np.cumsum(weights[order]) - 0.5 * weights[order]
    return np.asarray(np.interp(_PROBABILITIES, passed / weights.sum(), values[order]))


def _extended(x: Array, nodes: Array, values: Array) -> Array:
    """Interpolate, and go on in straight lines."""
    found = np.interp(x, nodes, values)
    for end, inner, beyond in ((0, 5, x < nodes[0]), (-1, -6, x > nodes[-1])):
        run = nodes[end] - nodes[inner]
        slope = (values[end] - values[inner]) / run if run != 0.0 else 0.0
        found = np.where(beyond, values[end] + slope * (x - nodes[end]), found)
    return found


def _normal_at(x: Array, nodes: Array) -> Array:
    """Return what the quantiles of a normal are where those of each row are `x`."""
    above = np.clip((nodes <= x[:, None]).sum(axis=1), 1, _N_NODES - 1)
    ends = np.column_stack([above - 1, above])
    # Beyond the outermost quantiles, a line through the outer ones goes on.
    ends[x < nodes[:, 0]] = 0, 5
    ends[x > nodes[:, -1]] = -6, -1
    low, high = np.take_along_axis(nodes, ends, axis=1).T
    (z_low, z_high), run = _NORMAL[ends].T, high - low
    part = np.divide(x - low, run, out=np.zeros_like(x), where=run > 0.0)
    return np.asarray(z_low + part * (z_high - z_low))
