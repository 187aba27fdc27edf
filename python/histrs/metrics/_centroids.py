"""Centroids in the geometry of a metric."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from histrs._typing import Matrix
from histrs.spd._mean import jbld_mean
from histrs.transport._arguments import finite_costs
from histrs.transport._barycenters import sinkhorn_barycenter
from histrs.transport._ground import GridDistance

# `(X, *, n_jobs, **metric_params)` to a single row or matrix, kept as a stack of one.
Centroid = Callable[..., NDArray[Any]]

# Least regularisation of a barycentre, as a fraction of the largest cost.
_LEAST_REG = 1 / 100
# The centroid is only compared with.
_TOL = 1e-4


def jbld_centroid(X: NDArray[Any], *, n_jobs: int | None) -> NDArray[Any]:
    """Return the matrix of least total divergence."""
    return np.asarray(jbld_mean(X, tol=_TOL, max_iter=1000))[None]


def transport_centroid(
    X: Matrix,
    *,
    M: ArrayLike | GridDistance | None = None,
    reg: float | None = None,
    n_jobs: int | None,
    **_: Any,
) -> NDArray[Any]:
    """Return the regularised barycentre; its `reg` is at least a hundredth of the largest `M`."""
    M, largest = finite_costs(M, X.shape[1])
    least = _LEAST_REG * largest or 1.0
    reg = least if reg is None else max(reg, least)
    barycenter = sinkhorn_barycenter(X, M=M, reg=reg, tol=_TOL, n_jobs=n_jobs)
    return barycenter[None].astype(X.dtype)


def mean_centroid(X: Matrix, *, n_jobs: int | None, **_: Any) -> NDArray[Any]:
    """Return the arithmetic mean."""
    with np.errstate(over="ignore"):
        mean = X.mean(axis=0)
    if not np.isfinite(mean).all():
        # The sum overflows, the mean does not.
        mean = (X / X.shape[0]).sum(axis=0)
    return np.asarray(mean, dtype=X.dtype).reshape(1, -1)
