"""The additive kernel of smooth functions, by definition.

A function is integrated Brownian motion from the feature's least training value on, plus a line,
and optionally plus Brownian motion; its mean over the training rows, which may have weights, is
taken away from each.
"""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def _uncentred(s: Array, t: Array, slope: float, rough: float) -> Array:
    """Covariance between values, counted from the least one, that a line alone goes below."""
    low = np.maximum(np.minimum.outer(s, t), 0.0)
    high = np.maximum(np.maximum.outer(s, t), 0.0)
    return low**2 * (3.0 * high - low) / 6.0 + slope * np.outer(s, t) + rough * low


def feature_kernel(
    x: Array, z: Array, training: Array, slope: float, rough: float, masses: Array
) -> Array:
    """Covariance between values x and z of a feature."""
    least = training.min()

    def table(a: Array, b: Array) -> Array:
        return _uncentred(a - least, b - least, slope, rough)

    of_x, of_z = table(x, training) @ masses, table(z, training) @ masses
    return table(x, z) - of_x[:, None] - of_z + masses @ table(training, training) @ masses


def kernel(
    X: Array, Z: Array, training: Array, slope: float, rough: float, masses: Array | None = None
) -> Array:
    """Sum over features of the covariance between rows X and Z."""
    masses = np.ones(len(training)) if masses is None else masses
    masses = masses / masses.sum()
    total = np.zeros((len(X), len(Z)))
    for x, z, t in zip(X.T, Z.T, training.T, strict=True):
        total += feature_kernel(x, z, t, slope, rough, masses)
    return total
