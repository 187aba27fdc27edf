"""Distances and statistics of symmetric positive definite matrices, from their definitions.

M. J. Kusner, N. I. Kolkin, S. Tyree and K. Q. Weinberger, "Image data compression for covariance
and histogram descriptors", 2015; equation numbers are of that paper.
"""

import numpy as np
from scipy import linalg


def log_det(A):
    """By eigenvalues, where the package takes a factorisation."""
    return float(np.sum(np.log(np.linalg.eigvalsh(np.asarray(A, dtype=np.float64)))))


def jbld(X, Y):
    """Equation 1."""
    X, Y = np.asarray(X, dtype=np.float64), np.asarray(Y, dtype=np.float64)
    return log_det((X + Y) / 2) - (log_det(X) + log_det(Y)) / 2


def airm(X, Y):
    """Definition 1, with its square roots and its logarithm of a matrix."""
    X, Y = np.asarray(X, dtype=np.float64), np.asarray(Y, dtype=np.float64)
    values, vectors = np.linalg.eigh(X)
    root = vectors / np.sqrt(values) @ vectors.T
    inner = root @ Y @ root
    values, vectors = np.linalg.eigh((inner + inner.T) / 2)
    return float(np.linalg.norm(vectors * np.log(values) @ vectors.T))


def all_pairs(distance, X, Y):
    """One pair at a time."""
    return np.array([[distance(x, y) for y in Y] for x in X]).reshape(len(X), len(Y))


def covariance(F):
    """Section 2: the sum over features, one at a time."""
    mean = sum(F) / len(F)
    return sum(np.outer(f - mean, f - mean) for f in F) / (len(F) - 1)


def project(A, floor):
    """The nearest symmetric matrix, in the Frobenius norm, with eigenvalues of at least floor."""
    values, vectors = np.linalg.eigh((A + A.T) / 2)
    return sum(
        max(value, floor) * np.outer(v, v) for value, v in zip(values, vectors.T, strict=True)
    )


def jbld_mean_residual(C, X, weights):
    """Gradient of the weighted sum of divergences to `C`, scaled to be affine invariant.

    d/dC sum_i w_i D_J(C, X_i) = 1/2 (sum_i w_i ((C + X_i)/2)^-1 - C^-1).
    """
    inverse = sum(w * linalg.inv((C + x) / 2) for w, x in zip(weights, X, strict=True))
    root = linalg.sqrtm(C).real
    return root @ inverse @ root - np.eye(len(C))


def compression_loss(X, y, P, labels, gamma):
    """Equations 4 to 6, one training matrix at a time."""
    loss = 0.0
    for x, label in zip(X, y, strict=True):
        p = np.exp([-(gamma**2) * jbld(x, prototype) for prototype in P])
        loss -= np.log(p[np.asarray(labels) == label].sum() / p.sum())
    return loss


def matrix_function(A, f):
    """By eigenvalues."""
    values, vectors = np.linalg.eigh((A + A.T) / 2)
    return vectors * f(values) @ vectors.T


def signal_covariance(x, shrinkage):
    """A product of two channels at a time, shrunk towards its trace."""
    p = len(x)
    x = np.asarray(x, dtype=np.float64)
    C = np.array([[np.mean((a - a.mean()) * (b - b.mean())) for b in x] for a in x])
    return (1 - shrinkage) * C + shrinkage * np.trace(C) / p * np.eye(p)


def tangent_vector(X, M):
    """vech log(M^-1/2 X M^-1/2), a coordinate at a time."""
    W = matrix_function(M, lambda v: v**-0.5)
    S = matrix_function(W @ X @ W, np.log)
    p = len(S)
    return np.array(
        [S[i, j] * (1 if i == j else np.sqrt(2)) for i in range(p) for j in range(i, p)]
    )


def airm_mean_residual(C, X, weights):
    """The gradient of half the weighted squared distances, in the tangent space at `C`."""
    W = matrix_function(C, lambda v: v**-0.5)
    return -sum(w * matrix_function(W @ x @ W, np.log) for w, x in zip(weights, X, strict=True))


def log_euclidean_mean(X, weights):
    """exp sum_i w_i log X_i."""
    logs = sum(w * matrix_function(x, np.log) for w, x in zip(weights, X, strict=True))
    return matrix_function(logs, np.exp)


def joint_diagonality(W, C, shares):
    """The criterion of D. T. Pham, SIAM J. Matrix Anal. Appl. 22, 2001, equation 2."""
    total = 0.0
    for share, c in zip(shares, C, strict=True):
        D = W @ c @ W.T
        total += share * (np.sum(np.log(np.diag(D))) - log_det(D))
    return total


def two_class_ratios(first, second):
    """Generalised eigenvalues of the second beside the sum, by the root of its inverse."""
    whitener = matrix_function(first + second, lambda v: v**-0.5)
    return np.linalg.eigvalsh(whitener @ second @ whitener)


def most_information(w, C, shares):
    """The entropy of a Gaussian of the variance of the mixture, less those of the classes."""

    def entropy(variance):
        return np.log(2 * np.pi * np.e * variance) / 2

    variances = [w @ c @ w for c in C]
    mixture = sum(p * v for p, v in zip(shares, variances, strict=True))
    return entropy(mixture) - sum(p * entropy(v) for p, v in zip(shares, variances, strict=True))


def potato(X, threshold):
    """The mean of clean matrices, and the z-score of each matrix.

    A. Barachant, A. Andreev and M. Congedo, TOBI Workshop IV, 2013: log distances, one at a time.
    """
    clean = np.ones(len(X), dtype=bool)
    while True:
        mean = airm_mean_by_fixed_point(X[clean])
        logs = np.array([np.log(airm(x, mean)) for x in X])
        z = (logs - logs[clean].mean()) / logs[clean].std()
        if np.all(z[clean] < threshold):
            return mean, z
        clean &= z < threshold


def airm_mean_by_fixed_point(X):
    """Steps along the mean logarithm, until none is left."""
    C = X.mean(axis=0)
    for _ in range(200):
        W = matrix_function(C, lambda v: v**-0.5)
        step = sum(matrix_function(W @ x @ W, np.log) for x in X) / len(X)
        root = matrix_function(C, np.sqrt)
        C = root @ matrix_function(step, np.exp) @ root
        if np.linalg.norm(step) < 1e-12:
            break
    return C
