"""One plan, and barycentres."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from histrs import _histrs
from histrs._numbers import numbers_checked
from histrs._scale import may_overflow
from histrs._validation import Matrix, count_threads, real_array, to_core
from histrs._warnings import warn
from histrs.transport._arguments import (
    check_ground_distance,
    check_max_iter,
    check_one,
    check_pair,
    refuse_impossible,
)
from histrs.transport._distances import warn_of_worst
from histrs.transport._emd import check_problem
from histrs.transport._relaxed import plan_of_potentials

Vector = NDArray[np.float64]

# Of M / reg: neither the kernel nor scalings as large as its inverse leave the range of doubles.
_LARGEST_EXPONENT = 320.0


@numbers_checked
def sinkhorn(
    a: ArrayLike,
    b: ArrayLike,
    *,
    M: ArrayLike,
    reg: float,
    tol: float = 1e-9,
    max_iter: int = 10_000,
    n_jobs: int | None = None,
) -> Vector:
    r"""Compute the entropy-regularised transport plan between two histograms.

    .. math::

        T = \operatorname*{argmin}_{T \ge 0,\; T 1 = a,\; T^\top 1 = b}
            \sum_{ij} T_{ij} M_{ij} + \mathrm{reg} \sum_{ij} T_{ij} \log T_{ij}

    Equation 3 of [1]_ with ``reg`` for :math:`1/\lambda`. `histrs.metrics.sinkhorn_distances`
    computes the costs of many plans at once, by the same iteration; where
    :math:`\exp(-M/\mathrm{reg})` would underflow, both work in the log domain.

    Parameters
    ----------
    a : array-like of shape (n_bins_a,)
        Histogram that is moved.
    b : array-like of shape (n_bins_b,)
        Histogram that it becomes; of the same sum.
    M : array-like of shape (n_bins_a, n_bins_b)
        Ground distance: non-negative, infinite where transport is forbidden.
    reg : float
        Weight of the entropy, in the units of `M`.
    tol : float, default=1e-9
        Largest L1 error of a marginal, as a part of the mass.
    max_iter : int, default=10000
        Most iterations.
    n_jobs : int, default=None
        Number of threads; None and -1 mean one a core.

    Returns
    -------
    plan : ndarray of float64 of shape (n_bins_a, n_bins_b)
        What moves from each bin of `a` to each bin of `b`; zero at bins without mass.

    Raises
    ------
    ValueError
        As `histrs.metrics.sinkhorn_distances`, where `a` and `b` are row 0 of `X` and `Y`; or if no
        plan is allowed.

    Warns
    -----
    ConvergenceWarning
        If the marginals are not within `tol` after `max_iter` iterations.

    References
    ----------
    .. [1] M. J. Kusner, N. I. Kolkin, S. Tyree and K. Q. Weinberger, "Image data compression for
       covariance and histogram descriptors", 2015.

    Examples
    --------
    >>> from histrs.transport import sinkhorn
    >>> sinkhorn([2, 0, 1], [1, 2, 0], M=[[0, 1, 2], [1, 0, 1], [2, 1, 0]], reg=0.05).round(3)
    array([[1., 1., 0.],
           [0., 0., 0.],
           [0., 1., 0.]])
    """
    a, b = check_one(a, b)
    X, Y = check_pair(a[None, :], b[None, :])
    assert Y is not None
    M = check_ground_distance(M, X.shape[1], Y.shape[1])
    check_max_iter(max_iter)
    values, errors, _, potentials = _histrs.sinkhorn_distances(
        to_core(X), to_core(Y), M, reg, tol, max_iter, True, True, count_threads(n_jobs)
    )
    refuse_impossible(float(values[0, 0]))
    warn_of_worst(errors, tol, max_iter)
    assert potentials is not None
    return plan_of_potentials(potentials, M, reg)


@numbers_checked
def sinkhorn_barycenter(
    X: ArrayLike | Matrix,
    *,
    M: ArrayLike,
    reg: float,
    weights: ArrayLike | None = None,
    tol: float = 1e-7,
    max_iter: int = 10_000,
    n_jobs: int | None = None,
) -> Vector:
    r"""Compute the histogram that is nearest to several, by regularised transport.

    .. math::

        \operatorname*{argmin}_b \sum_k w_k \min_{T \ge 0,\; T 1 = x_k,\; T^\top 1 = b}
            \sum_{ij} T_{ij} M_{ij} + \mathrm{reg} \sum_{ij} T_{ij} \log T_{ij}

    By iterative Bregman projections [1]_: :math:`u_k = x_k / K v_k`,
    :math:`b = \prod_k (K^\top u_k)^{w_k}`, :math:`v_k = b / K^\top u_k`. The entropy blurs the
    barycentre; of one histogram it is not the histogram itself.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples, n_bins_X)
        Histograms of one common positive sum; at least one.
    M : array-like of shape (n_bins_X, n_bins)
        Ground distance from the bins of `X` to those of the barycentre; finite, non-negative.
    reg : float
        Weight of the entropy, in the units of `M`; at least a 320th of its largest entry.
    weights : array-like of shape (n_samples,), default=None
        Non-negative weights, scaled to sum 1; None means equal ones.
    tol : float, default=1e-7
        Largest L1 error of a marginal, as a part of the mass.
    max_iter : int, default=10000
        Most iterations.
    n_jobs : int, default=None
        Number of threads of the checks; the products are BLAS's.

    Returns
    -------
    barycenter : ndarray of float64 of shape (n_bins,)
        Histogram of the same sum.

    Raises
    ------
    ValueError
        If a histogram, `M`, a weight or `reg` is not as above; the message names the place.

    Warns
    -----
    ConvergenceWarning
        If a marginal is not within `tol` after `max_iter` iterations.

    References
    ----------
    .. [1] J.-D. Benamou, G. Carlier, M. Cuturi, L. Nenna and G. Peyré, "Iterative Bregman
       projections for regularized transportation problems", SIAM Journal on Scientific
       Computing, 2015.

    Examples
    --------
    Half-way between two peaks:

    >>> import numpy as np
    >>> from histrs.transport import sinkhorn_barycenter
    >>> bins = np.arange(5.0)
    >>> M = (bins[:, None] - bins) ** 2
    >>> sinkhorn_barycenter([[1, 0, 0, 0, 0], [0, 0, 0, 0, 1]], M=M, reg=0.3).round(2)
    array([0.  , 0.03, 0.93, 0.03, 0.  ])
    """
    M = real_array(M, "M")
    n_bins = M.shape[1] if M.ndim == 2 else 0
    X, _ = check_pair(X, None)
    if X.shape[0] == 0:
        raise ValueError("X has no rows, and nothing has no barycentre.")
    # The barycentre's own bins, with the mass of the first row, so that M is checked as a whole.
    with may_overflow():
        mass = float(X[[0]].astype(np.float64).sum())
    if not np.isfinite(mass):
        raise ValueError("The sum of X[0] overflows: divide the histograms by a scale.")
    X, _, M = check_problem(X, np.full((1, n_bins), mass / max(n_bins, 1)), M, n_jobs)
    weights = _check_weights(weights, X.shape[0])
    if not (np.isfinite(reg) and reg > 0 and M.max() / reg <= _LARGEST_EXPONENT):
        raise ValueError(
            f"reg = {reg}: it underflows, or is not positive; give at least "
            f"{M.max() / _LARGEST_EXPONENT:.3g}, a 320th of the largest entry of M."
        )
    A = np.asarray(X.toarray() if sparse.issparse(X) else X, dtype=np.float64).T
    A = A / A.sum(axis=0)
    K = np.exp(-M / reg)
    v = np.ones((n_bins, A.shape[1]))
    error = np.inf
    for _ in range(max_iter):
        forward = K @ v
        u = A / forward
        backward = K.T @ u
        barycenter = np.exp(np.log(backward) @ weights)
        # The columns have the sum of the plan, the rows have theirs by construction.
        error = float(np.abs(v * backward - barycenter[:, None]).sum(axis=0).max())
        v = barycenter[:, None] / backward
        if error <= tol:
            break
    else:
        warn(
            f"the barycentre did not converge in {max_iter} iterations: a marginal is off by "
            f"{error:.2g} of the mass, and tol is {tol:.2g}; raise reg, max_iter or tol.",
            ConvergenceWarning,
        )
    result: Vector = mass * barycenter / barycenter.sum()
    return result


def _check_weights(weights: ArrayLike | None, n: int) -> Vector:
    if weights is None:
        return np.full(n, 1.0 / n)
    weights = real_array(weights, "weights")
    if weights.shape != (n,):
        raise ValueError(f"weights has shape {weights.shape}, expected ({n},): one for each row.")
    bad = np.flatnonzero(~((weights >= 0) & np.isfinite(weights)))
    if len(bad) > 0:
        raise ValueError(
            f"weights[{bad[0]}] = {weights[bad[0]]}: weights are finite and non-negative."
        )
    if weights.sum() == 0:
        raise ValueError("weights sum to 0; one of them at least is positive.")
    return np.asarray(weights / weights.sum())
