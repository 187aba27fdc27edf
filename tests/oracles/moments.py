"""Moments, principal components and ridge regression after them, slowly.

Li, Lebanon and Sminchisescu 2012, "Chebyshev approximations to the histogram chi-square kernel",
Algorithms 2 and 3.
"""

import numpy as np


def moments(Z, y):
    """Return n, m = Z^T 1, H = Z^T Z - m m^T / n and v = Z^T y, a row at a time."""
    n, m = 0, np.zeros(Z.shape[1])
    H, v = np.zeros((Z.shape[1],) * 2), np.zeros((Z.shape[1], y.shape[1]))
    for z, target in zip(np.asarray(Z, float), np.asarray(y, float), strict=True):
        n, m, H, v = n + 1, m + z, H + np.outer(z, z), v + np.outer(z, target)
    return n, m, H - np.outer(m, m) / max(n, 1), v


def principal_directions(Z, n_components):
    """Return the first columns of U (step 9), by a singular value decomposition of the rows."""
    Z = np.asarray(Z, float)
    return np.linalg.svd(Z - Z.mean(axis=0), full_matrices=False)[2][:n_components].T


def ridge(Z, y, U, alpha):
    """Return coefficients and intercept of ridge regression on the projected rows.

    The paper folds back with U^T w; it is U w. It leaves the mean of y out of the intercept.
    """
    Z, y = np.asarray(Z, float), np.asarray(y, float)
    projected = (Z - Z.mean(axis=0)) @ U
    gram = projected.T @ projected + alpha * np.eye(U.shape[1])
    coefficients = U @ np.linalg.solve(gram, projected.T @ (y - y.mean(axis=0)))
    return coefficients, y.mean(axis=0) - Z.mean(axis=0) @ coefficients


def leave_one_out_error(Z, y, U, alpha):
    """Return the mean squared error of models of all rows but one, for fixed directions."""
    errors = []
    for i in range(len(Z)):
        rest = np.arange(len(Z)) != i
        coefficients, intercept = ridge(Z[rest], y[rest], U, alpha)
        errors.append((Z[i] @ coefficients + intercept - y[i]) ** 2)
    return np.mean(errors)


def generalized_error(Z, y, U, alpha):
    """Return |y - S y|^2 / n over (1 - tr(S) / n)^2, S the matrix that smooths the targets."""
    n = len(Z)
    smoother = []
    for target in np.eye(n):
        coefficients, intercept = ridge(Z, target[:, None], U, alpha)
        smoother.append((Z @ coefficients + intercept)[:, 0])
    S = np.array(smoother).T
    return np.mean((y - S @ y) ** 2) / (1 - np.trace(S) / n) ** 2


def lasso_objective(Z, y, coefficients, intercept, alpha, groups, weights, ridge=0.0):
    """Return |y - b - Z w|^2 / (2 n) + alpha sum_g weight_g |w_g| + ridge |w|^2 / 2."""
    residual = y - intercept - np.asarray(Z, float) @ coefficients
    norms = [np.sqrt(np.sum(coefficients[groups == g] ** 2)) for g in np.unique(groups)]
    penalty = alpha * np.dot(weights, norms) + ridge * np.sum(coefficients**2) / 2
    return np.sum(residual**2) / (2 * len(y)) + penalty


def group_lasso(Z, y, alpha, groups, weights, n_steps=20_000):
    """Minimise that objective, without ridge, by proximal gradient steps with momentum."""
    mean, y_mean = Z.mean(axis=0), y.mean()
    Z, y = Z - mean, y - y_mean
    length = len(y) / np.linalg.norm(Z, 2) ** 2
    w = before = np.zeros(Z.shape[1])
    members = [groups == g for g in np.unique(groups)]
    for k in range(n_steps):
        ahead = w + k / (k + 3) * (w - before)
        moved = ahead - length * Z.T @ (Z @ ahead - y) / len(y)
        before, w = w, np.zeros_like(w)
        for own, weight in zip(members, weights, strict=True):
            norm = np.sqrt(np.sum(moved[own] ** 2))
            if norm > length * alpha * weight:
                w[own] = (1 - length * alpha * weight / norm) * moved[own]
        if np.array_equal(w, before):
            break
    return w, y_mean - mean @ w


def block_ridge(Z, y, sizes, n_components, alpha):
    """Return coefficients and intercept of Algorithm 4: principal directions of each block."""
    Z = np.asarray(Z, float)
    U = np.zeros((Z.shape[1], sum(n_components)))
    row = column = 0
    for size, k in zip(sizes, n_components, strict=True):
        block = slice(row, row + size)
        U[block, column : column + k] = principal_directions(Z[:, block], k)
        row, column = row + size, column + k
    return ridge(Z, y, U, alpha)
