"""Poles of the rational feature map, and the error that they leave.

With poles z_j the features c_k of a value x > 0 satisfy, for every x and y,

    2xy/(x + y) - sum_k c_k(x) c_k(y) = 2xy/(x + y) R(x) R(y),    R(x) = prod_j (x - z_j)/(x + z_j),

and 2xy/(x + y) <= sqrt(xy), so that no error exceeds the largest x R(x)^2, which is the error at
x = y. Here arrays of poles have the shape (n_poles, n_domains).
"""

from __future__ import annotations

import numpy as np
from scipy.special import ellipj, ellipkm1

from histrs._typing import Array

# Enough halvings for the last digit of the logarithm of a ratio up to 1e300.
_HALVINGS = 64
# Below this share of the upper end of a domain, values count as 0; its square is still normal.
_SMALLEST_RATIO = 1e-150


def zolotarev_poles(low: Array, high: Array, n_poles: int) -> Array:
    """Return the poles with the least maximum of |R| on [low, high], 0 < low <= high.

    z_j = high dn((2j + 1) K / (2n), k) with k^2 = 1 - (low/high)^2 (Zolotarev's third problem).
    """
    complement = np.square(low / high)
    quarter_period = ellipkm1(complement)
    j = np.arange((n_poles + 1) // 2)[:, None]
    dn = ellipj((2 * j + 1) / (2 * n_poles) * quarter_period, 1.0 - complement)[2]
    # The lower half by symmetry, z_j z_(n-1-j) = low high: dn itself loses its digits there.
    return np.vstack([high * dn, (low / dn)[: n_poles // 2][::-1]])


def balanced_poles(low: Array, high: Array, n_poles: int) -> Array:
    """Return Zolotarev's poles for [a, high], a >= low, with the least error on [low, high].

    The error at `high` falls with a, the error below a rises; at the best a they are equal.
    """
    low = np.maximum(low, _SMALLEST_RATIO * high)
    below, above = np.log(low), np.log(high)
    for _ in range(_HALVINGS):
        a = np.exp((below + above) / 2)
        poles = zolotarev_poles(a, high, n_poles)
        too_high = _largest_below(poles, low) > diagonal_error(poles, high)
        above = np.where(too_high, np.log(a), above)
        below = np.where(too_high, below, np.log(a))
    return zolotarev_poles(np.clip(np.exp(below), low, high), high, n_poles)


def diagonal_error(poles: Array, x: Array) -> Array:
    """Return x R(x)^2."""
    result: Array = x * np.square(np.prod((x - poles) / (x + poles), axis=0))
    return result


def rational_bound(poles: Array, low: Array, high: Array) -> Array:
    """Return the largest x R(x)^2 on [low, high]: no kernel value is off by more.

    Between two neighbouring poles the logarithm of x R(x)^2 has a derivative that falls strictly.
    So there is one maximum, which bisection finds. Above the largest pole the logarithm only rises.
    """
    largest = np.maximum(diagonal_error(poles, low), diagonal_error(poles, high))
    ordered = np.sort(poles, axis=0)
    lower_ends = np.vstack([_below_first_maximum(ordered), ordered[:-1]])
    for left, right in zip(lower_ends, ordered, strict=True):
        if np.array_equal(left, right):
            # Between poles that are equal it is 0.
            continue
        x = np.clip(_maximum(ordered, left, right), low, high)
        largest = np.maximum(largest, diagonal_error(ordered, x))
    return largest


def _largest_below(poles: Array, low: Array) -> Array:
    """Return the largest x R(x)^2 from `low` to the smallest pole."""
    smallest = poles.min(axis=0)
    x = _maximum(poles, _below_first_maximum(poles)[0], smallest)
    return diagonal_error(poles, np.maximum(x, low))


def _below_first_maximum(poles: Array) -> Array:
    """Return a point below the first maximum: the derivative is positive up to z/(8n)."""
    below: Array = poles.min(axis=0, keepdims=True) / (8 * len(poles))
    # Above 0, whose logarithm is infinite.
    return np.maximum(below, np.finfo(np.float64).smallest_subnormal)


def _maximum(poles: Array, left: Array, right: Array) -> Array:
    """Return where x R(x)^2 is largest between two neighbouring poles."""
    below, above = np.log(left), np.log(right)
    for _ in range(_HALVINGS):
        middle = (below + above) / 2
        # d log(x R^2) / d log x = 1 + sum_j 2 / sinh(log x - log z_j).
        with np.errstate(divide="ignore", invalid="ignore"):
            rises = 1.0 + np.sum(2.0 / np.sinh(middle - np.log(poles)), axis=0) > 0.0
        below = np.where(rises, middle, below)
        above = np.where(rises, above, middle)
    result: Array = np.exp(below)
    return result
