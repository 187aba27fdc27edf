"""Preconditioned block conjugate gradients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from histrs._typing import Array

Operator: TypeAlias = Callable[[Array], Array]

_EPS = float(np.finfo(np.float64).eps)
# A direction shorter than this part of the longest, columns being of length 1, is rounding.
_RANK_TOLERANCE = 1e-14
# The same for eigenvalues, which are squares of lengths or as small as products round.
_EIGENVALUE_TOLERANCE = 1e-14
# A symmetric matrix of unit diagonal whose Cholesky factor stays above this is far from singular.
_SAFE_PIVOT = 1e-3
# An operator that curves more than this part of its curvature downwards is not positive definite.
_INDEFINITE = 1e-8
# Iterations without progress after which to start again, and what counts as progress: part of the
# smallest residual, and of what a column's energy has fallen by.
_PATIENCE = 50
_LESS_RESIDUAL = 1e-2
_LESS_ENERGY = 1e-8


@dataclass(frozen=True)
class Solution:
    """What an iterative solver returns, one column per right-hand side."""

    X: Array
    """The solution."""
    residual: Array
    """Largest entry of `|B - A X|` of each column."""
    n_iter: NDArray[np.intp]
    """Iterations until each column was within its tolerance."""
    stagnated: bool = False
    """Whether it gave up on a column before `max_iter`, as more iterations would not have helped:
    the tolerance is below rounding, or the operator is not positive definite."""


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
    The block of residuals is kept orthonormal in the inner product of the preconditioner, near
    `A^-1` (Dubrulle's variant of O'Leary's method [1]_). Directions that become dependent are
    dropped [2]_, so equal or converged columns do no harm.

    In exact arithmetic several inner products are known beforehand. They are computed all the
    same, so that every step is a projection and lowers the energy `x^T A x / 2 - b^T x` however
    much conjugacy rounding has cost. Where nothing falls any more, or the operator turns out not
    to be positive definite, the method starts again from the residual itself, as long as that
    helps.

    A column is solved when no entry of its residual is above its `tol`. An iteration takes one
    product, and ends with `callback(residuals)`. The result is the iterate when every column is
    solved, when iterations no longer help (`stagnated`), or after `max_iter`. A column never has
    both a larger residual and more energy than at the start, `X0`.

    References
    ----------
    .. [1] A. A. Dubrulle, "Retooling the method of block conjugate gradients", Electronic
       Transactions on Numerical Analysis 12, 2001.
    .. [2] H. Ji and Y. Li, "A breakdown-free block conjugate gradient method", BIT Numerical
       Mathematics 57, 2017.
    """
    X = np.zeros_like(B) if X0 is None else X0.copy()
    R = B.copy() if X0 is None else B - operator(X)
    residual = largest_entries(R)
    n_iter = np.zeros(B.shape[1], dtype=np.intp)
    n_done = 0
    stagnated = False
    while not stagnated and n_done < max_iter and np.any(residual > tol):
        start, R_start, at_start = X, R, residual
        X, n_done = _descend(
            operator, X, R, tol, n_done, max_iter, preconditioner, n_iter, callback
        )
        # By rounding, and by dropped directions, the recurrence drifts away from the residual
        # that it stands for.
        R = B - operator(X)
        residual = largest_entries(R)
        worse = ~((residual <= at_start) | _is_lower(X, R, start, R_start, B))
        X[:, worse], R[:, worse] = start[:, worse], R_start[:, worse]
        residual = np.where(worse, at_start, residual)
        unsolved = residual > tol
        stagnated = bool(np.any(unsolved)) and not np.any(unsolved & (residual <= 0.5 * at_start))
    return Solution(X, residual, n_iter, stagnated and n_done < max_iter)


def _is_lower(X: Array, R: Array, start: Array, R_start: Array, B: Array) -> NDArray[np.bool_]:
    """Say of which columns the energy at `X`, with residual `R`, is below that at the start."""
    # The energy is -x^T (b + r) / 2, here in a unit of the column's, so that it does not overflow.
    x = np.maximum(largest_entries(X), largest_entries(start))
    b = np.maximum(largest_entries(B), np.maximum(largest_entries(R), largest_entries(R_start)))
    x, b = (np.where(unit > 0.0, unit, 1.0) for unit in (x, b))
    # Where a product overflowed there is nothing to compare.
    with np.errstate(invalid="ignore"):
        fall = np.sum((X / x) * (B / b + R / b) - (start / x) * (B / b + R_start / b), axis=0)
    return np.asarray(fall > 0.0)


