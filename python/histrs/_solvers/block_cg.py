"""Preconditioned block conjugate gradients."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

Array: TypeAlias = NDArray[np.float64]
Operator: TypeAlias = Callable[[Array], Array]

# Directions whose share of the block, squared, is below this are numerically dependent.
_RANK_TOLERANCE = 1e-14


@dataclass(frozen=True)
class Solution:
    """What an iterative solver returns, one column a right-hand side."""

    X: Array
    """The solution."""
    residual: Array
    """Largest entry of `|B - A X|` of each column."""
    n_iter: NDArray[np.intp]
    """Iterations until each column was within its tolerance."""


def block_cg(
    operator: Operator,
    B: Array,
    *,
    tol: Array,
    max_iter: int,
    preconditioner: Operator,
    X0: Array | None = None,
    callback: Callable[[Array], None] | None = None,
) -> Solution:
    """Solve `A X = B` for symmetric positive definite `A` and all columns of `B` at once.

    All columns share one Krylov space, so that together they need fewer products than each alone.
    The block of residuals is kept orthonormal in the inner product of the preconditioner
    (Dubrulle's variant of O'Leary's method), and directions that become dependent are dropped, so
    that equal or converged columns do no harm.

    Parameters
    ----------
    operator : callable
        `V -> A V` for `V` of shape (n, k), any k.
    B : ndarray of shape (n, n_columns)
        Right-hand sides.
    tol : ndarray of shape (n_columns,)
        A column is solved when no entry of its residual is larger.
    max_iter : int
        Most iterations, each with one product.
    preconditioner : callable
        `V -> M^-1 V` with `M` symmetric positive definite and near `A`.
    X0 : ndarray of shape (n, n_columns), default=None
        Where to start; None starts at 0.
    callback : callable, default=None
        Called with the residual of each column after every iteration.

    Returns
    -------
    Solution
        The iterate when every column is solved, or after `max_iter` iterations.

    References
    ----------
    .. [1] A. A. Dubrulle, "Retooling the method of block conjugate gradients", Electronic
       Transactions on Numerical Analysis 12, 2001.
    """
    X = np.zeros_like(B) if X0 is None else X0.copy()
    R = B.copy() if X0 is None else B - operator(X0)
    residual = largest_entries(R)
    n_iter = np.zeros(B.shape[1], dtype=np.intp)
    n_done = 0
    while n_done < max_iter and not np.all(residual <= tol):
        at_start = residual
        # Invariants: R = Q C with Q^T M^-1 Q = I; Z = M^-1 Q; S is the search direction.
        Q, Z, C = _orthonormalise(R, preconditioner(R))
        S = Z
        while Q.shape[1] > 0 and n_done < max_iter and not np.all(residual <= tol):
            n_done += 1
            n_iter[residual > tol] += 1
            AS = operator(S)
            step = solve_positive(S.T @ AS, np.eye(S.shape[1]))
            X += S @ (step @ C)
            Q_next = Q - AS @ step
            Q, Z, rotation = _orthonormalise(Q_next, preconditioner(Q_next))
            S = Z + S @ rotation.T
            C = rotation @ C
            residual = largest_entries(Q @ C)
            if callback is not None:
                callback(residual)
        # By rounding, and by dropped directions, the recurrence drifts away from the residual
        # that it stands for; where that matters, start again as long as it helps.
        R = B - operator(X)
        residual = largest_entries(R)
        if not np.any((residual > tol) & (residual <= 0.5 * at_start)):
            break
    return Solution(X, residual, n_iter)


def largest_entries(R: Array) -> Array:
    """Return the largest absolute entry of each column."""
    largest: Array = np.max(np.abs(R), axis=0, initial=0.0)
    return largest


def _orthonormalise(R: Array, Z: Array) -> tuple[Array, Array, Array]:
    """Write `R = Q C` with `Q^T M^-1 Q = I`, given `Z = M^-1 R`; dependent directions go."""
    G = R.T @ Z
    scale = np.sqrt(np.maximum(np.diag(G), 0.0))
    inverse_scale = np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0)
    G = (G + G.T) * (0.5 * inverse_scale[:, None] * inverse_scale)
    eigenvalues, U = linalg.eigh(G)
    keep = eigenvalues > _RANK_TOLERANCE * max(eigenvalues[-1], 0.0)
    root = np.sqrt(eigenvalues[keep])
    W = inverse_scale[:, None] * (U[:, keep] / root)
    return R @ W, Z @ W, (root[:, None] * U[:, keep].T) * scale


def solve_positive(A: Array, B: Array) -> Array:
    """Return `A^-1 B` for a small matrix that is positive definite but for rounding."""
    A = 0.5 * (A + A.T)
    try:
        solution: Array = linalg.cho_solve(linalg.cho_factor(A), B)
    except linalg.LinAlgError:
        solution = linalg.pinvh(A) @ B
    return solution
