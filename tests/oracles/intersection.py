"""Histogram intersection kernel and Gaussian process regression with it.

Equations are numbered as in Rodner, Freytag, Bodesheim, Fröhlich and Denzler, "Large-Scale
Gaussian Process Inference with Generalized Histogram Intersection Kernels for Visual Recognition
Tasks", International Journal of Computer Vision, 2016. X is (N, D), alpha and V are (N,) or (N, C).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import linalg

Array = NDArray[np.float64]


def _dense(X: ArrayLike) -> Array:
    toarray = getattr(X, "toarray", None)
    return np.asarray(X if toarray is None else toarray(), dtype=np.float64)


def _kernel(X: ArrayLike, Y: ArrayLike | None) -> NDArray[np.longdouble]:
    X = _dense(X)
    Y = X if Y is None else _dense(Y)
    K = np.empty((len(X), len(Y)), dtype=np.longdouble)
    for i, x in enumerate(X):
        K[i] = np.minimum(x, Y).sum(axis=1, dtype=np.longdouble)
    return K


def intersection_kernel(X: ArrayLike, Y: ArrayLike | None = None) -> Array:
    """Eq. 5: kappa(x, x') = sum_d min(x(d), x'(d)), for all pairs of rows."""
    return _kernel(X, Y).astype(np.float64)


def cross_product(X_star: ArrayLike, X: ArrayLike, V: ArrayLike) -> Array:
    """Eq. 6 before it is split: K(X_star, X) V, through the kernel matrix."""
    return (_kernel(X_star, X) @ np.asarray(V, dtype=np.longdouble)).astype(np.float64)


def cross_product_scale(X_star: ArrayLike, X: ArrayLike, V: ArrayLike) -> Array:
    """K(X_star, X) |V|: rounding errors of the product are proportional to this, not to itself."""
    return cross_product(X_star, X, np.abs(np.asarray(V, dtype=np.float64)))


def component(X: ArrayLike, alpha: ArrayLike, k: int, points: ArrayLike) -> Array:
    """Return f_k(t) = sum_i alpha(i) min(x_i(k), t) at the points: one summand of the mean."""
    column = _dense(X)[:, k].astype(np.longdouble)
    alpha = np.asarray(alpha, dtype=np.longdouble)
    minima = np.minimum(np.asarray(points, dtype=np.longdouble)[:, None], column[None, :])
    return np.asarray((minima @ alpha), dtype=np.float64)


class NearestTable(NamedTuple):
    """The quantised look-up table of eq. 10."""

    prototypes: Array  # (D, q)
    T: Array  # (D, q, ...)


def nearest_lookup_table(X: ArrayLike, alpha: ArrayLike, n_bins: int) -> NearestTable:
    """Eq. 10: T(d, k) = f_d(p(k)), on q = n_bins prototypes a dimension.

    The quantisation is section 4.2's adaptive one, uniform on [0, u_d], where u_d is the largest
    value of dimension d. The paper does not say where in a bin its prototype is; here, as in its
    authors' implementation, they are k u_d / (q - 1), both ends included.
    """
    X = _dense(X)
    prototypes = np.array(
        [[upper * (k / (n_bins - 1)) for k in range(n_bins)] for upper in X.max(axis=0)]
    ).reshape(X.shape[1], n_bins)
    T = [component(X, alpha, k, points) for k, points in enumerate(prototypes)]
    return NearestTable(prototypes, np.array(T))


def nearest_index(table: NearestTable, X_star: ArrayLike) -> NDArray[np.intp]:
    """Index of the prototype nearest to each value; the upper one of two equally near."""
    X_star = _dense(X_star)
    q = table.prototypes.shape[1]
    index = np.zeros(X_star.shape, dtype=np.intp)
    for k, prototypes in enumerate(table.prototypes):
        distance = np.abs(X_star[:, k, None] - prototypes[None, ::-1])
        index[:, k] = q - 1 - np.argmin(distance, axis=1)
        if prototypes[-1] == 0:
            index[:, k] = 0
    return index


def nearest_lookup(table: NearestTable, X_star: ArrayLike) -> Array:
    """Return the sum over d of T(d, k_d), where prototype k_d is the nearest to x(d)."""
    index = nearest_index(table, X_star)
    scores = np.zeros((len(index), *table.T.shape[2:]), dtype=np.longdouble)
    for k in range(index.shape[1]):
        scores += table.T[k, index[:, k]]
    return scores.astype(np.float64)


def nearest_error_bound(table: NearestTable, alpha: ArrayLike, X_star: ArrayLike) -> Array:
    """Return |alpha|_1 sum_d |x(d) - q(x(d))|, which bounds the error of `nearest_lookup`.

    This stands in for theorem 1 (eq. 11), whose factor 1/2 holds only if the quantised vector
    keeps its L1 norm. Values above u_d count as u_d: no min(x_i(d), .) changes beyond it.
    """
    X_star = _dense(X_star)
    index = nearest_index(table, X_star)
    total = np.zeros(len(X_star), dtype=np.longdouble)
    for k, prototypes in enumerate(table.prototypes):
        total += np.abs(np.minimum(X_star[:, k], prototypes[-1]) - prototypes[index[:, k]])
    norm = np.abs(np.asarray(alpha, dtype=np.longdouble)).sum(axis=0)
    return np.asarray(np.multiply.outer(total, norm), dtype=np.float64)


def one_vs_all_targets(y: ArrayLike) -> tuple[NDArray[np.generic], Array]:
    """Section 3.3: the sorted classes and an (N, M) matrix, +1 for a row's class and -1 else."""
    y = np.asarray(y)
    classes = np.array(sorted(set(y.tolist())))
    targets = np.array([[1.0 if label == c else -1.0 for c in classes] for label in y])
    return classes, targets.reshape(len(y), len(classes))


