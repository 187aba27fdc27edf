"""Partial transport: a fraction of the mass is moved."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from numpy.typing import ArrayLike, NDArray

from histrs._checks.numbers import numbers_checked
from histrs._estimator import documented
from histrs._typing import Matrix
from histrs.transport._distances import SinkhornInfo
from histrs.transport._docs import TRANSPORT
from histrs.transport._relaxed import Vector, checked_problem, costs, plan

PartialCost: TypeAlias = Literal["transport", "regularized"]


@documented(TRANSPORT)
@numbers_checked
def partial_sinkhorn_distances(
    X: ArrayLike | Matrix,
    Y: ArrayLike | Matrix | None = None,
    *,
    M: ArrayLike,
    reg: float,
    mass: float | None = None,
    tol: float = 1e-6,
    max_iter: int = 1000,
    cost: PartialCost = "transport",
    return_info: bool = False,
    n_jobs: int | None = None,
) -> NDArray[Any] | tuple[NDArray[Any], SinkhornInfo]:
    r"""Compute the Sinkhorn distance between the parts of rows that are nearest to each other.

    .. math::

        D(a, b) = \sum_{ij} T_{ij} M_{ij}, \qquad
        T = \operatorname*{argmin}_{T \ge 0,\; T 1 \le a,\; T^\top 1 \le b,\;
            \sum T = \mathrm{mass}}
            \sum_{ij} T_{ij} M_{ij} + \mathrm{reg} \sum_{ij} T_{ij} \log T_{ij}

    Section 5 of [1]_. Mass that is not moved costs nothing, so that clutter in only one of two
    histograms is left out. Half-steps maximise the dual exactly, over the potential of one side
    and the mass together, and are accelerated as those of `histrs.metrics.sinkhorn_distances`.

    Parameters
    ----------
    {X}
    {Y}
    {M}
    {reg}
    mass : float, default=None
        Mass to move, in the units of the rows; no row may have less. None means the smaller mass of
        each pair: then the lighter histogram is moved as a whole.
    tol : float, default=1e-6
        Largest L1 error of a marginal, as a fraction of `mass`.
    {max_iter}
    cost : {"transport", "regularized"}, default="transport"
        Return the cost of transport, or the minimum with the entropy term, which can be negative.
    {return_info}
    {n_jobs}

    Returns
    -------
    D : ndarray of shape (n_samples_X, n_samples_Y)
        Distances; float32 when both arguments are, else float64. Infinite where allowed moves
        cannot carry the whole `mass`.
    {info}

    Raises
    ------
    ValueError
        If an entry is negative, NaN or infinite, or a row has less than `mass`; the message names
        row and column. If `M` has the wrong shape, or a parameter is out of range.

    Warns
    -----
    {warns}

    References
    ----------
    .. [1] J.-D. Benamou, G. Carlier, M. Cuturi, L. Nenna and G. Peyré, "Iterative Bregman
       projections for regularized transportation problems", SIAM Journal on Scientific
       Computing, 2015.

    Examples
    --------
    A peak with clutter and the same peak without it, one bin further:

    >>> import numpy as np
    >>> from histrs.metrics import partial_sinkhorn_distances
    >>> bins = np.arange(5.0)
    >>> M = np.abs(bins[:, None] - bins)
    >>> partial_sinkhorn_distances([[3, 0, 0, 0, 1]], [[0, 3, 0, 0, 0]], M=M, reg=0.05).round(3)
    array([[3.]])
    """
    if cost not in ("transport", "regularized"):
        raise ValueError(f'cost = {cost!r}: must be "transport" or "regularized".')
    values, info = costs(checked_problem(X, Y, M), reg, None, mass, tol, max_iter, cost, n_jobs)
    return (values, info) if return_info else values


@documented(TRANSPORT)
@numbers_checked
def partial_sinkhorn(
    a: ArrayLike,
    b: ArrayLike,
    *,
    M: ArrayLike,
    reg: float,
    mass: float | None = None,
    tol: float = 1e-9,
    max_iter: int = 10_000,
    n_jobs: int | None = None,
) -> Vector:
    r"""Compute the partial transport plan between two histograms.

    The :math:`T` of `histrs.metrics.partial_sinkhorn_distances`, which computes the costs of many
    plans at once.

    Parameters
    ----------
    a : array-like of shape (n_bins_a,)
        Histogram of which a part is moved.
    b : array-like of shape (n_bins_b,)
        Histogram of which that becomes a part.
    {M_of_pair}
    {reg}
    mass : float, default=None
        Mass to move; None means the smaller of both masses.
    tol : float, default=1e-9
        Largest L1 error of a marginal, as a fraction of `mass`.
    {max_iter_of_pair}
    {n_jobs}

    Returns
    -------
    plan : ndarray of float64 of shape (n_bins_a, n_bins_b)
        Mass moved from each bin of `a` to each bin of `b`; it adds up to `mass`.

    Raises
    ------
    ValueError
        As `histrs.metrics.partial_sinkhorn_distances`, or if no plan is allowed.

    Warns
    -----
    {warns_of_pair}

    Examples
    --------
    >>> import numpy as np
    >>> from histrs.transport import partial_sinkhorn
    >>> bins = np.arange(4.0)
    >>> M = np.abs(bins[:, None] - bins)
    >>> partial_sinkhorn([2, 0, 0, 0], [1, 0, 0, 1], M=M, reg=0.05, mass=1.0).round(2)
    array([[1., 0., 0., 0.],
           [0., 0., 0., 0.],
           [0., 0., 0., 0.],
           [0., 0., 0., 0.]])
    """
    return plan(a, b, M, reg, None, mass, tol, max_iter, n_jobs)
