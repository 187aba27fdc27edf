"""Sliced kernels and their limit, by definition.

Sources: D. Sejdinovic, B. Sriperumbudur, A. Gretton and K. Fukumizu, "Equivalence of distance-based
and RKHS-based statistics in hypothesis testing", The Annals of Statistics, 2013; J. Hertrich, "Fast
kernel summation in high dimensions via slicing and Fourier transforms", SIAM Journal on Mathematics
of Data Science, 2024.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import integrate

Array = NDArray[np.float64]


def _long(X: ArrayLike) -> NDArray[np.longdouble]:
    toarray = getattr(X, "toarray", None)
    return np.asarray(X if toarray is None else toarray()).astype(np.longdouble)


def energy_distance_kernel(X: ArrayLike, Y: ArrayLike | None = None) -> Array:
    """`(|x| + |y| - |x - y|) / 2`, one pair at a time in extended precision."""
    X = _long(X)
    Y = X if Y is None else _long(Y)
    K = np.zeros((len(X), len(Y)), dtype=np.longdouble)
    for i, x in enumerate(X):
        for j, y in enumerate(Y):
            K[i, j] = (_length(x) + _length(y) - _length(x - y)) / 2
    return K.astype(np.float64)


def _length(x: NDArray[np.longdouble]) -> np.longdouble:
    largest = np.max(np.abs(x), initial=np.longdouble(0))
    return largest * np.sqrt(np.sum((x / largest) ** 2)) if largest > 0 else largest


def mean_projection(d: int) -> float:
    """`E |w_1|` for `w` uniform on the unit sphere of R^d, by quadrature of its density."""
    if d == 1:
        return 1.0

    # w_1 = cos(angle) has a density proportional to sin(angle)^(d - 2) in the angle.
    def density(angle: float) -> float:
        return float(np.sin(angle) ** (d - 2))

    total, _ = integrate.quad(density, 0.0, np.pi, epsabs=0, epsrel=1e-12)
    half, _ = integrate.quad(
        lambda angle: np.cos(angle) * density(angle), 0.0, np.pi / 2, epsabs=0, epsrel=1e-12
    )
    return 2.0 * half / total


def projections(X: ArrayLike, W: Array, low: Array) -> Array:
    """`t_p(x) = (w_p^T x - l_p)_+`, one entry at a time."""
    X = _long(X)
    T = np.zeros((len(X), W.shape[1]))
    for i, x in enumerate(X):
        for p in range(W.shape[1]):
            T[i, p] = max(float(np.sum(W[:, p] * x) - low[p]), 0.0)
    return T


def sliced_kernel(T: Array, S: Array) -> Array:
    """The mean over the projections of `min(t_p, s_p)`."""
    K = np.zeros((len(T), len(S)))
    for i, t in enumerate(T):
        for j, s in enumerate(S):
            K[i, j] = float(np.mean(np.minimum(t, s)))
    return K


def limit_kernel(X: ArrayLike, Z: ArrayLike, T: Array, S: Array) -> Array:
    """`(a(x) + a(z)) / 2 - c_d |x - z| / 2` with `a` the mean of the projections."""
    X, Z = np.asarray(X), np.asarray(Z)
    a, b = T.mean(axis=1), S.mean(axis=1)
    distances = np.array([[np.linalg.norm(x - z) for z in Z] for x in X])
    return 0.5 * (a[:, None] + b - mean_projection(X.shape[1]) * distances)
