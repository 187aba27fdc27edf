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


def kernel_product(X: ArrayLike, V: ArrayLike) -> Array:
    """Eq. 9: (K v)_i = sum_j v(j) sum_d min(x_i(d), x_j(d))."""
    return cross_product(X, X, V)


def cross_product_scale(X_star: ArrayLike, X: ArrayLike, V: ArrayLike) -> Array:
    """K(X_star, X) |V|: rounding errors of the product are proportional to this, not to itself."""
    return cross_product(X_star, X, np.abs(np.asarray(V, dtype=np.float64)))


class Tables(NamedTuple):
    """The look-up tables of eq. 8; index r counts the examples below a value."""

    values: Array  # (D, N), ascending
    A: NDArray[np.longdouble]  # (D, N + 1, ...)
    B: NDArray[np.longdouble]  # (D, N + 1, ...)


def tables_a_b(X: ArrayLike, alpha: ArrayLike) -> Tables:
    """Eq. 7: A(d, r) sums alpha * x over the r smallest x(d), B(d, r) sums alpha over the rest."""
    X, alpha = _dense(X), np.asarray(alpha, dtype=np.longdouble)
    n, d = X.shape
    values = np.empty((d, n))
    A = np.zeros((d, n + 1, *alpha.shape[1:]), dtype=np.longdouble)
    B = np.zeros_like(A)
    for k in range(d):
        order = np.argsort(X[:, k], kind="stable")
        values[k] = X[order, k]
        for r in range(n + 1):
            below, rest = order[:r], order[r:]
            A[k, r] = (alpha[below].T * X[below, k]).T.sum(axis=0)
            B[k, r] = alpha[rest].sum(axis=0)
    return Tables(values, A, B)


def components_from_tables(tables: Tables, X_star: ArrayLike) -> NDArray[np.longdouble]:
    """Return the summands of eq. 8, A(d, r_d) + x(d) B(d, r_d), of shape (n, D, ...)."""
    X_star = _dense(X_star)
    terms = np.zeros((*X_star.shape, *tables.A.shape[2:]), dtype=np.longdouble)
    for i, x in enumerate(X_star):
        for k, value in enumerate(x):
            r = int((tables.values[k] < value).sum())
            terms[i, k] = tables.A[k, r] + np.longdouble(value) * tables.B[k, r]
    return terms


def score_from_tables(tables: Tables, X_star: ArrayLike) -> Array:
    """Eq. 8: k_*^T alpha = sum_d A(d, r_d) + x(d) B(d, r_d), r_d examples being below x(d)."""
    return np.asarray(components_from_tables(tables, X_star).sum(axis=1), dtype=np.float64)


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
    """Eq. 10: T(d, k) = A(d, r_d) + p(k) B(d, r_d), on q = n_bins prototypes a dimension.

    The quantisation is section 4.2's adaptive one, uniform on [0, u_d], where u_d is the largest
    value of dimension d. The paper does not say where in a bin its prototype is; here, as in its
    authors' implementation, they are k u_d / (q - 1), both ends included.
    """
    X = _dense(X)
    tables = tables_a_b(X, alpha)
    prototypes = np.array(
        [[upper * (k / (n_bins - 1)) for k in range(n_bins)] for upper in X.max(axis=0)]
    ).reshape(X.shape[1], n_bins)
    # Each column of the transpose is a set of D test values, one for each dimension.
    T = np.moveaxis(components_from_tables(tables, prototypes.T), 0, 1)
    return NearestTable(prototypes, T.astype(np.float64))


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


def linear_lookup(
    X: ArrayLike, alpha: ArrayLike, knots: list[ArrayLike], X_star: ArrayLike
) -> Array:
    """Sum of the f_d, each interpolated linearly between its exact values at ascending knots.

    Below the first knot and above the last, f_d counts as constant; with knots from 0 to u_d that
    is exact. With a knot at every value of the dimension the whole look-up is.
    """
    X_star = _dense(X_star)
    alpha = np.asarray(alpha, dtype=np.float64)
    columns = alpha.reshape(len(alpha), -1)
    scores = np.zeros((len(X_star), columns.shape[1]), dtype=np.longdouble)
    for k in range(X_star.shape[1]):
        at = np.asarray(knots[k], dtype=np.float64)
        for c in range(columns.shape[1]):
            heights = component(X, columns[:, c], k, at)
            scores[:, c] += np.interp(X_star[:, k], at, heights)
    return scores.astype(np.float64).reshape(len(X_star), *alpha.shape[1:])


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


def gp_predictive_variance(fit: GPFit, K_star: ArrayLike, k_star_star: ArrayLike) -> Array:
    """Eq. 3: the variance of the label y_*, which includes the noise sigma_n^2."""
    return gp_latent_variance(fit, K_star, k_star_star) + fit.noise


def gp_negative_log_likelihood(fit: GPFit, Y: ArrayLike) -> Array:
    """Eq. 4: (y^T K^-1 y + log det K + N log(2 pi)) / 2 for each column y, K with the noise."""
    Y = np.asarray(Y, dtype=np.float64)
    data = (Y * fit.alpha).sum(axis=0) / 2
    return np.asarray(data + np.log(np.diag(fit.L)).sum() + len(fit.L) / 2 * np.log(2 * np.pi))
