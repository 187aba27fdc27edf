"""Greedy block coordinate descent for a kernel system."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from histrs._solvers.block_cg import Operator, Solution, largest_entries, solve_positive
from histrs._typing import Array

# Rows of a sub-problem, and those that it is chosen from, as in the comparison of Rodner et al.
_BLOCK = 10
_CANDIDATES = 20
# What is left of a diagonal entry that others explain is rounding below this part of it.
_NEGLIGIBLE = 1e-12

Rows = NDArray[np.intp]


def greedy_block(
    operator: Operator,
    B: Array,
    *,
    tol: Array,
    max_iter: int,
    columns: Callable[[Rows], Array],
    diagonal: Array,
    X0: Array | None = None,
    callback: Callable[[Array], None] | None = None,
) -> Solution:
    """Solve `A X = B` in blocks of rows that are chosen for what they gain.

    The method of Bo and Sminchisescu [1]_, column by column. `x^T A x / 2 - b^T x` is minimised
    over the entries of a few rows, for which their part of `A` is computed. The choice of the rows
    is a problem with a limited number of non-zeros. It is solved greedily: among the rows of
    largest gain, the row that decreases the objective most is added.

    `columns(rows)` is `A[:, rows]`. The rest is as for `block_cg`, with passes in place of
    iterations: as many blocks as there are rows.

    References
    ----------
    .. [1] L. Bo and C. Sminchisescu, "Greedy block coordinate descent for large scale Gaussian
       process regression", Uncertainty in Artificial Intelligence, 2008; arXiv 1206.3238, 2012.
    """
    X = np.zeros_like(B) if X0 is None else X0.copy()
    R = B - operator(X)
    residual = largest_entries(R)
    n_iter = np.zeros(B.shape[1], dtype=np.intp)
    n_blocks = -(-len(B) // _BLOCK)
    for _ in range(max_iter):
        unsolved = np.flatnonzero(residual > tol)
        if len(unsolved) == 0:
            break
        n_iter[unsolved] += 1
        for k in unsolved:
            _one_pass(X[:, k], R[:, k], float(tol[k]), n_blocks, columns, diagonal)
        # Updates add up rounding errors.
        R = B - operator(X)
        residual = largest_entries(R)
        if callback is not None:
            callback(residual)
    return Solution(X, residual, n_iter)


def _one_pass(
    x: Array, r: Array, tol: float, n_blocks: int, columns: Callable[[Rows], Array], diagonal: Array
) -> None:
    """Solve sub-problems until no entry of the residual `r` is above `tol`; changes `x` and `r`."""
    n_candidates = min(_CANDIDATES, len(x))
    for _ in range(n_blocks):
        if np.max(np.abs(r), initial=0.0) <= tol:
            break
        gain = r**2 / diagonal
        candidates = np.argpartition(-gain, n_candidates - 1)[:n_candidates]
        A = columns(candidates)
        chosen = _choose(A[candidates], r[candidates], _BLOCK)
        rows = candidates[chosen]
        step = solve_positive(A[np.ix_(rows, chosen)], r[rows])
        x[rows] += step
        r -= A[:, chosen] @ step


def _choose(A: Array, r: Array, size: int) -> Rows:
    """Return the rows of a small system that one after the other gain most."""
    A, r = A.copy(), r.copy()
    floor = _NEGLIGIBLE * np.diag(A)
    chosen: list[int] = []
    for _ in range(min(size, len(r))):
        left = np.diag(A)
        gain = np.where(left > floor, r**2 / np.where(left > floor, left, 1.0), -1.0)
        gain[chosen] = -1.0
        best = int(np.argmax(gain))
        if gain[best] <= 0.0:
            break
        chosen.append(best)
        # What the others gain once this one is at its best.
        share = A[:, best] / A[best, best]
        r -= share * r[best]
        A -= share[:, None] * A[best]
    return np.array(chosen, dtype=np.intp)
