"""Sliced kernels, their limit, and the Gaussian process on them, by definition.

Sources: D. Sejdinovic, B. Sriperumbudur, A. Gretton and K. Fukumizu, "Equivalence of distance-based
and RKHS-based statistics in hypothesis testing", The Annals of Statistics, 2013; J. Hertrich, "Fast
kernel summation in high dimensions via slicing and Fourier transforms", SIAM Journal on Mathematics
of Data Science, 2024; C. E. Rasmussen and C. K. I. Williams, "Gaussian Processes for Machine
Learning", 2006.
"""

from typing import NamedTuple

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


def sliced_kernel(T: Array, S: Array | None = None, weights: Array | None = None) -> Array:
    """`sum_p weight_p min(t_p, s_p)`, by default the mean over the projections."""
    S = T if S is None else S
    weights = np.full(T.shape[1], 1.0 / T.shape[1]) if weights is None else weights
    K = np.zeros((len(T), len(S)))
    for i, t in enumerate(T):
        for j, s in enumerate(S):
            K[i, j] = float(np.sum(weights * np.minimum(t, s)))
    return K


def cubic_spline_kernel(T: Array, S: Array | None = None, weights: Array | None = None) -> Array:
    """`sum_p weight_p` times the integral over `u` of `(t_p - u)_+ (s_p - u)_+`, by quadrature."""
    S = T if S is None else S
    weights = np.full(T.shape[1], 1.0 / T.shape[1]) if weights is None else weights
    # Exact for polynomials of degree 5.
    nodes, heights = np.polynomial.legendre.leggauss(3)
    K = np.zeros((len(T), len(S)))
    for i, t in enumerate(T):
        for j, s in enumerate(S):
            half = 0.5 * np.minimum(t, s)
            u = half * (1.0 + nodes[:, None])
            K[i, j] = float(np.sum(weights * half * (heights @ ((t - u) * (s - u)))))
    return K


def limit_kernel(X: ArrayLike, Z: ArrayLike, T: Array, S: Array) -> Array:
    """`(a(x) + a(z)) / 2 - c_d |x - z| / 2` with `a` the mean of the projections."""
    X, Z = np.asarray(X), np.asarray(Z)
    a, b = T.mean(axis=1), S.mean(axis=1)
    distances = np.array([[np.linalg.norm(x - z) for z in Z] for x in X])
    return 0.5 * (a[:, None] + b - mean_projection(X.shape[1]) * distances)


def log_likelihood(kernels: list[Array], Y: Array, theta: Array) -> float:
    """Largest log likelihood over the scale of each target, per sample and target, less a constant.

    Each target is normal with covariance `s_c (sum_g exp(theta_g) K_g + I)` (their equation 5.8),
    which is largest at `s_c = y^T R^-1 y / n`.
    """
    n, n_targets = Y.shape
    R = np.eye(n) + sum(np.exp(t) * K for t, K in zip(theta, kernels, strict=True))
    total = 0.0
    for y in Y.T:
        scale = float(y @ np.linalg.solve(R, y)) / n
        covariance = scale * R
        total += -0.5 * float(y @ np.linalg.solve(covariance, y))
        total += -0.5 * float(np.linalg.slogdet(covariance)[1]) + 0.5 * n
    return total / (n * n_targets)


class DenseGP(NamedTuple):
    """A Gaussian process of any kernel, whose mean is that of the targets."""

    K: Array
    y: Array
    noise: float

    def predict(self, cross: Array, prior: Array) -> tuple[Array, Array]:
        """Means and standard deviations with noise (their equations 2.25 and 2.26)."""
        A = self.K + self.noise * np.eye(len(self.K))
        mean = self.y.mean() + cross @ np.linalg.solve(A, self.y - self.y.mean())
        variance = prior - np.einsum("ij,ji->i", cross, np.linalg.solve(A, cross.T))
        return mean, np.sqrt(variance + self.noise)
