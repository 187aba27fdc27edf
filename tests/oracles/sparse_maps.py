"""Sparse feature maps, straight from their definitions.

Equations are numbered as in Vedaldi and Zisserman, "Sparse kernel approximations for efficient
classification and detection", CVPR 2012.
"""

from fractions import Fraction
from itertools import combinations

import numpy as np


def scalar_kernel(name, x, y):
    """The kernel of two values: exact where it is rational, else in extended precision."""
    number = Fraction if name in ("intersection", "chi2") else np.longdouble
    x, y = number(x), number(y)
    if x == 0 or y == 0:
        return x * 0
    if name == "intersection":
        return min(x, y)
    if name == "chi2":
        return 2 * x * y / (x + y)
    if name == "hellinger":
        return np.sqrt(x * y)
    return (x * np.log2((x + y) / x) + y * np.log2((x + y) / y)) / 2


def knot_kernel(name, knots, offsets):
    """K_ZZ of the knots of all columns: 0 between columns."""
    column = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    K = np.zeros((len(knots), len(knots)))
    for i, a in enumerate(knots):
        for j, b in enumerate(knots):
            if column[i] == column[j]:
                K[i, j] = scalar_kernel(name, a, b)
    return K


def project(name, around, x):
    """Eq. 5 on one or two landmarks; for a kernel of rank one by its pseudo-inverse."""
    k = [scalar_kernel(name, z, x) for z in around]
    if len(around) == 1:
        return [k[0] / scalar_kernel(name, around[0], around[0])]
    if name == "hellinger":
        total = np.longdouble(around[0]) + np.longdouble(around[1])
        # K = s s^T with s the roots of the knots, and K^+ = K / |s|^4.
        return [np.sqrt(z) * np.sqrt(np.longdouble(x)) / total for z in map(np.longdouble, around)]
    a, b = (scalar_kernel(name, z, z) for z in around)
    c = scalar_kernel(name, *around)
    determinant = a * b - c * c
    return [(b * k[0] - c * k[1]) / determinant, (a * k[1] - c * k[0]) / determinant]


def additive_features(name, X, knots, offsets):
    """Every value on the two knots around it, or on the first or the last."""
    Phi = np.zeros((len(X), len(knots)))
    for i, row in enumerate(X):
        for d, x in enumerate(row):
            own = knots[offsets[d] : offsets[d + 1]]
            if x == 0 or len(own) == 0:
                continue
            upper = int(np.sum(own < x))
            around = [k for k in (upper - 1, upper) if 0 <= k < len(own)]
            Phi[i, [offsets[d] + k for k in around]] = project(name, own[around], x)
    return Phi


def best_subset_residual(k_xx, k_xz, K_zz, n_nonzero):
    """Eq. 7 by trying every subset: the least squared residual."""
    best = k_xx
    for subset in map(list, combinations(range(len(K_zz)), n_nonzero)):
        phi = np.linalg.pinv(K_zz[np.ix_(subset, subset)]) @ k_xz[subset]
        best = min(best, k_xx - k_xz[subset] @ phi)
    return best
