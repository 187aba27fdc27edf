"""The Matérn kernel of smoothness 3/2, one pair after the other (Rasmussen and Williams, 2006,
eq. 4.17)."""

import math

import numpy as np


def matern_kernel(X, Y, length):
    """Return (1 + r) exp(-r) with r = sqrt(3) |x - y| / length."""
    K = np.ones((len(X), len(Y)))
    for i, x in enumerate(X):
        for j, y in enumerate(Y):
            r = math.sqrt(3.0 * sum((a - b) ** 2 for a, b in zip(x, y, strict=True))) / length
            K[i, j] = (1.0 + r) * math.exp(-r)
    return K
