"""Conjugate gradients on a cheap stand-in for the operator, corrected with the operator itself."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from histrs._solvers.block_cg import Operator, Solution, block_cg, largest_entries, solve_positive
from histrs._typing import Array

# What the inner solver is first asked to reduce the residual to, and at most.
_FIRST_REDUCTION = 1e-4
_BEST_REDUCTION = 1e-5
# A correction that leaves more than this of the residual was not worth its inner iterations.
_WORST_REDUCTION = 0.3


def nested_cg(
    operator: Operator,
    cheap_operator: Operator,
    B: Array,
    *,
    tol: Array,
    max_iter: int,
    preconditioner: Operator,
    cheap_preconditioner: Operator,
    X0: Array | None = None,
    callback: Callable[[Array], None] | None = None,
) -> Solution:
    """Solve `A X = B` with few products with `A`.

    A cheaper operator near `A`, for instance in single precision, solves for the residual. The
    solution `Z` is added as a correction, scaled by the Galerkin condition `Z^T (B - A X) = 0` so
    that it never does harm. Then this is repeated. How far the cheap system is solved follows how
    well the last correction did. When corrections stop paying, the exact operator takes over, so
    that the result is as good as that of `block_cg` whatever the cheap operator is. The rest is as
    there; iterations are the inner ones, each with one product with the cheap operator.
    """
    X = np.zeros_like(B) if X0 is None else X0.copy()
    R = B.copy() if X0 is None else B - operator(X0)
    residual = largest_entries(R)
    n_iter = np.zeros(B.shape[1], dtype=np.intp)
    n_done = 0
    reduction = _FIRST_REDUCTION
    while n_done < max_iter and not np.all(residual <= tol):
        inner = block_cg(
            cheap_operator,
            R,
            # Half of the tolerance leaves room for what the operators differ by.
            tol=np.maximum(reduction * residual, 0.5 * tol),
            max_iter=max_iter - n_done,
            preconditioner=cheap_preconditioner,
            callback=callback,
        )
        unit = np.where(residual > 0.0, residual, 1.0)
        n_iter += inner.n_iter
        n_done += max(int(inner.n_iter.max()), 1)
        # Columns of one scale, so that small corrections count in the small system.
        size = largest_entries(inner.X)
        usable = np.isfinite(size) & (size > 0.0)
        Z = inner.X[:, usable] / size[usable]
        AZ = operator(Z)
        step = solve_positive(Z.T @ AZ, Z.T @ (R / unit)) * unit
        X += Z @ step
        R -= AZ @ step
        before, residual = residual, largest_entries(R)
        achieved = float(np.max(residual[before > tol] / before[before > tol]))
        if achieved > _WORST_REDUCTION:
            break
        # Twice what was asked for means that the limit is the operator, not the solver.
        reduction = max(reduction * 0.1 if achieved < 2 * reduction else achieved, _BEST_REDUCTION)
    exact = block_cg(
        operator,
        B,
        tol=tol,
        max_iter=max_iter - n_done,
        preconditioner=preconditioner,
        X0=X,
        callback=callback,
    )
    return Solution(exact.X, exact.residual, n_iter + exact.n_iter, exact.stagnated)
