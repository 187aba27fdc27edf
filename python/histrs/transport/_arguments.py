"""Histograms and cost matrices as the functions on transport take them."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from histrs._checks.rows import Checked
from histrs._checks.validation import HISTOGRAM_CHECKS, canonical, check_array, real_array
from histrs._frames import in_order_of
from histrs._typing import Array, Matrix
from histrs.transport._ground import GridDistance

# A matrix, or one for each axis of a grid, whose sum it is.
Costs: TypeAlias = Array | list[Array]

# Part of the largest cost below which a negative one is zero.
_ROUNDING = 1e-12


def check_pair(X: ArrayLike | Matrix, Y: ArrayLike | Matrix | None) -> tuple[Matrix, Matrix | None]:
    """Return both in one element type and one format, or `X` alone."""
    if Y is not None:
        Y = in_order_of(X, Y)
    X = _check(X, "X")
    if Y is None:
        return X, None
    Y = _check(Y, "Y")
    if sparse.issparse(X) != sparse.issparse(Y):
        X, Y = sparse.csr_array(X), sparse.csr_array(Y)
    dtype = np.result_type(X.dtype, Y.dtype)
    return X.astype(dtype, copy=False), Y.astype(dtype, copy=False)


def _check(X: ArrayLike | Matrix | Checked, name: str) -> Matrix:
    if isinstance(X, Checked):
        return X.rows
    checks = {**HISTOGRAM_CHECKS, "ensure_min_samples": 0}
    return canonical(check_array(X, input_name=name, **checks))


def check_ground_distance(M: ArrayLike, n_rows: int, n_columns: int) -> Array:
    """Return the cost matrix in double precision; the core looks at its entries."""
    M = np.asarray(M) if isinstance(M, GridDistance) else M
    M = check_array(M, dtype=np.float64, ensure_all_finite=False, input_name="M")
    if M.shape != (n_rows, n_columns):
        raise ValueError(
            f"M has shape {M.shape}, expected {(n_rows, n_columns)}: a row for each column of X, "
            "and a column for each column of Y."
        )
    # What is below zero by rounding, as 1 - cosine is.
    if M.min(initial=0.0) < 0:
        largest = np.max(M, where=np.isfinite(M), initial=0.0)
        M = np.where((M < 0) & (-_ROUNDING * largest <= M), 0.0, M)
    checked: Array = M
    return checked


def check_costs(M: ArrayLike | GridDistance, n_rows: int, n_columns: int) -> Costs:
    """Return the cost matrix for functions that multiply axis by axis."""
    if not isinstance(M, GridDistance):
        return check_ground_distance(M, n_rows, n_columns)
    if M.shape != (n_rows, n_columns):
        raise ValueError(
            f"M is of a grid of {M.shape[0]} cells, expected {n_rows}: one for each column of X "
            "and Y."
        )
    return M.axes


def finite_costs(
    M: ArrayLike | GridDistance | None, n_bins: int
) -> tuple[Array | GridDistance, float]:
    """Return costs between the same bins as barycentres take them, and the largest."""
    if M is None:
        raise ValueError("a mean of histograms needs M: give the costs between all bins.")
    if isinstance(M, GridDistance):
        costs = check_costs(M, n_bins, n_bins)
        return M, float(sum(axis.max(initial=0.0) for axis in costs))
    finite = without_infinity(check_ground_distance(M, n_bins, n_bins))
    return finite, float(finite.max(initial=0.0))


def check_one(a: ArrayLike, b: ArrayLike) -> tuple[Array, Array]:
    """Return one histogram on each side."""
    a, b = real_array(a, "a"), real_array(b, "b")
    if a.ndim != 1 or b.ndim != 1:
        raise ValueError("a and b must be one-dimensional: sinkhorn_distances takes many rows.")
    return a, b


def check_entries(M: NDArray[Any]) -> None:
    """Raise at the first entry that no cost matrix has, for functions that stay in Python."""
    bad = np.argwhere(~(M >= 0))
    if len(bad) > 0:
        row, column = bad[0]
        raise ValueError(
            f"M[{row}, {column}] = {M[row, column]}: costs must not be negative, and are "
            "infinite where transport is forbidden; replace the entry."
        )


def without_infinity(M: Array, times: float = 1.0) -> Array:
    """Return a cost matrix with its largest finite entry, so many times, for infinite ones.

    Once, no distance is larger with it: what is below these distances is below those with `M`. As
    often as there are bins, a plan that `M` allows costs less than any that it forbids.
    """
    finite = np.isfinite(M)
    largest = M[finite].max(initial=0.0) or 1.0
    return M if finite.all() else np.where(finite, M, times * largest)


def refuse_impossible(cost: float) -> None:
    """Raise where no plan is left, whose cost is infinite."""
    if cost == np.inf:
        raise ValueError(
            "no plan between a and b is allowed: some mass can only go where M is infinite; make "
            "these entries finite, or let mass vanish (unbalanced_sinkhorn, partial_sinkhorn)."
        )


def check_max_iter(max_iter: int) -> int:
    """Return a number of iterations, and refuse none."""
    if max_iter < 1:
        raise ValueError(f"max_iter = {max_iter}: must be at least 1.")
    return max_iter
