"""The distribution of standardised residuals, whatever it looks like."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr, ndtri
from scipy.stats import t as student

from histrs._typing import Array

# Quantiles that the shape is kept by.
_N_NODES = 101
_PROBABILITIES = (np.arange(_N_NODES) + 0.5) / _N_NODES
# Rows that a normal distribution counts for.
_NORMAL = 100.0


class Shape:
    """A distribution of mean 0, by its quantiles: those of residuals, and of a normal where few.

    Beyond the outermost quantiles it goes on as a normal does.

    Parameters
    ----------
    residuals : ndarray of shape (n_rows,)
        Residuals of rows that are left out, over what standard deviation they were given.
    row_weights : ndarray of shape (n_rows,) or None
        Weights of rows.
    """

    def __init__(self, residuals: Array, row_weights: Array | None) -> None:
        n = len(residuals)
        weights = np.ones(n) if row_weights is None else row_weights
        spread = float(np.sqrt(np.average(residuals**2, weights=weights)))
        order = np.argsort(residuals, kind="stable")
        passed = np.cumsum(weights[order]) - 0.5 * weights[order]
        found = np.interp(_PROBABILITIES, passed / weights.sum(), residuals[order])
        # Of few rows, the spread itself is uncertain.
        usual = spread * student.ppf(_PROBABILITIES, max(n - 1.0, 2.0))
        values = (n * found + _NORMAL * usual) / (n + _NORMAL)
        self.values: Array = values - values.mean()
        self._normal = ndtri(_PROBABILITIES)
        self.std = float(np.sqrt(np.mean(self.values**2)))

    def quantiles(self, probabilities: Array) -> Array:
        """Return quantiles."""
        return self._outside(ndtri(probabilities), self._normal, self.values)

    def cumulative(self, u: Array) -> Array:
        """Return how probable it is to be below."""
        return np.asarray(ndtr(self._outside(u, self.values, self._normal)))

    @staticmethod
    def _outside(x: Array, nodes: Array, values: Array) -> Array:
        """Interpolate, and go on in straight lines."""
        found = np.interp(x, nodes, values)
        for end, inner, beyond in ((0, 5, x < nodes[0]), (-1, -6, x > nodes[-1])):
            run = nodes[end] - nodes[inner]
            slope = (values[end] - values[inner]) / run if run != 0.0 else 0.0
            found = np.where(beyond, values[end] + slope * (x - nodes[end]), found)
        return found
