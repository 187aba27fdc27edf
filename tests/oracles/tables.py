"""Blends on tables, from their formulas: kernels of distances, leave-one-out, weights."""

import numpy as np


def distance_kernel(norm, n_numbers, weights, amplitudes, X, Y):
    """Return `sum_k a_k phi_k(D) + e (|x| + |y| - D) / 2 + c`, entry by entry."""
    lengths = {"l1": ([0.25, 1.0, 4.0], []), "l2": ([0.15, 0.5, 1.5], [0.5, 1.5])}[norm]

    def length(x, y):
        parts = []
        for d, w in enumerate(weights):
            if d < n_numbers:
                parts.append(w * abs(x[d] - (0.0 if y is None else y[d])))
            else:
                parts.append(0.0 if y is not None and x[d] == y[d] else w)
        return sum(parts) if norm == "l1" else np.sqrt(sum(p**2 for p in parts))

    K = np.empty((len(X), len(Y)))
    for i, x in enumerate(X):
        for j, y in enumerate(Y):
            D = length(x, y)
            s = [np.sqrt(3.0) * D / c for c in lengths[1]]
            terms = [np.exp(-D / c) for c in lengths[0]] + [(1.0 + r) * np.exp(-r) for r in s]
            brown = 0.5 * (length(x, None) + length(y, None) - D)
            K[i, j] = np.dot(amplitudes, [*terms, brown, 1.0])
    return K


def left_out(K, noise, T):
    """Return means and variances of each row by the fit without it, one refit after another."""
    means, variances = np.empty(T.shape), np.empty(len(T))
    for i in range(len(T)):
        others = np.arange(len(T)) != i
        A = K[np.ix_(others, others)] + np.diag(noise[others])
        k = K[others, i]
        means[i] = k @ np.linalg.solve(A, T[others])
        variances[i] = K[i, i] - k @ np.linalg.solve(A, k) + noise[i]
    return means, variances


def negative_log_evidence(K, noise, Y):
    """Return it without the constant, summed over targets."""
    A = K + np.diag(noise)
    return 0.5 * np.sum(Y * np.linalg.solve(A, Y)) + 0.5 * Y.shape[1] * np.linalg.slogdet(A)[1]
