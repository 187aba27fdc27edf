"""Gaussian processes whose rows differ in noise, from the joint normal distribution.

`y = f + e`, `f ~ N(0, a K)`, `e_i ~ N(0, noise / w_i)`; everything follows from conditioning a
joint normal distribution (Rasmussen and Williams, 2006, appendix A.2).
"""

import numpy as np
from scipy.stats import multivariate_normal


def condition(K, k, prior, y, weights, noise, amplitude):
    """Mean and variance of the latent function at other rows."""
    A = amplitude * K + np.diag(noise / weights)
    inverse = np.linalg.inv(A)
    cross = amplitude * k
    mean = cross.T @ inverse @ y
    variance = [amplitude * p - c @ inverse @ c for p, c in zip(prior, cross.T, strict=True)]
    return mean, np.array(variance)


def log_density(K, y, weights, noise, amplitude):
    A = amplitude * K + np.diag(noise / weights)
    return multivariate_normal(np.zeros(len(y)), A).logpdf(y)


def standardised(y, weights):
    """Targets less their weighted mean, over their weighted spread."""
    total = np.sum(weights)
    mean = sum(w * v for w, v in zip(weights, y, strict=True)) / total
    spread = np.sqrt(sum(w * (v - mean) ** 2 for w, v in zip(weights, y, strict=True)) / total)
    return (y - mean) / spread, mean, spread
