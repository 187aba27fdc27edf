"""Unbalanced transport: mass is created and destroyed at a cost."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from histrs._checks.numbers import numbers_checked
from histrs._checks.validation import real_array
from histrs._estimator import documented
from histrs._typing import Matrix
from histrs.transport._distances import SinkhornInfo
from histrs.transport._docs import TRANSPORT
from histrs.transport._relaxed import UnbalancedCost, Vector, checked_problem, costs, plan

Penalties: TypeAlias = float | tuple[float, float]


@documented(TRANSPORT)
@numbers_checked
def unbalanced_sinkhorn_distances(
    X: ArrayLike | Matrix,
    Y: ArrayLike | Matrix | None = None,
    *,
    M: ArrayLike,
    reg: float,
    reg_m: Penalties,
    tol: float = 1e-6,
    max_iter: int = 1000,
    cost: UnbalancedCost = "penalized",
    return_info: bool = False,
    n_jobs: int | None = None,
) -> NDArray[Any] | tuple[NDArray[Any], SinkhornInfo]:
    r"""Compute the unbalanced Sinkhorn distance between rows, which may differ in mass.

    .. math::

        D(a, b) &= \sum_{ij} T_{ij} M_{ij} + \mathrm{reg_m} \, \mathrm{KL}(T 1 \mid a)
            + \mathrm{reg_m} \, \mathrm{KL}(T^\top 1 \mid b), \\
        T &= \operatorname*{argmin}_{T \ge 0} \sum_{ij} T_{ij} M_{ij}
            + \mathrm{reg_m} \, \mathrm{KL}(T 1 \mid a)
            + \mathrm{reg_m} \, \mathrm{KL}(T^\top 1 \mid b)
            + \mathrm{reg} \, \mathrm{KL}\Bigl(T \Bigm| \frac{a b^\top}{\sqrt{|a| |b|}}\Bigr)

    with :math:`\mathrm{KL}(s \mid t) = \sum s \log(s / t) - s + t` (equation 3.1 of [1]_). Mass is
    created and destroyed where that is cheaper than moving it. The larger ``reg_m``, the farther
    mass moves before it is destroyed instead. Counts need not be divided by their sum: a change of
    their unit only changes the unit of the distance.

    The iteration is that of `histrs.metrics.sinkhorn_distances`, and also moves a constant between
    the two dual variables [2]_. With a large ``reg_m``, it therefore converges like balanced
    transport.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples_X, n_bins_X)
        Histograms: non-negative, finite, of any mass. A row may be empty.
    {Y}
    {M}
    {reg}
    reg_m : float or (float, float)
        Cost of a unit of created or destroyed mass, in the units of `M`; two numbers are for rows
        of `X` and of `Y`. One of the two may be infinite, which keeps the marginals of that side. A
        finite number is at most a billion times ``reg``.
    tol : float, default=1e-6
        Largest L1 error of a marginal, as a fraction of :math:`\sqrt{|a| |b|}`.
    {max_iter}
    cost : {"penalized", "transport", "regularized"}, default="penalized"
        Return the formula above, the cost of transport alone, or the objective.
    {return_info}
    {n_jobs}

    Returns
    -------
    D : ndarray of shape (n_samples_X, n_samples_Y)
        Distances; float32 when both arguments are, else float64. Infinite where a marginal is to be
        kept and every way out of one of its bins is forbidden.
    {info}

    Raises
    ------
    ValueError
        If an entry is negative, NaN or infinite, `M` has the wrong shape, or a parameter is out of
        range; the message names row and column.

    Warns
    -----
    {warns}

    References
    ----------
    .. [1] L. Chizat, G. Peyré, B. Schmitzer and F.-X. Vialard, "Scaling algorithms for unbalanced
       optimal transport problems", Mathematics of Computation 87, 2018.
    .. [2] T. Séjourné, F.-X. Vialard and G. Peyré, "Faster unbalanced optimal transport:
       translation invariant Sinkhorn and 1-D Frank-Wolfe", AISTATS 2022.

    Examples
    --------
    A peak, the same beside it, twice as high, and one so far away that it is not worth the way:

    >>> import numpy as np
    >>> from histrs.metrics import unbalanced_sinkhorn_distances
    >>> X = np.eye(4)[[0, 1, 0, 3]] * [[1], [1], [2], [1]]
    >>> M = 10.0 * (np.arange(4)[:, None] - np.arange(4)) ** 2
    >>> unbalanced_sinkhorn_distances(X[:1], X, M=M, reg=0.01, reg_m=20).round(2)
    array([[ 0.  ,  8.85,  3.43, 35.78]])
    """
    values, info = costs(
        checked_problem(X, Y, M), reg, _penalties(reg_m), None, tol, max_iter, cost, n_jobs
    )
    return (values, info) if return_info else values


@documented(TRANSPORT)
@numbers_checked
def unbalanced_sinkhorn(
    a: ArrayLike,
    b: ArrayLike,
    *,
    M: ArrayLike,
    reg: float,
    reg_m: Penalties,
    tol: float = 1e-9,
    max_iter: int = 10_000,
    n_jobs: int | None = None,
) -> Vector:
    r"""Compute the unbalanced transport plan between two histograms.

    The :math:`T` of `histrs.metrics.unbalanced_sinkhorn_distances`, which computes the costs of
    many plans at once.

    Parameters
    ----------
    a : array-like of shape (n_bins_a,)
        Histogram that is moved.
    b : array-like of shape (n_bins_b,)
        Histogram that it is compared with; of any mass.
    {M_of_pair}
    {reg}
    reg_m : float or (float, float)
        Cost of a unit of created or destroyed mass; two numbers are for `a` and `b`. Infinity on
        one side keeps the marginal of this side.
    tol : float, default=1e-9
        Largest L1 error of a marginal, as a fraction of the geometric mean of both masses.
    {max_iter_of_pair}
    {n_jobs}

    Returns
    -------
    plan : ndarray of float64 of shape (n_bins_a, n_bins_b)
        Mass moved from each bin of `a` to each bin of `b`.

    Raises
    ------
    ValueError
        As `histrs.metrics.unbalanced_sinkhorn_distances`, or if no plan is allowed.

    Warns
    -----
    {warns_of_pair}

    Examples
    --------
    Of what would move three bins hardly anything does: it is destroyed here and created there.

    >>> import numpy as np
    >>> from histrs.transport import unbalanced_sinkhorn
    >>> bins = np.arange(4.0)
    >>> M = np.abs(bins[:, None] - bins)
    >>> unbalanced_sinkhorn([2, 0, 0, 0], [1, 0, 0, 1], M=M, reg=0.01, reg_m=1.0).round(2)
    array([[1.38, 0.  , 0.  , 0.07],
           [0.  , 0.  , 0.  , 0.  ],
           [0.  , 0.  , 0.  , 0.  ],
           [0.  , 0.  , 0.  , 0.  ]])
    """
    return plan(a, b, M, reg, _penalties(reg_m), None, tol, max_iter, n_jobs)


def _penalties(reg_m: Penalties) -> tuple[float, float]:
    values = real_array(reg_m, "reg_m")
    if values.shape not in ((), (2,)):
        raise ValueError(
            f"reg_m has shape {values.shape}: give a number, or one for X and one for Y."
        )
    first, second = np.broadcast_to(values, 2).tolist()
    return first, second
