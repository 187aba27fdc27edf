"""The debiased Sinkhorn divergence of all pairs."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from histrs._checks.numbers import numbers_checked
from histrs._checks.scale import may_overflow
from histrs._typing import Array, Matrix
from histrs.transport._arguments import check_costs, check_pair
from histrs.transport._distances import sinkhorn_distances
from histrs.transport._ground import GridDistance
from histrs.transport._pairs import sinkhorn_of_pairs

# Distances that are computed are symmetric up to this part of the largest.
_ROUNDING = 1e-12


@numbers_checked
def sinkhorn_divergences(
    X: ArrayLike | Matrix,
    Y: ArrayLike | Matrix | None = None,
    *,
    M: ArrayLike | GridDistance,
    reg: float,
    tol: float = 1e-9,
    max_iter: int = 1000,
    n_jobs: int | None = None,
) -> NDArray[Any]:
    r"""Compute the debiased Sinkhorn divergence between rows.

    .. math:: S(a, b) = \mathrm{OT}(a, b) - \tfrac12 \mathrm{OT}(a, a) - \tfrac12 \mathrm{OT}(b, b)

    of [1]_ and [2]_, where :math:`\mathrm{OT}` is the minimum of
    :func:`~histrs.metrics.sinkhorn_distances` with its entropy term. It is zero between a histogram
    and itself; where :math:`\exp(-M / \mathrm{reg})` is positive definite, as for distances of
    points and their squares, it is positive between others [2]_. It tends to the exact distance
    with ``reg``, and to a kernel distance as ``reg`` grows.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples_X, n_bins)
        Histograms: non-negative, finite, of one common positive sum.
    Y : {array-like, sparse matrix} of shape (n_samples_Y, n_bins), default=None
        Other histograms over the same bins, of the same sum. None means `X`.
    M : array-like of shape (n_bins, n_bins) or GridDistance
        Symmetric cost matrix, or costs that are multiplied with axis by axis.
    reg : float
        Weight of the entropy, in the units of `M`.
    tol : float, default=1e-9
        Largest L1 error of a marginal, as a fraction of the mass.
    max_iter : int, default=1000
        Largest number of iterations for a pair.
    n_jobs : int, default=None
        Number of threads; None and -1 mean one per core.

    Returns
    -------
    S : ndarray of shape (n_samples_X, n_samples_Y)
        Divergences; float32 when both arguments are, else float64. Computed in double precision,
        for they are differences.

    Raises
    ------
    ValueError
        As :func:`~histrs.metrics.sinkhorn_distances`, or if `M` is not symmetric, or a distance
        overflows.

    Warns
    -----
    ConvergenceWarning
        If a pair has not come below `tol` after `max_iter` iterations; it names the worst one.

    References
    ----------
    .. [1] A. Genevay, G. Peyre and M. Cuturi, "Learning generative models with Sinkhorn
       divergences", AISTATS 2018.
    .. [2] J. Feydy, T. Sejourne, F.-X. Vialard, S. Amari, A. Trouve and G. Peyre, "Interpolating
       between optimal transport and MMD using Sinkhorn divergences", AISTATS 2019.

    Examples
    --------
    >>> from histrs.transport import grid_ground_distance, sinkhorn_divergences
    >>> X = [[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]]
    >>> sinkhorn_divergences(X, M=grid_ground_distance(3), reg=0.1).round(2) + 0.0
    array([[0.  , 0.47, 2.  ],
           [0.47, 0.  , 1.47],
           [2.  , 1.47, 0.  ]])
    """
    X, Y = check_pair(X, Y)
    dtype = X.dtype
    X = X.astype(np.float64)
    Y = None if Y is None else Y.astype(np.float64)
    costs = check_costs(M, X.shape[1], (X if Y is None else Y).shape[1])
    if not isinstance(costs, list):
        M = costs
        _check_symmetric(costs)
    options: dict[str, Any] = {
        "M": M,
        "reg": reg,
        "tol": tol,
        "max_iter": max_iter,
        "cost": "regularized",
        "n_jobs": n_jobs,
    }
    D = sinkhorn_distances(X, Y, **options)
    if Y is None:
        own = other = np.diagonal(D).copy()
    else:
        own, other = (
            sinkhorn_of_pairs(Z, Z, np.arange(Z.shape[0]), np.arange(Z.shape[0]), **options)
            for Z in (X, Y)
        )
    for name, distances in (("X", own), ("X" if Y is None else "Y", other)):
        bad = np.flatnonzero(~np.isfinite(distances))
        if len(bad) > 0:
            raise ValueError(
                f"The distance of {name}[{bad[0]}] to itself overflows: scale the histograms or M "
                "and reg down."
            )
    divergences: NDArray[Any] = D - (0.5 * own[:, None] + 0.5 * other)
    return divergences.astype(dtype, copy=False)


def _check_symmetric(M: Array) -> None:
    unlike = np.zeros((1, 2), dtype=int)
    if M.shape[0] == M.shape[1]:
        # Infinite both ways is the same, and of NaN the distances tell.
        with may_overflow():
            apart = np.abs(M - M.T)
        largest = np.max(M, where=np.isfinite(M), initial=0.0)
        unlike = np.argwhere(apart > _ROUNDING * largest)
    if len(unlike) > 0:
        i, j = unlike[0]
        raise ValueError(
            f"M is not symmetric, at M[{i}, {j}]: a divergence needs the same cost in both "
            "directions; pass (M + M.T) / 2."
        )
