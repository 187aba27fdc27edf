"""Kernels of pairs of features on grids of knots, by definition.

The walk of one feature is a sum of independent standard normal steps, one from knot to knot, with a
line between knots and constant beyond them; its mean over the training values is taken away, and
what is left is divided by its mean variance over these. A pair's kernel is the product of two.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def _walk(x: float, knots: Array) -> Array:
    """The share of every step, from one knot to the next, that has been walked at x."""
    steps = np.zeros(max(len(knots) - 1, 1))
    for k in range(len(knots) - 1):
        steps[k] = np.clip((x - knots[k]) / (knots[k + 1] - knots[k]), 0.0, 1.0)
    return steps


def feature_kernel(X: Array, Z: Array, column: Array, knots: Array) -> Array:
    """Covariance between values X and Z of a feature with these training values."""
    training = np.array([_walk(float(x), knots) for x in column])
    mean = training.mean(axis=0)
    left, right = (np.array([_walk(float(x), knots) for x in part]) - mean for part in (X, Z))
    unit = np.mean(np.sum((training - mean) ** 2, axis=1))
    return left @ right.T / unit if unit > 0.0 else np.zeros((len(X), len(Z)))


def pair_kernel(X: Array, Z: Array, training: Array, pair: Sequence[int], knots: Sequence[Array]):
    """Covariance between rows X and Z of a pair's function; knots are those of its features."""
    kernel = np.ones((len(X), len(Z)))
    for feature, t in zip(pair, knots, strict=True):
        kernel *= feature_kernel(X[:, feature], Z[:, feature], training[:, feature], t)
    return kernel
