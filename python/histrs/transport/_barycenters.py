"""Barycentres under regularised transport."""

from __future__ import annotations

from typing import Literal, overload

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning

from histrs import _histrs
from histrs._checks.numbers import numbers_checked
from histrs._checks.scale import may_overflow
from histrs._checks.validation import count_threads, real_array, to_core
from histrs._typing import Array, Matrix
from histrs._warnings import warn
from histrs.transport._arguments import check_costs, check_max_iter, check_pair
from histrs.transport._distances import SinkhornInfo
from histrs.transport._ground import GridDistance

Rows = Array

# Default tolerances. Where entropy has blurred histograms, to sharpen them again is an ill-posed
# problem, in which the last digits take very long and mean little.
_TOL, _DEBIASED_TOL = 1e-7, 1e-4


@overload
def sinkhorn_barycenter(
    X: ArrayLike | Matrix,
    *,
    M: ArrayLike | GridDistance,
    reg: float,
    weights: ArrayLike | None = None,
    debiased: bool = False,
    tol: float | None = None,
    max_iter: int = 10_000,
    return_info: Literal[False] = False,
    n_jobs: int | None = None,
) -> Rows: ...


@overload
def sinkhorn_barycenter(
    X: ArrayLike | Matrix,
    *,
    M: ArrayLike | GridDistance,
    reg: float,
    weights: ArrayLike | None = None,
    debiased: bool = False,
    tol: float | None = None,
    max_iter: int = 10_000,
    return_info: Literal[True],
    n_jobs: int | None = None,
) -> tuple[Rows, SinkhornInfo]: ...


@numbers_checked
def sinkhorn_barycenter(
    X: ArrayLike | Matrix,
    *,
    M: ArrayLike | GridDistance,
    reg: float,
    weights: ArrayLike | None = None,
    debiased: bool = False,
    tol: float | None = None,
    max_iter: int = 10_000,
    return_info: bool = False,
    n_jobs: int | None = None,
) -> Rows | tuple[Rows, SinkhornInfo]:
    r"""Compute the histogram that is nearest to several, by regularised transport.

    .. math::

        \operatorname*{argmin}_b \sum_k w_k \mathrm{OT}(x_k, b), \qquad
        \mathrm{OT}(a, b) = \min_{T \ge 0,\; T 1 = a,\; T^\top 1 = b}
            \sum_{ij} T_{ij} M_{ij} + \mathrm{reg} \sum_{ij} T_{ij} \log T_{ij}

    By iterative Bregman projections [1]_: with :math:`K = \exp(-M / \mathrm{reg})` and
    :math:`c = 1`, an iteration computes :math:`u_k = x_k / K v_k`, then
    :math:`b = c \prod_k (K^\top u_k)^{w_k}`, then :math:`v_k = b / K^\top u_k`. The entropy blurs
    the barycentre: a single histogram is not its own barycentre.

    The debiased barycentre minimises :func:`~histrs.transport.sinkhorn_divergences`, and a single
    histogram is its own. For it, an iteration also updates `c`: it takes
    :math:`c \leftarrow \sqrt{c b / K c}` three times (algorithm 1 of [2]_).

    Computations are in logarithms. A `reg` below a twentieth of the largest entry of `M` is
    approached through larger ones.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples, n_bins_X)
        Histograms of one common positive sum; at least one. Empty bins stay empty.
    M : array-like of shape (n_bins_X, n_bins) or GridDistance
        Costs from the bins of `X` to the bins of the barycentre; non-negative, and infinite where
        transport is forbidden. `debiased` needs a symmetric matrix with a finite diagonal. Products
        with a `GridDistance` go axis by axis, which is many times faster for images.
    reg : float
        Weight of the entropy, in the units of `M`.
    weights : array-like of shape (n_samples,) or (n_barycenters, n_samples), default=None
        Non-negative weights, scaled to sum 1; None means equal ones. Each row of weights gives one
        barycentre; rows of ones and zeros give the barycentres of groups.
    debiased : bool, default=False
        Whether to remove the blur of the entropy.
    tol : float, default=None
        Largest L1 error of a marginal, as a fraction of the mass. None means 1e-7, or 1e-4 if
        `debiased`.
    max_iter : int, default=10000
        Largest number of iterations.
    return_info : bool, default=False
        Whether to return errors and numbers of iterations as well.
    n_jobs : int, default=None
        Number of threads; None and -1 mean one per core.

    Returns
    -------
    barycenter : ndarray of float64 of shape (n_bins,) or (n_barycenters, n_bins)
        Histogram of the same sum, or one for each row of `weights`. Empty in bins that a histogram
        cannot reach.
    info : SinkhornInfo
        Only if `return_info`; its arrays have shape () or (n_barycenters,).

    Raises
    ------
    ValueError
        If a histogram, `M` or a weight is not as above, or `reg` is below a billionth of the
        largest finite entry of `M`. If some mass can reach none of the bins that all histograms
        reach. The message names the place.

    Warns
    -----
    ConvergenceWarning
        If a marginal is not within `tol` after `max_iter` iterations. The message names the worst
        barycentre.

    References
    ----------
    .. [1] J.-D. Benamou, G. Carlier, M. Cuturi, L. Nenna and G. Peyré, "Iterative Bregman
       projections for regularized transportation problems", SIAM Journal on Scientific
       Computing, 2015.
    .. [2] H. Janati, M. Cuturi and A. Gramfort, "Debiased Sinkhorn barycenters", ICML 2020.

    Examples
    --------
    Half-way between two peaks:

    >>> import numpy as np
    >>> from histrs.transport import sinkhorn_barycenter
    >>> bins = np.arange(5.0)
    >>> M = (bins[:, None] - bins) ** 2
    >>> X = [[1, 0, 0, 0, 0], [0, 0, 0, 0, 1]]
    >>> sinkhorn_barycenter(X, M=M, reg=0.3).round(2)
    array([0.  , 0.03, 0.93, 0.03, 0.  ])

    Without the blur, and all the way from one to the other:

    >>> weights = [[1, 0], [3, 1], [1, 1], [0, 1]]
    >>> sinkhorn_barycenter(X, M=M, reg=0.3, weights=weights, debiased=True).round(2)
    array([[1., 0., 0., 0., 0.],
           [0., 1., 0., 0., 0.],
           [0., 0., 1., 0., 0.],
           [0., 0., 0., 0., 1.]])
    """
    M = M if isinstance(M, GridDistance) else real_array(M, "M")
    X, _ = check_pair(X, None)
    if X.shape[0] == 0:
        raise ValueError("X has no rows: give at least one histogram.")
    costs = check_costs(M, X.shape[1], M.shape[1] if len(M.shape) == 2 else X.shape[1])
    with may_overflow():
        mass = float(X[[0]].astype(np.float64).sum())
    if not np.isfinite(mass):
        raise ValueError("The sum of X[0] overflows: divide the histograms by a scale.")
    rows = _check_weights(weights, X.shape[0])
    tol = (_DEBIASED_TOL if debiased else _TOL) if tol is None else tol
    values, errors, n_iter = _histrs.sinkhorn_barycenters(
        to_core(X),
        np.atleast_2d(rows),
        costs,
        reg,
        tol,
        check_max_iter(max_iter),
        debiased,
        count_threads(n_jobs),
    )
    _warn_of_worst(errors, tol, max_iter)
    if rows.ndim == 1:
        values, errors, n_iter = values[0], errors[0], n_iter[0]
    if not return_info:
        return values
    errors = np.asarray(errors)
    return values, SinkhornInfo(errors <= tol, errors, np.asarray(n_iter, dtype=np.intp))


