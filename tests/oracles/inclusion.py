"""Posterior inclusion probabilities of additive models, by enumerating every model."""

import itertools
import math

import numpy as np


def components(x, n_components):
    """Return the leading principal components of the centred kernel min of one column."""
    n = len(x)
    H = np.eye(n) - np.ones((n, n)) / n
    K = H @ np.minimum.outer(x - x.min(), x - x.min()) @ H
    values, vectors = np.linalg.eigh(K)
    values, vectors = values[::-1][:n_components], vectors[:, ::-1][:, :n_components]
    kept = values > 1e-9 * values[0]
    Z = vectors[:, kept] * np.sqrt(values[kept])
    return Z * np.sqrt(n / np.sum(Z**2))


def log_likelihood(Zs, variances, Y):
    """Return the log likelihood of targets, up to a constant, the noise's variance integrated out.

    The covariance is the noise's variance times `I` plus the sum of `v Z Z^T`, and the prior of
    that variance is `1 / sigma^2`; the mean has been taken off.
    """
    n, q = Y.shape
    C = np.eye(n)
    for Z, v in zip(Zs, variances, strict=True):
        C = C + v * Z @ Z.T
    rest = np.trace(Y.T @ np.linalg.solve(C, Y))
    return -0.5 * q * np.linalg.slogdet(C)[1] - 0.5 * (n - 1) * q * math.log(rest)


def inclusion_probabilities(Zs, Y, scales):
    """Return the probability of each column; the share p that matters is Beta(1, d)."""
    d = len(Zs)
    logs, sets = [], []
    for variances in itertools.product([0.0, *scales], repeat=d):
        k = sum(v > 0 for v in variances)
        # The integral of p^k (1 - p)^(d - k) (1 - p)^(d - 1), up to a constant.
        prior = math.lgamma(k + 1) + math.lgamma(2 * d - k)
        logs.append(log_likelihood(Zs, variances, Y) + prior - k * math.log(len(scales)))
        sets.append([v > 0 for v in variances])
    weights = np.exp(np.array(logs) - max(logs))
    return weights @ np.array(sets) / weights.sum()
