"""Certified errors of the Chebyshev and the periodic feature map.

Both compute a function f on a fine grid of step h. Between the points, f exceeds the largest
computed value by at most h^2/8 max |f''|, which is added.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize_scalar

from histrs._typing import Array

_STEP = 1e-3
# Values below this share of the largest are their own bound: no error exceeds sqrt(xy).
_LOG_RANGE = 45.0
# Of which cosh does not overflow.
_MOST_EXPONENT = 700.0
# Intervals that scikit-learn's AdditiveChi2Sampler takes by default, by number of components.
_DEFAULT_INTERVALS = {1: 0.8, 3: 0.5, 5: 0.4}


def chebyshev_bound(n_components: int, low: Array, high: Array) -> Array:
    """Return the largest x - sum_k c_k(x)^2 on each [low, high].

    The series is exact, so that by the inequality of Cauchy and Schwarz no kernel value is off by
    more. With `x = e^t` the features are `sqrt(x)` times coefficients of `e^(i w t)` in an
    orthonormal basis of the weight `sech(pi w)`. Its second and fourth moments are 1/4 and 5/16. So
    the rest `rho(t)` has `|rho'| <= 1` and `|rho''| <= 2 (1/4 + sqrt(5/16))`.
    """
    curvature = 1.0 + 2.0 + 2.0 * (0.25 + np.sqrt(5.0 / 16.0))
    bounds = np.zeros(len(high))
    positive = high > 0
    if not positive.any():
        return bounds
    end = np.log(high[positive])
    with np.errstate(divide="ignore"):
        start = np.maximum(np.log(low[positive]), end - _LOG_RANGE)
    grid = np.arange(start.min(), end.max() + _STEP, _STEP)
    rest = np.exp(grid) * chebyshev_rest(n_components, grid)
    first = np.searchsorted(grid, start, side="right") - 1
    last = np.searchsorted(grid, end, side="left")
    seen = [rest[i : j + 1].max() for i, j in zip(first, last, strict=True)]
    slack = _STEP**2 / 8 * curvature * high[positive] * np.exp(_STEP)
    # Below the grid, where low is nearly 0, the error is at most x.
    unseen = np.where(low[positive] < np.exp(start), np.exp(start), 0.0)
    bounds[positive] = np.maximum(np.maximum(seen, 0.0) + slack, unseen)
    return bounds


def chebyshev_rest(n_components: int, t: Array) -> Array:
    """Return 1 - sum_k c_k(x)^2 / x at x = e^t, by eq. 12."""
    before, last = np.zeros_like(t), 1.0 / np.cosh(t / 2)
    total = np.square(last)
    for k in range(1, n_components):
        factor = -np.sqrt(2) * t / np.pi if k == 1 else (-1) ** k * 2 * t / np.pi / k
        before, last = last, factor * last + (max(k - 2, 0) / k) * before
        total += np.square(last)
    rest: Array = 1.0 - total
    return rest


def periodic_bound(n_components: int, interval: float, low: Array, high: Array) -> Array:
    """Return the largest error of the periodic map on each [low, high].

    The error is `sqrt(xy) e(log x - log y)`, with `sqrt(xy) <= high exp(-|log x - log y|/2)` and
    `e(s) = sech(s/2) - h - sum_k 2h sech(pi k h) cos(k h s)`.
    """
    frequencies = np.arange(1, n_components // 2 + 1) * interval
    # Those beyond have weights of 0.
    frequencies = frequencies[np.pi * frequencies < _MOST_EXPONENT]
    weights = 2 * interval / np.cosh(np.pi * frequencies)
    total = interval + weights.sum()
    slope, second = (np.sum(weights * frequencies**n) for n in (1, 2))
    slack = _STEP**2 / 8 * ((0.25 + second) + (0.25 + slope) + (1 + total) / 4)
    reach = np.zeros(len(high))
    positive = high > 0
    with np.errstate(divide="ignore"):
        reach[positive] = np.minimum(np.log(high[positive]) - np.log(low[positive]), _LOG_RANGE)
    s = np.arange(0.0, reach.max(initial=0.0) + 2 * _STEP, _STEP)
    error = 1 / np.cosh(s / 2) - interval
    for weight, frequency in zip(weights, frequencies, strict=True):
        error -= weight * np.cos(frequency * s)
    seen = np.maximum.accumulate(np.abs(error) * np.exp(-s / 2))
    # Beyond the grid, e^(-s/2) alone is below every error seen.
    beyond = (1 + total) * np.exp(-_LOG_RANGE / 2)
    at = np.searchsorted(s, reach, side="left")
    bound: Array = high * np.maximum(seen[at] + slack, np.where(reach == _LOG_RANGE, beyond, 0.0))
    return bound


def best_interval(n_components: int, low: float, high: float) -> float:
    """Return scikit-learn's sampling interval, or that of the least error where it has none."""
    if n_components in _DEFAULT_INTERVALS:
        return _DEFAULT_INTERVALS[n_components]

    def error(interval: float) -> float:
        bound = periodic_bound(n_components, interval, np.array([low]), np.array([high]))
        return float(bound[0])

    candidates = np.geomspace(0.02, 1.0, 60)
    i = int(np.argmin([error(h) for h in candidates]))
    around = candidates[max(i - 1, 0)], candidates[min(i + 1, len(candidates) - 1)]
    return float(minimize_scalar(error, bounds=around, method="bounded").x)
