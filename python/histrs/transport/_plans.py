"""One plan."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from histrs import _histrs
from histrs._checks.numbers import numbers_checked
from histrs._checks.validation import count_threads, to_core
from histrs._typing import Array
from histrs.transport._arguments import (
    check_costs,
    check_max_iter,
    check_one,
    check_pair,
    refuse_impossible,
)
from histrs.transport._distances import warn_of_worst
from histrs.transport._ground import GridDistance
from histrs.transport._relaxed import plan_of_potentials

Vector = Array


@numbers_checked
def sinkhorn(
    a: ArrayLike,
    b: ArrayLike,
    *,
    M: ArrayLike | GridDistance,
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
        Histogram of the same sum, to which the mass is moved.
    M : array-like of shape (n_bins_a, n_bins_b) or GridDistance
        Cost matrix: non-negative, infinite where transport is forbidden.
    reg : float
        Weight of the entropy, in the units of `M`.
    tol : float, default=1e-9
        Largest L1 error of a marginal, as a fraction of the mass.
    max_iter : int, default=10000
        Largest number of iterations.
    n_jobs : int, default=None
        Number of threads; None and -1 mean one per core.

    Returns
    -------
    plan : ndarray of float64 of shape (n_bins_a, n_bins_b)
        Mass moved from each bin of `a` to each bin of `b`; zero at bins without mass.

    Raises
    ------
    ValueError
        For the same inputs as `histrs.metrics.sinkhorn_distances`, whose messages call `a` and `b`
        row 0 of `X` and `Y`. Also if no plan is allowed.

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
    costs = check_costs(M, X.shape[1], Y.shape[1])
    check_max_iter(max_iter)
    values, errors, _, potentials = _histrs.sinkhorn_distances(
        to_core(X), to_core(Y), costs, reg, tol, max_iter, True, True, count_threads(n_jobs)
    )
    refuse_impossible(float(values[0, 0]))
    warn_of_worst(errors, tol, max_iter)
    assert potentials is not None
    matrix = np.asarray(M if isinstance(costs, list) else costs, dtype=np.float64)
    return plan_of_potentials(potentials, matrix, reg)
