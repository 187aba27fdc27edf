"""Probabilities of distances: the inverse temperature at which they are most likely right."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

Float64: TypeAlias = NDArray[np.float64]

# Where the inverse temperature is searched, in units of one over the mean distance to the own
# class.
_SEARCHED = (1e-4, 1e4)
# As many rows as any number of them tells of: more would overflow.
_MOST_ROWS = 1e100
# Logarithms of odds beyond which nothing changes.
_FAR = 1e200


def as_rows(weights: Float64, copies: Float64 | None = None) -> Float64:
    """Return weights in a unit in which their sum is the number of rows that they stand for.

    A weight of 3 stands for three rows, and one of less than 1 for one, however small it is: what
    is taken for granted before any row was seen does not depend on the unit of small weights.
    `copies` are the weights without those of classes, which say nothing of the number of rows.
    """
    copies = weights if copies is None else copies
    largest = float(weights.max())
    shares = weights / largest
    n_rows = np.sum(np.maximum(np.minimum(copies, _MOST_ROWS), 1.0), where=weights > 0.0)
    found: Float64 = shares * (n_rows / shares.sum())
    return found


def likely_inverse_temperature(
    distances: Float64,
    indices: NDArray[Any],
    weights: Float64,
    copies: Float64 | None = None,
) -> float:
    """Return the factor of distances to classes at which their softmax makes labels most likely.

    As in Platt's calibration labels are a little uncertain, so that the factor is finite where
    classes can be told apart.
    """
    present = np.isfinite(distances[0])
    distances = distances[:, present]
    indices = (np.cumsum(present) - 1)[indices]
    if distances.shape[1] < 2 or not weights.any():
        return 1.0
    weights = as_rows(weights, copies)
    own = distances[np.arange(len(distances)), indices]
    # In units of the largest, of which sums and quotients neither overflow nor vanish.
    largest = float(np.max(own))
    if not largest > 0.0:
        return 1.0
    exponent = int(np.frexp(largest)[1])
    scale = float(np.average(np.ldexp(own, -exponent), weights=weights))
    if not scale > 0.0:
        return 1.0
    with np.errstate(over="ignore"):
        distances = np.minimum(np.ldexp(distances, -exponent), np.finfo(np.float64).max)
    doubt = 1.0 / (float(weights.sum()) + 2.0)

    def loss(log_inverse_temperature: float) -> float:
        factor = min(float(np.exp(log_inverse_temperature)) / scale, _FAR)
        P = log_softmax(-factor * np.minimum(distances, _FAR / factor), axis=1)
        right = P[np.arange(len(P)), indices]
        return -float(weights @ ((1.0 - doubt) * right + doubt * P.mean(axis=1)))

    bounds = (np.log(_SEARCHED[0]), np.log(_SEARCHED[1]))
    found = minimize_scalar(loss, bounds=bounds, method="bounded", options={"xatol": 1e-6})
    with np.errstate(over="ignore", under="ignore"):
        inverse_temperature = float(np.ldexp(np.exp(found.x) / scale, -exponent))
    return min(inverse_temperature, float(np.finfo(np.float64).max))
