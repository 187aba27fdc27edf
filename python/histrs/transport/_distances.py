"""The Sinkhorn distance of all pairs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning

from histrs import _histrs
from histrs._checks.numbers import numbers_checked
from histrs._checks.validation import count_threads, to_core
from histrs._estimator import documented
from histrs._typing import Array, Matrix
from histrs._warnings import warn
from histrs.transport._arguments import Costs, check_costs, check_max_iter, check_pair
from histrs.transport._docs import TRANSPORT
from histrs.transport._ground import GridDistance
from histrs.transport._positions import by_supports, takes_positions

Cost = Literal["transport", "regularized"]


@dataclass(frozen=True)
class SinkhornInfo:
    """How the distances of `histrs.metrics.sinkhorn_distances`, and barycentres, were reached.

    Attributes
    ----------
    converged : ndarray of bool of shape (n_samples_X, n_samples_Y)
        Whether the error of the pair came below `tol`.
    errors : ndarray of float64 of shape (n_samples_X, n_samples_Y)
        L1 error of the marginals of the plan, as a fraction of the mass.
    n_iter : ndarray of int of shape (n_samples_X, n_samples_Y)
        Iterations, each of two half-steps.
    """

    converged: NDArray[np.bool_]
    errors: Array
    n_iter: NDArray[np.intp]


@overload
def sinkhorn_distances(
    X: ArrayLike | Matrix,
    Y: ArrayLike | Matrix | None = None,
    *,
    M: ArrayLike | GridDistance | None = None,
    positions: ArrayLike | None = None,
    reg: float,
    tol: float = 1e-6,
    max_iter: int = 1000,
    cost: Cost = "transport",
    return_info: Literal[False] = False,
    n_jobs: int | None = None,
) -> NDArray[Any]: ...


@overload
def sinkhorn_distances(
    X: ArrayLike | Matrix,
    Y: ArrayLike | Matrix | None = None,
    *,
    M: ArrayLike | GridDistance | None = None,
    positions: ArrayLike | None = None,
    reg: float,
    tol: float = 1e-6,
    max_iter: int = 1000,
    cost: Cost = "transport",
    return_info: Literal[True],
    n_jobs: int | None = None,
) -> tuple[NDArray[Any], SinkhornInfo]: ...


@documented(TRANSPORT)
@numbers_checked
def sinkhorn_distances(
    X: ArrayLike | Matrix,
    Y: ArrayLike | Matrix | None = None,
    *,
    M: ArrayLike | GridDistance | None = None,
    positions: ArrayLike | None = None,
    reg: float,
    tol: float = 1e-6,
    max_iter: int = 1000,
    cost: Cost = "transport",
    return_info: bool = False,
    n_jobs: int | None = None,
) -> NDArray[Any] | tuple[NDArray[Any], SinkhornInfo]:
    r"""Compute the Sinkhorn distance between rows.

    .. math::

        D(a, b) = \sum_{ij} T_{ij} M_{ij}, \qquad
        T = \operatorname*{argmin}_{T \ge 0,\; T 1 = a,\; T^\top 1 = b}
            \sum_{ij} T_{ij} M_{ij} + \mathrm{reg} \sum_{ij} T_{ij} \log T_{ij}

    Equation 3 of [1]_ has :math:`1/\lambda` for ``reg``; the distance is from [2]_. The plan is
    :math:`T = \mathrm{diag}(u) K \mathrm{diag}(v)` with :math:`K = \exp(-M/\mathrm{reg})`, and its
    scalings are found by alternating :math:`v = b / K^\top u` and :math:`u = a / K v`. Many pairs
    are iterated together, so each step is a product of matrices. Anderson's method accelerates the
    iteration. It runs in single precision while the error allows it, and in the log domain if `K`
    would underflow. A pair that has converged is not iterated any more.

    Up to the error of the marginals, the distance is at least the exact one
    (`histrs.metrics.emd_distances`). It tends to the exact one as ``reg`` falls. It is positive
    between a histogram and itself, unless all mass is in one bin.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples_X, n_bins_X)
        Histograms: non-negative, finite, of the same positive sum, to a relative error of
        1e-6 (1e-4 in single precision). Empty bins stay empty.
    Y : {array-like, sparse matrix} of shape (n_samples_Y, n_bins_Y), default=None
        Other histograms, of the same sum, perhaps over other bins. None means `X`; each pair is
        then computed once if `M` is symmetric.
    M : array-like of shape (n_bins_X, n_bins_Y) or GridDistance, default=None
        Cost matrix: the cost of moving a unit of mass from bin to bin; non-negative, and infinite
        where transport is forbidden. Products with a `histrs.transport.GridDistance` go axis by
        axis.
    positions : array-like of shape (n_bins, n_dimensions), default=None
        Positions of the bins, in place of `M`, as in `histrs.metrics.emd_distances`.
    reg : float
        Weight of the entropy, in the units of `M`. A tenth of the median of `M` blurs the plan
        and takes some 20 iterations; a hundredth is close to exact and takes some hundreds.
    tol : float, default=1e-6
        Largest L1 error of a marginal, as a fraction of the mass.
    {max_iter}
    cost : {"transport", "regularized"}, default="transport"
        Return the cost of transport, or the minimum with the entropy term, which can be negative.
    {return_info}
    {n_jobs}

    Returns
    -------
    D : ndarray of shape (n_samples_X, n_samples_Y)
        Distances; float32 if `X` and `Y` are float32, else float64. Infinite where no plan is
        allowed.
    {info}

    Raises
    ------
    ValueError
        If an entry is negative, NaN or infinite, if a row has no mass or another sum than the
        first, or if `M` has the wrong shape. Also if `reg` is below a billionth of the largest
        finite entry of `M`.

    Warns
    -----
    {warns}

    References
    ----------
    .. [1] M. J. Kusner, N. I. Kolkin, S. Tyree and K. Q. Weinberger, "Image data compression for
       covariance and histogram descriptors", 2015.
    .. [2] M. Cuturi, "Sinkhorn distances: lightspeed computation of optimal transport", NIPS 2013.

    Examples
    --------
    Three histograms over a line of four bins:

    >>> import numpy as np
    >>> from histrs.metrics import sinkhorn_distances
    >>> X = np.array([[4, 0, 0, 0], [0, 0, 2, 2], [1, 1, 1, 1]]) / 4
    >>> bins = np.arange(4.0)
    >>> M = np.abs(bins[:, None] - bins)
    >>> sinkhorn_distances(X[1:2], X, M=M, reg=0.3).round(2)
    array([[2.5 , 0.03, 1.  ]])
    """
    X, Y = check_pair(X, Y)
    if cost not in ("transport", "regularized"):
        raise ValueError(f'cost = {cost!r}: must be "transport" or "regularized".')
    check_max_iter(max_iter)

    def solve(X: Matrix, Y: Matrix | None, M: Costs) -> tuple[NDArray[Any], ...]:
        return _histrs.sinkhorn_distances(
            to_core(X),
            None if Y is None else to_core(Y),
            M,
            reg,
            tol,
            max_iter,
            cost == "regularized",
            False,
            count_threads(n_jobs),
        )[:3]

    if takes_positions(M, positions):
        fills = (np.inf, 0.0, 0)
        values, errors, n_iter = by_supports(X, Y, positions, solve, fills)
        values = values.astype(X.dtype, copy=False)
    else:
        assert M is not None
        costs = check_costs(M, X.shape[1], (X if Y is None else Y).shape[1])
        values, errors, n_iter = solve(X, Y, costs)
    warn_of_worst(errors, tol, max_iter)
    if not return_info:
        return values
    return values, SinkhornInfo(errors <= tol, errors, n_iter.astype(np.intp))


def warn_of_worst(errors: Array, tol: float, max_iter: int) -> None:
    """Name the pair that is farthest from its marginals."""
    failed = int(np.sum(~(errors <= tol)))
    if failed == 0:
        return
    i, j = np.unravel_index(np.argmax(np.where(np.isnan(errors), np.inf, errors)), errors.shape)
    warn(
        f"{failed} of {errors.size} pairs did not converge in {max_iter} iterations: the "
        f"marginals of X[{i}] and Y[{j}] are off by {errors[i, j]:.2g} of the mass, and tol is "
        f"{tol:.2g}. Raise reg, max_iter or tol.",
        ConvergenceWarning,
    )