class GPFit(NamedTuple):
    """A Gaussian process fitted exactly: (K + noise I) = L L^T and alpha solves for Y."""

    L: Array
    alpha: Array
    noise: float


def gp_fit(K: ArrayLike, Y: ArrayLike, noise: float) -> GPFit:
    """Eq. 2: alpha = (K + sigma_n^2 I)^-1 y, by Cholesky factorisation. `noise` is sigma_n^2."""
    K, Y = np.asarray(K, dtype=np.float64), np.asarray(Y, dtype=np.float64)
    L = linalg.cholesky(K + noise * np.eye(len(K)), lower=True)
    return GPFit(L, linalg.cho_solve((L, True), Y), noise)


def gp_mean(fit: GPFit, K_star: ArrayLike) -> Array:
    """Eq. 2: mu_* = k_*^T alpha, for each row k_* of K_star = K(X_star, X)."""
    return np.asarray(K_star, dtype=np.float64) @ fit.alpha


def gp_latent_variance(fit: GPFit, K_star: ArrayLike, k_star_star: ArrayLike) -> Array:
    """Eq. 3 without its last term: k_** - k_*^T (K + sigma_n^2 I)^-1 k_*, of the function f."""
    half = linalg.solve_triangular(fit.L, np.asarray(K_star, dtype=np.float64).T, lower=True)
    prior = np.asarray(k_star_star, dtype=np.float64)
    return np.asarray(prior - np.square(half).sum(axis=0))


def gp_negative_log_likelihood(fit: GPFit, Y: ArrayLike) -> Array:
    """Eq. 4: (y^T K^-1 y + log det K + N log(2 pi)) / 2 for each column y, K with the noise."""
    Y = np.asarray(Y, dtype=np.float64)
    data = (Y * fit.alpha).sum(axis=0) / 2
    return np.asarray(data + np.log(np.diag(fit.L)).sum() + len(fit.L) / 2 * np.log(2 * np.pi))
