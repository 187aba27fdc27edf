"""From scores of classes, or distances to them, to probabilities."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import optimize
from scipy.special import log_softmax, softmax

from histrs._checks.scale import exponent_of
from histrs._threads import blas_threads_at_most
from histrs._typing import Array

_TEMPERATURES = (np.exp(-3.0), np.exp(8.0))
# Standard deviation of logits before anything is seen, and part of the root of the number of rows
# that it is at most: keeps few, separable rows from certainty.
_PRIOR_LOGIT = 3.0
_PRIOR_OF_FEW = 0.5
# More classes than this have no matrix: it would have more entries than rows tell of.
_MAX_MATRIX_CLASSES = 64
_MAX_ITER = 500
# Where the likelihood is flat, less would leave the minimum to rounding.
_FTOL = 1e-13
_GTOL = 1e-7
# Scores that are smaller, of targets -1 and +1, say nothing.
LEAST_SIZE = 1e-100
_LARGEST_SIZE = 1e100
# Where the inverse temperature is searched, in units of one over the mean distance to the own
# class.
_SEARCHED = (1e-4, 1e4)
# As many rows as any number of them tells of: more would overflow.
_MOST_ROWS = 1e100
# Logarithms of odds beyond which nothing changes.
_FAR = 1e200


class Readout(NamedTuple):
    """A linear map from the outputs of the model to numbers for the user: `f @ matrix + offset`."""

    matrix: Array
    """Of shape (n_outputs, n_numbers)."""
    offset: Array
    """Of shape (n_numbers,)."""


def logits_of_classes(logits: Array) -> Array:
    """Return a logit for every class: of two, the difference and before it 0 for the first."""
    return np.hstack([np.zeros_like(logits), logits]) if logits.shape[1] == 1 else logits


def log_losses(logits: Array, labels: NDArray[np.intp]) -> Array:
    """Return how unlikely the logits say the class of each row is: less the logarithms."""
    of_classes = log_softmax(logits_of_classes(logits), axis=1)
    losses: Array = -of_classes[np.arange(len(labels)), labels]
    return losses


def fit_calibration(
    scores: Array,
    labels: NDArray[np.intp],
    *,
    offset_std: float = 1.0,
    centred: bool = False,
    matrix_scaling: bool = True,
    weights: Array | None = None,
) -> Readout:
    r"""Return the map from scores to logits of largest penalised likelihood.

    Probabilities are :math:`\mathrm{softmax}(T z + W^T z + b)` with a temperature `T`, a
    matrix `W` and offsets `b` (matrix scaling). The last two have normal priors, and `T` one that
    is as wide as the scores are narrow. Two classes have one column of scores, and the readout
    is to the difference of their logits.

    `offset_std` is the prior standard deviation of offsets; that of entries of `W` is 1. Where
    `centred`, scores are of targets less their mean, and the prior mean of offsets is the logarithm
    of the classes' fractions; else 0. Classes that were learned together need no matrix.
    """
    binary = scores.shape[1] == 1
    z = np.hstack([-scores, scores]) if binary else scores
    n_classes = z.shape[1]
    has_matrix = matrix_scaling and not binary and n_classes <= _MAX_MATRIX_CLASSES
    n_rows = float(len(z) if weights is None else weights.sum())
    # Their squares may be beyond the range.
    exponent = exponent_of(z)
    scaled = np.ldexp(z, -exponent)
    size = np.sqrt(np.mean(np.average(scaled * scaled, axis=0, weights=weights)))
    size = float(np.ldexp(size, exponent))
    if size < LEAST_SIZE:
        size = 1.0
    # Of larger scores the prior, whose squares would overflow, is that of these.
    unit = min(size, _LARGEST_SIZE)
    z = z / size
    targets = np.zeros_like(z)
    targets[np.arange(len(z)), labels] = 1.0
    precision = offset_std**-2
    of_rows = np.ones((len(z), 1)) if weights is None else weights[:, None]
    expected = _log_shares(np.sum(of_rows * targets, axis=0)) if centred else np.zeros(n_classes)
    spread = min(_PRIOR_LOGIT, _PRIOR_OF_FEW * np.sqrt(max(n_rows, 1.0)))

    def unpack(theta: Array) -> tuple[float, Array, Array]:
        W = np.zeros((n_classes, 1))
        if has_matrix:
            W = theta[n_classes + 1 :].reshape(n_classes, -1)
        return float(np.exp(theta[0])), theta[1 : n_classes + 1], W

    def loss(theta: Array) -> tuple[float, Array]:
        T, b, W = unpack(theta)
        logits = T * z + b
        if has_matrix:
            logits += z @ W
        residual = of_rows * (softmax(logits, axis=1) - targets)
        value = -float(np.sum(of_rows * targets * log_softmax(logits, axis=1)))
        shift = b - expected
        value += 0.5 * float(precision * (shift @ shift))
        value += 0.5 * float(np.sum(W * W) / unit**2 + (T / spread) ** 2)
        slope_T = T * np.sum(residual * z) + (T / spread) ** 2
        slope = [[slope_T], residual.sum(axis=0) + precision * shift]
        if has_matrix:
            slope.append(np.ravel(z.T @ residual + W / unit**2))
        return value / n_rows, np.concatenate(slope) / n_rows

    n_free = 1 + n_classes + (n_classes**2 if has_matrix else 0)
    low, high = np.log(_TEMPERATURES) + np.log(unit)
    bounds = [(low, high), *[(None, None)] * (n_free - 1)]
    starts = np.clip((np.log(unit), np.log(unit) + 2.0), low, high)
    others = np.append(expected, np.zeros(n_free - 1 - n_classes))
    thetas = [np.append(start, others) for start in starts]
    # Threads of BLAS would mostly wait for one another.
    with blas_threads_at_most(1):
        found = [
            optimize.minimize(
                loss,
                theta,
                jac=True,
                method="L-BFGS-B",
                bounds=bounds,
                options={"maxiter": _MAX_ITER, "ftol": _FTOL, "gtol": _GTOL},
            )
            for theta in thetas
        ]
    T, b, W = unpack(min(found, key=lambda result: result.fun).x)
    if binary:
        return Readout(np.array([[2.0 * T / size]]), np.array([b[1] - b[0]]))
    matrix = T * np.eye(n_classes) + (W if has_matrix else 0.0)
    return Readout(matrix / size, b)


def _log_shares(counts: Array) -> Array:
    """Return logarithms of the classes' fractions, each with half a row more, less their mean."""
    logs = np.log(counts + 0.5)
    centred: Array = logs - logs.mean()
    return centred


def as_rows(weights: Array, copies: Array | None = None) -> Array:
    """Return weights in a unit in which their sum is the number of rows that they stand for.

    A weight of 3 stands for three rows. A weight below 1 stands for one row, however small it is.
    So the prior counts as much in any unit of small weights. `copies` are the weights without those
    of classes, which say nothing of the number of rows.
    """
    copies = weights if copies is None else copies
    largest = float(weights.max())
    shares = weights / largest
    n_rows = np.sum(np.maximum(np.minimum(copies, _MOST_ROWS), 1.0), where=weights > 0.0)
    found: Array = shares * (n_rows / shares.sum())
    return found


def likely_inverse_temperature(
    distances: Array, indices: NDArray[Any], weights: Array, copies: Array | None = None
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
    found = optimize.minimize_scalar(loss, bounds=bounds, method="bounded", options={"xatol": 1e-6})
    with np.errstate(over="ignore", under="ignore"):
        inverse_temperature = float(np.ldexp(np.exp(found.x) / scale, -exponent))
    return min(inverse_temperature, float(np.finfo(np.float64).max))
