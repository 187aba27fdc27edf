"""The objective of stochastic covariance compression."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from histrs import _histrs
from histrs._typing import Array
from histrs.spd._stack import Stack, symmetric

# Smallest eigenvalue of a prototype, in the basis in which the mean is the identity.
_FLOOR = 1e-8


def whitened(root: Array, X: Stack) -> Stack:
    """Return ``root^-1 X root^-T`` of each matrix."""
    p = len(root)
    half = solve_triangular(root, X.transpose(1, 0, 2).reshape(p, -1), lower=True)
    half = half.reshape(p, len(X), p).transpose(2, 1, 0).reshape(p, -1)
    full = solve_triangular(root, half, lower=True)
    return symmetric(full.reshape(p, len(X), p).transpose(1, 0, 2))


def prototypes(B: Array) -> Array:
    """Return the matrices that `B` stands for, in the basis in which the mean is the identity."""
    return symmetric(B.transpose(0, 2, 1) @ B) + _FLOOR * np.eye(B.shape[-1])


def make_loss(
    X: Stack,
    labels: NDArray[np.int64],
    prototype_labels: NDArray[np.int64],
    gamma: float,
    n_threads: int,
    start: Array | None = None,
    prior_weight: float = 0.0,
    sample_weight: Array | None = None,
) -> Callable[[Array], tuple[float, Array]]:
    """Return ``B -> (L / n, its gradient)``; weights of samples are of mean 1."""

    def loss(B: Array) -> tuple[float, Array]:
        P = prototypes(B)
        value, sums, weights = _histrs.compression_loss(
            X, labels, P, prototype_labels, sample_weight, gamma, n_threads
        )
        if start is not None and prior_weight > 0.0:
            # As further matrices, each of which its own prototype alone is compared with.
            joint = P + start
            of_joint, *single = (np.linalg.slogdet(A)[1] for A in (0.5 * joint, P, start))
            divergences = of_joint - 0.5 * sum(single)
            value += prior_weight * gamma**2 * float(np.sum(divergences))
            sums = sums + prior_weight * np.linalg.inv(joint)
            weights = weights + prior_weight
        gradient = B @ (2.0 * sums - weights[:, None, None] * np.linalg.inv(P))
        return value / len(X), gradient * (gamma**2 / len(X))

    return loss
