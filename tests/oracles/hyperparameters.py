"""Generalised intersection kernels and the likelihood of their hyper-parameters.

Equations are numbered as in Rodner et al., "Large-Scale Gaussian Process Inference with Generalized
Histogram Intersection Kernels for Visual Recognition Tasks", International Journal of Computer
Vision, 2016.
"""

import numpy as np
from numpy.typing import ArrayLike
from scipy import linalg, sparse

from tests.oracles.intersection import Array, gp_fit, gp_negative_log_likelihood


def transform(X: ArrayLike, name: str, exponent: float) -> Array:
    """Return g(x): eq. 15 for "power", eq. 16 for "exponential", x for "identity"."""
    X = np.abs(X.toarray() if sparse.issparse(X) else np.asarray(X, dtype=np.float64))
    if name == "power":
        return np.asarray(X**exponent)
    if name == "exponential":
        return np.asarray((np.exp(exponent * X) - 1.0) / (np.exp(exponent) - 1.0))
    return X


def generalized_kernel(
    X: ArrayLike,
    Y: ArrayLike | None = None,
    *,
    name: str = "identity",
    exponent: float = 1.0,
    weights: ArrayLike | None = None,
    intercept: float = 0.0,
) -> Array:
    """Eqs. 14 and 17: sum_d min(w_d g(x(d)), w_d g(x'(d))), for all pairs of rows.

    To it, a constant: the prior variance of an intercept.
    """
    X = transform(X, name, exponent)
    Y = X if Y is None else transform(Y, name, exponent)
    w = np.ones(X.shape[1]) if weights is None else np.asarray(weights)
    return np.array([np.minimum(w * x, w * Y).sum(axis=1) + intercept for x in X])


def log_likelihood(X: ArrayLike, Y: ArrayLike, noise: float, amplitude: float, **kernel) -> float:
    """Eq. 4, negated and summed over the columns of Y, by Cholesky factorisation."""
    fit = gp_fit(amplitude * generalized_kernel(X, **kernel), Y, noise)
    return -float(np.sum(gp_negative_log_likelihood(fit, Y)))


def bound(beta: float, trace: float, squares: float, n: int) -> float:
    """Eqs. 18 to 20 as they are printed, with beta, mu_1 = trace and mu_2 = squares."""
    t = (beta * trace - squares) / (beta * n - trace)
    matrix = np.array([[beta, t], [beta**2, t**2]])
    return float(np.log([beta, t]) @ linalg.solve(matrix, [trace, squares]))
