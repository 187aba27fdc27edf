"""Bounds below distances, so that a search need not compute all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.distance import cdist

from histrs._typing import Matrix
from histrs.spd._distances import jbld_distances
from histrs.transport._arguments import check_ground_distance, without_infinity
from histrs.transport._bounds import relaxed_bounds
from histrs.transport._positions import relaxed_bounds_by_supports

Float64 = NDArray[np.float64]
# `(X, Y, *, n_jobs, **metric_params)` to bounds of shape (n_X, n_Y), or None where none holds.
Bounds = Callable[..., Float64 | None]

# Bins above which it is not checked whether the cost matrix is a metric.
_MOST_BINS = 1000


def airm_bounds(X: NDArray[Any], Y: NDArray[Any], *, n_jobs: int | None) -> Float64:
    r"""Bound the affine-invariant distance by the divergence, at a tenth of its cost.

    With :math:`s_k = \log^2 \lambda_k(X^{-1} Y)` the divergence is
    :math:`\sum_k \log\cosh(\sqrt{s_k}/2)`, which is concave in :math:`s`; so by Jensen's
    inequality :math:`D_R \ge 2 \sqrt p \operatorname{arccosh} \exp(D_J/p)`. To first order it is
    the bound :math:`\sqrt{8 D_J}` of S. Sra, "Positive definite matrices and the S-divergence",
    2016, and it is never below that.
    """
    X, Y = X.astype(np.float64, copy=False), Y.astype(np.float64, copy=False)
    p = X.shape[1]
    divergences = jbld_distances(X, Y, n_jobs=n_jobs)
    rounding = _rounding(X, Y)
    excess = np.expm1(np.maximum(divergences - p * rounding, 0.0) / p)
    bounds = 2.0 * np.sqrt(p) * np.log1p(excess + np.sqrt(excess * (excess + 2.0)))
    return np.asarray(bounds - rounding)


def _rounding(X: Float64, Y: Float64) -> Float64:
    """Return what rounding may change in the logarithm of an eigenvalue of ``X^-1 Y``."""
    p = X.shape[1]
    # The unit of a row changes nothing.
    units = np.sqrt(np.diagonal(np.concatenate([X, Y]), axis1=1, axis2=2).mean(axis=0))
    values = [np.linalg.eigvalsh(Z / np.outer(units, units)) for Z in (X, Y)]
    left, right = (v[:, -1] / np.maximum(v[:, 0], 1e-16 * v[:, -1]) for v in values)
    return np.asarray(4 * p * np.finfo(np.float64).eps * np.maximum(left[:, None], right))


def emd_bounds(
    X: Matrix,
    Y: Matrix,
    *,
    M: ArrayLike | None = None,
    positions: ArrayLike | None = None,
    n_jobs: int | None,
) -> Float64:
    """Bound the earth mover's distance by transport to landmarks and by relaxed transport."""
    if positions is not None:
        # What is subtracted is above the rounding of a distance of unit mass.
        bounds = relaxed_bounds_by_supports(X, Y, positions)
        return bounds - 1e-9 * float(np.ptp(positions, axis=0).sum())
    assert M is not None
    M = without_infinity(check_ground_distance(M, X.shape[1], Y.shape[1]))
    bounds = relaxed_bounds(X, Y, M=M, n_jobs=n_jobs)
    if is_metric(M):
        # The cost of moving all mass to a bin is a distance to a landmark.
        to_bins = np.asarray(X @ M), np.asarray(Y @ M)
        np.maximum(bounds, cdist(*to_bins, "chebyshev"), out=bounds)
    # Both bounds and the distance are rounded.
    return bounds - 1e-9 * float(M.max(initial=0.0)) * _mass(X)


def sinkhorn_bounds(
    X: Matrix,
    Y: Matrix,
    *,
    M: ArrayLike | None = None,
    positions: ArrayLike | None = None,
    reg: float,
    tol: float = 1e-6,
    max_iter: int = 1000,
    cost: str = "transport",
    n_jobs: int | None,
) -> Float64 | None:
    """Bound the cost of a plan by that of the best plan between its marginals.

    Its marginals are off by `tol`, and what is missing moves by the largest cost at
    most. The regularised cost has no such bound.
    """
    if M is None or positions is not None or cost != "transport":
        return None
    M = without_infinity(check_ground_distance(M, X.shape[1], Y.shape[1]))
    bounds = emd_bounds(X, Y, M=M, n_jobs=n_jobs)
    return bounds - tol * float(M.max(initial=0.0)) * _mass(X)


def is_metric(M: Float64) -> bool:
    """Whether a cost matrix is symmetric and obeys the triangle inequality."""
    if len(M) > _MOST_BINS or not np.array_equal(M, M.T):
        return False
    return all(bool(np.all(row <= (row[:, None] + M).min(axis=0) * (1 + 1e-12))) for row in M)


def _mass(X: Matrix) -> float:
    return float(X[[0]].sum())
