"""What is left of a variance when a Gaussian process is observed in a subspace only."""

import numpy as np


def variance_in_subspace(A, cross, prior, B):
    """`prior - k^T B (B^T A B)^-1 B^T k` for each row `k` of `cross`, by its definition.

    `A` is the covariance of the observations, `cross` that of other values with them, and `prior`
    the variances of these; `B^T y` is what is observed.
    """
    left = np.empty(len(cross))
    for i, k in enumerate(cross):
        seen = B.T @ k
        left[i] = prior[i] - seen @ np.linalg.solve(B.T @ A @ B, seen)
    return left


def without_row(A, i, rest):
    """Return the covariance as if observation `i` told nothing: `rest` alone on the diagonal."""
    A = A.copy()
    A[i], A[:, i] = 0.0, 0.0
    A[i, i] = rest
    return A
