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


# ---- feature maps of one value; x is a vector, the result (len(x), n_components) ----------------


def rational_map(x: ArrayLike, poles: ArrayLike) -> Array:
    """c_k = 2 sqrt(z_k) x / (x + z_k) prod_(j<k) (x - z_j) / (x + z_j)."""
    x, poles = _dense(x), _dense(poles)
    features = np.empty((len(x), len(poles)), dtype=np.longdouble)
    for k, z in enumerate(poles):
        features[:, k] = 2 * np.sqrt(z) * x / (x + z)
        for previous in poles[:k]:
            features[:, k] *= (x - previous) / (x + previous)
    return features.astype(np.float64)


def power_map(x: ArrayLike, n_components: int) -> Array:
    """Eq. 15: c_k = 2x/(x + 1) ((x - 1)/(x + 1))^k."""
    x = _dense(x)[:, None]
    k = np.arange(n_components)
    return (2 * x / (x + 1) * ((x - 1) / (x + 1)) ** k).astype(np.float64)


def chebyshev_map(x: ArrayLike, n_components: int) -> Array:
    """Eq. 12, and c(0) = 0, its limit."""
    x = _dense(x)
    log = np.log(np.where(x > 0, x, 1))
    c = [2 * x / (x + 1)]
    for k in range(1, n_components):
        if k == 1:
            c.append(-np.sqrt(np.longdouble(2)) * log / np.pi * c[0])
        else:
            c.append(((-1) ** k * 2 * log / np.pi * c[k - 1] + (k - 2) * c[k - 2]) / k)
    return np.stack(c, axis=1).astype(np.float64)


def periodic_map(x: ArrayLike, n_components: int, interval: float) -> Array:
    """Vedaldi and Zisserman, 2012, eq. 11, with the spectrum sech(pi w) sampled at k h."""
    x = _dense(x)
    log = np.log(np.where(x > 0, x, 1))
    features = [np.sqrt(x * interval)]
    for k in range(1, n_components // 2 + 1):
        amplitude = np.sqrt(2 * x * interval / np.cosh(np.pi * k * interval))
        features.append(amplitude * np.cos(k * interval * log))
        features.append(amplitude * np.sin(k * interval * log))
    return np.stack(features, axis=1).astype(np.float64)


def map_rows(X: ArrayLike, value_map: Callable[[ArrayLike], Array]) -> Array:
    """Map every value and put the features in blocks: c_0 of all columns, c_1 of all columns."""
    X = _dense(X)
    features = value_map(X.ravel()).reshape(*X.shape, -1)
    return features.transpose(0, 2, 1).reshape(len(X), -1)


# ---- random features: algorithm 1 with the projection of Yu et al., 2016 ------------------------


def hadamard(n: int) -> Array:
    """Sylvester's matrix of size n, a power of 2: (-1)^(number of common bits of i and j)."""
    return np.array([[(-1.0) ** (i & j).bit_count() for j in range(n)] for i in range(n)])


def structured_projections(signs: ArrayLike, n_projections: int) -> Array:
    """Rows of sqrt(n) (H D_3 H D_2 H D_1) / n^(3/2), a block for each row of signs from D_3 on."""
    signs = np.asarray(signs, dtype=np.float64)
    H = hadamard(signs.shape[1])
    shared = (H * signs[1]) @ (H * signs[0])
    blocks = [(H * d3) @ shared / len(H) for d3 in signs[2:]]
    return np.vstack(blocks)[:n_projections]


def fourier_features(C: ArrayLike, W: ArrayLike, gamma: float) -> Array:
    """sqrt(2/D) [cos, sin] of sqrt(2 gamma) W c for every row c, D = 2 len(W)."""
    C, W = np.asarray(C, dtype=np.float64), np.asarray(W, dtype=np.float64)
    angles = np.sqrt(2 * gamma) * C @ W.T
    return np.hstack([np.cos(angles), np.sin(angles)]) / np.sqrt(len(W))
