"""Weights of rows: the noise variance of a row is that of all, divided by its weight.

With weights `W` and their roots `R`, the system `(K + s W^-1) alpha = Y` is
`(R K R + s I) beta = R Y` with `alpha = R beta`. So systems are those of rows of one noise, in
coordinates that are scaled by `R`; only there is a likelihood, with `log det R` added.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from histrs._typing import Array
from histrs._weights import in_units_of_mean


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