def _check_weights(weights: ArrayLike | None, n: int) -> Rows:
    if weights is None:
        return np.full(n, 1.0 / n)
    rows = real_array(weights, "weights")
    if rows.ndim not in (1, 2) or rows.shape[-1] != n:
        raise ValueError(
            f"weights has shape {rows.shape}, expected ({n},) or (n_barycenters, {n}): one for "
            "each row of X."
        )
    bad = np.argwhere(~((rows >= 0) & np.isfinite(rows)))
    if len(bad) > 0:
        place = ", ".join(str(i) for i in bad[0])
        value = rows[tuple(bad[0])]
        raise ValueError(f"weights[{place}] = {value}: weights must be finite and not negative.")
    empty = np.flatnonzero(~rows.any(axis=-1))
    if len(empty) > 0:
        name = "weights" if rows.ndim == 1 else f"weights[{empty[0]}]"
        raise ValueError(f"{name} sum to 0: at least one must be positive.")
    return np.ascontiguousarray(rows, dtype=np.float64)


def _warn_of_worst(errors: Rows, tol: float, max_iter: int) -> None:
    failed = int(np.sum(~(errors <= tol)))
    if failed == 0:
        return
    worst = int(np.argmax(np.where(np.isnan(errors), np.inf, errors)))
    subject = "the barycentre" if len(errors) == 1 else f"{failed} of {len(errors)} barycentres"
    of_worst = "a marginal" if len(errors) == 1 else f"a marginal of barycentre {worst}"
    warn(
        f"{subject} did not converge in {max_iter} iterations: {of_worst} is off by "
        f"{errors[worst]:.2g} of the mass, and tol is {tol:.2g}; raise reg, max_iter or tol.",
        ConvergenceWarning,
    )
