"""Blends on tables, from their formula of kernels of distances."""

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
