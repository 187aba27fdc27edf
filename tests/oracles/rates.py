"""Counts and positive numbers whose log mean is a latent function, by Laplace, dense."""

import numpy as np

from tests.oracles.laplace import climbed

# Log density of a target of weight and dispersion 1, its slope and its information, of a function
# f with the mean e^f: eqs. of generalised linear models (McCullagh and Nelder, 1989, table 2.1).
FAMILIES = {
    "poisson": (lambda y, f: y * f - np.exp(f), lambda y, f: y - np.exp(f), lambda f: np.exp(f)),
    "gamma": (
        lambda y, f: -y / np.exp(f) - f,
        lambda y, f: y / np.exp(f) - 1.0,
        lambda f: np.ones_like(f),
    ),
}


def mode(family, C, r, w):
    """Mode of the posterior of f ~ N(0, C), of rates r with weights w over the dispersion."""
    _, slope, information = FAMILIES[family]

    def newton(f):
        W = w * information(f)
        B = np.eye(len(r)) + np.sqrt(W)[:, None] * C * np.sqrt(W)
        b = W * f + w * slope(r, f)
        return C @ (b - np.sqrt(W) * np.linalg.solve(B, np.sqrt(W) * (C @ b)))

    f = climbed(np.zeros(len(r)), lambda f: objective(family, C, f, r, w), newton)
    # Values near the mode differ by rounding alone.
    for _ in range(60):
        f = newton(f)
    return f


def objective(family, C, f, r, w):
    """Log density of the rates plus log prior of f, but for constants."""
    with np.errstate(over="ignore"):
        return np.sum(w * FAMILIES[family][0](r, f)) - 0.5 * f @ np.linalg.solve(C, f)


def prediction(family, C, cross, prior, f, r, w):
    """Mean and variance of the latent function elsewhere."""
    _, slope, information = FAMILIES[family]
    noise = np.diag(1.0 / (w * information(f)))
    mean = cross @ (w * slope(r, f))
    return mean, prior - np.sum(cross * np.linalg.solve(C + noise, cross.T).T, axis=1)


def log_evidence(family, C, f, r, w):
    """Laplace's approximation, but for what only the rates tell."""
    W = np.sqrt(w * FAMILIES[family][2](f))
    B = np.eye(len(r)) + W[:, None] * C * W
    return objective(family, C, f, r, w) - 0.5 * np.linalg.slogdet(B)[1]
