"""Leave-one-out predictions of a Gaussian process.

Equations are numbered as in Rasmussen and Williams, "Gaussian Processes for Machine Learning", MIT
Press, 2006, section 5.4.2.
"""

import numpy as np
from numpy.typing import ArrayLike

from tests.oracles.intersection import Array


def closed_form(A: ArrayLike, Y: ArrayLike) -> tuple[Array, Array]:
    """Eqs. 5.12: mu_i = y_i - [A^-1 y]_i / [A^-1]_ii and sigma_i^2 = 1 / [A^-1]_ii."""
    inverse = np.linalg.inv(np.asarray(A, dtype=np.float64))
    diagonal = np.diag(inverse)
    Y = np.asarray(Y, dtype=np.float64)
    return Y - (inverse @ Y) / diagonal[:, None], 1.0 / diagonal


def refits(A: ArrayLike, Y: ArrayLike) -> tuple[Array, Array]:
    """Return the same from the predictive equations (2.25, 2.26), of a fit without each row.

    `A` is the kernel matrix with the noise on its diagonal.
    """
    A, Y = np.asarray(A, dtype=np.float64), np.asarray(Y, dtype=np.float64)
    mean, variance = np.empty_like(Y), np.empty(len(Y))
    for i in range(len(Y)):
        rest = np.delete(np.arange(len(Y)), i)
        solved = np.linalg.solve(A[np.ix_(rest, rest)], A[rest, i])
        mean[i] = solved @ Y[rest]
        variance[i] = A[i, i] - solved @ A[rest, i]
    return mean, variance


def by_centring(K: Array, weights: Array | None = None) -> tuple[Array, float]:
    """Return the kernel of functions less their mean over rows, and its mean variance.

    Each row is left out of what is common to all: the mean covariance of two rows is made 0.
    """
    w = np.ones(len(K)) if weights is None else weights
    P = np.eye(len(K)) - w / w.sum()
    C = P @ K @ P.T
    variance = float(np.average(np.diag(C), weights=w))
    return C + variance / max(len(K) - 1, 1), variance
