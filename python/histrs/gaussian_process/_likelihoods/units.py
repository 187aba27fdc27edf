"""Units of targets that are numbers: each less its mean, over its spread."""

from __future__ import annotations

import numpy as np

from histrs._typing import Array
from histrs._weights import in_units_of_mean

# Part of the largest target that its spread must exceed to be one.
_ROUNDING = 1e-14
_OVERFLOW = "The sum or the spread of y overflows. Scale y down."


def spreads(Y: Array, weights: Array | None) -> Array:
    """Return the standard deviations of targets; of one value, what rounding leaves of it."""
    means, less_means = centred(Y, weights)
    largest = np.max(np.abs(less_means), axis=0, initial=0.0)
    constant = largest == 0.0
    largest[constant] = 1.0
    squares = np.average((less_means / largest) ** 2, axis=0, weights=weights)
    return np.where(constant, spread_of_one(means), largest * np.sqrt(squares))


def spread_of_one(values: Array) -> Array:
    """Return the spread of targets that all have these values, which is none."""
    return np.maximum(_ROUNDING * np.abs(values), np.finfo(np.float64).tiny)


def standardised(Y: Array, weights: Array | None) -> Array:
    """Return targets less their means and over their spreads, as those of a fit are."""
    weights, _ = in_units_of_mean(weights)
    return over(centred(Y, weights)[1], spreads(Y, weights))


def over(less_means: Array, units: Array) -> Array:
    """Return targets over their units, in place."""
    with np.errstate(over="ignore"):
        less_means /= units
    if not np.all(np.isfinite(less_means)):
        raise ValueError(_OVERFLOW)
    return less_means


def centred(Y: Array, weights: Array | None) -> tuple[Array, Array]:
    """Return the means, and the targets less these: 0 for targets of one value, up to rounding."""
    with np.errstate(over="ignore", invalid="ignore"):
        means = np.average(Y, axis=0, weights=weights)
        less_means = Y - means
        largest = np.max(np.abs(less_means), axis=0, initial=0.0)
    if not np.all(np.isfinite(largest)):
        raise ValueError(_OVERFLOW)
    constant = largest <= _ROUNDING * np.max(np.abs(Y), axis=0, initial=0.0)
    means[constant] = Y[0, constant]
    less_means[:, constant] = 0.0
    return means, less_means
