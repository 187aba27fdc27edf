"""The chi-square kernel, its relatives, its feature maps and its random features.

Equations are numbered as in Li, Lebanon and Sminchisescu, "Chebyshev approximations to the
histogram chi-square kernel", CVPR 2012. X is (N, D), Y is (M, D). Terms are summed one bin at a
time in extended precision.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]
Long = NDArray[np.longdouble]


def _dense(X: ArrayLike) -> Long:
    toarray = getattr(X, "toarray", None)
    return np.asarray(X if toarray is None else toarray()).astype(np.longdouble)


def _sum_of_terms(
    X: ArrayLike, Y: ArrayLike | None, term: Callable[[np.longdouble, np.longdouble], np.longdouble]
) -> Array:
    X = _dense(X)
    Y = X if Y is None else _dense(Y)
    K = np.zeros((len(X), len(Y)), dtype=np.longdouble)
    for i, x in enumerate(X):
        for j, y in enumerate(Y):
            for a, b in zip(x, y, strict=True):
                if a + b > 0:  # an empty bin adds nothing
                    K[i, j] += term(a, b)
    return K.astype(np.float64)


def chi2_distances(X: ArrayLike, Y: ArrayLike | None = None) -> Array:
    """Eq. 14: sum_d (x - y)^2 / (x + y)."""
    return _sum_of_terms(X, Y, lambda x, y: (x - y) ** 2 / (x + y))


def additive_chi2_kernel(X: ArrayLike, Y: ArrayLike | None = None) -> Array:
    """Eq. 4, right-hand side: sum_d 2xy / (x + y)."""
    return _sum_of_terms(X, Y, lambda x, y: 2 * x * y / (x + y))


def exp_chi2_kernel(X: ArrayLike, Y: ArrayLike | None = None, gamma: float = 1.0) -> Array:
    """Eq. 1 with a scale: exp(-gamma chi2(x, y))."""
    return np.exp(-gamma * chi2_distances(X, Y))


def hellinger_kernel(X: ArrayLike, Y: ArrayLike | None = None) -> Array:
    """Vedaldi and Zisserman, 2012, table 1: sum_d sqrt(xy)."""
    return _sum_of_terms(X, Y, lambda x, y: np.sqrt(x * y))


def jensen_shannon_kernel(X: ArrayLike, Y: ArrayLike | None = None) -> Array:
    """Vedaldi and Zisserman, 2012, table 1: sum_d x/2 log2((x+y)/x) + y/2 log2((x+y)/y)."""

    def term(x: np.longdouble, y: np.longdouble) -> np.longdouble:
        if x == 0 or y == 0:  # the limit
            return np.longdouble(0)
        return (x * np.log1p(y / x) + y * np.log1p(x / y)) / (2 * np.log(np.longdouble(2)))

    return _sum_of_terms(X, Y, term)