def _descend(
    operator: Operator,
    X: Array,
    R: Array,
    tol: Array,
    n_done: int,
    max_iter: int,
    preconditioner: Operator,
    n_iter: NDArray[np.intp],
    callback: Callable[[Array], None] | None,
) -> tuple[Array, int]:
    """Iterate from `X` with residual `R` until solved or stuck; counts in `n_iter`."""
    X = X.copy()
    residual = least = most = largest_entries(R)
    unit = np.where(residual > 0.0, residual, 1.0)
    energy = np.zeros_like(residual)
    last_progress = n_done
    # Invariants: R = Q C with Q^T M^-1 Q = I; Z = M^-1 Q; S is the search direction.
    Q, Z, C = _orthonormalise(R, preconditioner)
    S = Z
    # Below the rounding of the largest residual the recurrence stands for nothing.
    while Q.shape[1] > 0 and n_done < max_iter and np.any(residual > np.maximum(tol, _EPS * most)):
        n_done += 1
        n_iter[residual > tol] += 1
        AS = operator(S)
        with np.errstate(over="ignore", invalid="ignore"):
            curvature = S.T @ AS
        if not np.all(np.isfinite(curvature)):
            break
        inverse, definite = _inverse(curvature)
        gradient = S.T @ Q
        step = inverse @ gradient
        X += S @ (step @ C)
        gain = np.sum((gradient @ (C / unit)) * (step @ (C / unit)), axis=0)
        Q, Z, rotation = _orthonormalise(Q - AS @ step, preconditioner)
        # Conjugate to the directions before: by theory S @ rotation.T is added, but for rounding.
        S = Z - S @ (inverse @ (AS.T @ Z))
        C = rotation @ C
        residual = largest_entries(Q @ C)
        if callback is not None:
            callback(residual)
        energy += gain
        progress = (residual < (1.0 - _LESS_RESIDUAL) * least) | (gain > _LESS_ENERGY * energy)
        if np.any(progress & (residual > tol)):
            last_progress = n_done
        least, most = np.minimum(least, residual), np.maximum(most, residual)
        if not definite or n_done - last_progress >= _PATIENCE:
            break
    return X, n_done


def largest_entries(R: Array) -> Array:
    """Return the largest absolute entry of each column."""
    largest: Array = np.max(np.abs(R), axis=0, initial=0.0)
    return largest


def _orthonormalise(R: Array, preconditioner: Operator) -> tuple[Array, Array, Array]:
    """Write `R = Q C` with `Q^T M^-1 Q = I`; return `Q`, `M^-1 Q` and `C`.

    Dependent directions go. The columns are made orthonormal before the preconditioner sees them:
    what it rounds is then relative to each direction, however little of the block that is.
    """
    U, C = _independent(R)
    rank = len(C)
    Z = preconditioner(U)
    with np.errstate(over="ignore", invalid="ignore"):
        G = U.T @ Z
    if rank == 0 or not np.all(np.isfinite(G)):
        return R[:, :0], Z[:, :0], C[:0]
    eigenvalues, V = linalg.eigh(0.5 * (G + G.T))
    keep = eigenvalues > _EIGENVALUE_TOLERANCE * max(eigenvalues[-1], 0.0)
    root = np.sqrt(eigenvalues[keep])
    W = V[:, keep] / root
    return U @ W, Z @ W, (root[:, None] * V[:, keep].T) @ C


def _independent(R: Array) -> tuple[Array, Array]:
    """Write `R = U C` with columns of `U` that are far from dependent."""
    scale = largest_entries(R)
    scale[scale == 0.0] = 1.0
    U = R / scale
    lengths = np.sqrt(np.einsum("ij,ij->j", U, U))
    scale *= lengths
    lengths[lengths == 0.0] = 1.0
    U /= lengths
    L, failed = linalg.lapack.dpotrf(U.T @ U, lower=1)
    if not failed and np.all(np.diag(L) > _SAFE_PIVOT):
        return U, np.diag(scale)
    U, T = linalg.qr(U, mode="economic", overwrite_a=True, check_finite=False)
    turn, T, order = linalg.qr(T, mode="economic", pivoting=True, check_finite=False)
    pivots = np.abs(np.diag(T))
    rank = int(np.sum(pivots > _RANK_TOLERANCE * pivots[:1]))
    C = np.empty((rank, R.shape[1]))
    C[:, order] = T[:rank]
    return U @ turn[:, :rank], C * scale


def solve_positive(A: Array, B: Array) -> Array:
    """Return `A^-1 B` for a small matrix that is positive definite but for rounding."""
    return _inverse(A)[0] @ B


def _inverse(A: Array) -> tuple[Array, bool]:
    """Return the inverse of a small matrix that is positive definite but for rounding.

    It is that on the directions in which the matrix is positive beyond rounding, and 0 on others.
    Also returns whether there is none in which it is negative.
    """
    if len(A) == 0:
        return A, True
    diagonal = np.diag(A)
    size = np.sqrt(np.maximum(diagonal, 0.0))
    scale = np.divide(1.0, size, out=np.zeros_like(size), where=size > 0.0)
    scaled = 0.5 * (A + A.T) * scale * scale[:, None]
    L, failed = linalg.lapack.dpotrf(scaled, lower=1)
    if not failed and np.all(np.diag(L) > _SAFE_PIVOT):
        root = linalg.lapack.dtrtri(L, lower=1)[0]
        return root.T @ root * scale * scale[:, None], True
    eigenvalues, V = linalg.eigh(scaled)
    least = -_INDEFINITE * max(eigenvalues[-1], 0.0)
    definite = eigenvalues[0] >= least and np.min(diagonal) >= least * np.max(diagonal)
    kept = eigenvalues > _EIGENVALUE_TOLERANCE * max(eigenvalues[-1], 0.0)
    V = V[:, kept] * scale[:, None]
    return V / eigenvalues[kept] @ V.T, bool(definite)
