"""The objective of A. Vedaldi and A. Zisserman (CVPR 2012), and quadratic programs by SciPy."""

import numpy as np
from scipy.optimize import LinearConstraint, minimize

LOSSES = {
    "hinge": lambda z: np.maximum(0.0, 1 - z),
    "squared_hinge": lambda z: np.maximum(0.0, 1 - z) ** 2,
    "logistic": lambda z: np.logaddexp(0.0, -z),
}


def objective(features, K, y, weights, alpha, v, intercept=0.0, scale=1.0, loss="hinge"):
    """Equation 11, with the formed pseudo-inverse, weights and a penalised intercept."""
    margins = y * (features @ v + intercept)
    penalty = v @ np.linalg.pinv(K, hermitian=True) @ v + (intercept / scale) ** 2
    return alpha / 2 * penalty + weights @ LOSSES[loss](margins)


def hinge_minimum(features, K, y, weights, alpha):
    """The minimum of equation 11 for the hinge loss, from its dual: a box-constrained program.

    max sum_i beta_i - |Phi^T (beta y)|^2_K / (2 alpha),  0 <= beta_i <= weights_i.
    """
    H = (features * y[:, None]) @ K @ (features * y[:, None]).T / alpha
    found = minimize(
        lambda b: 0.5 * b @ H @ b - b.sum(),
        weights / 2,
        jac=lambda b: H @ b - 1,
        bounds=[(0.0, w) for w in weights],
        method="L-BFGS-B",
        options={"maxiter": 20_000, "maxfun": 100_000, "ftol": 1e-15, "gtol": 1e-12},
    )
    return -found.fun


def simplex_maximum(H, b):
    """The maximum of b^T a - a^T H a / 2 on the simplex (equation 15)."""
    n = len(b)
    found = minimize(
        lambda a: 0.5 * a @ H @ a - b @ a,
        np.full(n, 1 / n),
        jac=lambda a: H @ a - b,
        bounds=[(0.0, 1.0)] * n,
        constraints=LinearConstraint(np.ones((1, n)), 1, 1),
        method="SLSQP",
        options={"maxiter": 1000, "ftol": 1e-15},
    )
    return -found.fun
