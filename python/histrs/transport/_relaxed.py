"""Sinkhorn distances and plans that need not keep the mass: unbalanced and partial transport."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from histrs import _histrs
from histrs._numbers import numbers_checked
from histrs._validation import Matrix, count_threads, real_array, to_core
from histrs.transport._arguments import (
    check_ground_distance,
    check_max_iter,
    check_one,
    check_pair,
    refuse_impossible,
)
from histrs.transport._distances import SinkhornInfo, warn_of_worst

Vector = NDArray[np.float64]
Penalties: TypeAlias = float | tuple[float, float]
UnbalancedCost: TypeAlias = Literal["penalized", "transport", "regularized"]
PartialCost: TypeAlias = Literal["transport", "regularized"]
Problem: TypeAlias = tuple[Vector, Matrix, Matrix | None]


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
    created and destroyed where that is cheaper than moving it; how far a unit moves at most before
    it is destroyed grows with ``reg_m``. Counts need not be divided by their sum: a change of their
    unit only changes the unit of the distance.

    Each iteration moves a constant between both dual variables as well [2]_, so that a large
    ``reg_m`` converges like transport that keeps its mass; otherwise as
    `histrs.metrics.sinkhorn_distances`.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples_X, n_bins_X)
        Histograms: non-negative, finite, of any mass. A row may be empty.
    Y : {array-like, sparse matrix} of shape (n_samples_Y, n_bins_Y), default=None
        Other histograms, perhaps over other bins. None means `X`.
    M : array-like of shape (n_bins_X, n_bins_Y)
        Ground distance: non-negative, infinite where transport is forbidden.
    reg : float
        Weight of the entropy, in the units of `M`.
    reg_m : float or (float, float)
        What a unit of mass costs that is created or destroyed, in the units of `M`; for rows of `X`
        and of `Y`. Infinity, on one side, keeps its marginals; at most a billion times ``reg``
        otherwise.
    tol : float, default=1e-6
        Largest L1 error of a marginal, as a part of :math:`\sqrt{|a| |b|}`.
    max_iter : int, default=1000
        Most iterations of a pair.
    cost : {"penalized", "transport", "regularized"}, default="penalized"
        Return the formula above, the cost of transport alone, or what is minimised.
    return_info : bool, default=False
        Whether to return errors and numbers of iterations as well.
    n_jobs : int, default=None
        Number of threads; None and -1 mean one a core.

    Returns
    -------
    D : ndarray of shape (n_samples_X, n_samples_Y)
        Distances; float32 when both arguments are, else float64. Infinite where a marginal is to be
        kept and every way out of one of its bins is forbidden.
    info : SinkhornInfo
        Only if `return_info`.

    Raises
    ------
    ValueError
        If an entry is negative, NaN or infinite, `M` has the wrong shape, or a parameter is out of
        range; the message names row and column.

    Warns
    -----
    ConvergenceWarning
        If a pair has not come below `tol` after `max_iter` iterations; it names the worst one.

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
    values, info = _costs(
        _problem(X, Y, M), reg, _penalties(reg_m), None, tol, max_iter, cost, n_jobs
    )
    return (values, info) if return_info else values


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

    Section 5 of [1]_. What is not moved costs nothing, so that clutter that only one of two
    histograms has is left out. Half-steps maximise the dual exactly, over the potential of one side
    and the mass together, and are accelerated as those of `histrs.metrics.sinkhorn_distances`.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples_X, n_bins_X)
        Histograms: non-negative, finite, of any mass.
    Y : {array-like, sparse matrix} of shape (n_samples_Y, n_bins_Y), default=None
        Other histograms, perhaps over other bins. None means `X`.
    M : array-like of shape (n_bins_X, n_bins_Y)
        Ground distance: non-negative, infinite where transport is forbidden.
    reg : float
        Weight of the entropy, in the units of `M`.
    mass : float, default=None
        What is moved, in the units of the rows; no row has less. None means the smaller mass of
        each pair: then the lighter histogram is moved as a whole.
    tol : float, default=1e-6
        Largest L1 error of a marginal, as a part of `mass`.
    max_iter : int, default=1000
        Most iterations of a pair.
    cost : {"transport", "regularized"}, default="transport"
        Return the cost of transport, or the minimum with the entropy term, which can be negative.
    return_info : bool, default=False
        Whether to return errors and numbers of iterations as well.
    n_jobs : int, default=None
        Number of threads; None and -1 mean one a core.

    Returns
    -------
    D : ndarray of shape (n_samples_X, n_samples_Y)
        Distances; float32 when both arguments are, else float64. Infinite where so much mass can
        only go forbidden ways.
    info : SinkhornInfo
        Only if `return_info`.

    Raises
    ------
    ValueError
        If an entry is negative, NaN or infinite, `M` has the wrong shape, a row has less than
        `mass`, or a parameter is out of range; the message names row and column.

    Warns
    -----
    ConvergenceWarning
        If a pair has not come below `tol` after `max_iter` iterations; it names the worst one.

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
    values, info = _costs(_problem(X, Y, M), reg, None, mass, tol, max_iter, cost, n_jobs)
    return (values, info) if return_info else values


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
    M : array-like of shape (n_bins_a, n_bins_b)
        Ground distance: non-negative, infinite where transport is forbidden.
    reg : float
        Weight of the entropy, in the units of `M`.
    reg_m : float or (float, float)
        What a unit of mass costs that is created or destroyed, of `a` and of `b`; infinity, on one
        side, keeps its marginal.
    tol : float, default=1e-9
        Largest L1 error of a marginal, as a part of the geometric mean of both masses.
    max_iter : int, default=10000
        Most iterations.
    n_jobs : int, default=None
        Number of threads; None and -1 mean one a core.

    Returns
    -------
    plan : ndarray of float64 of shape (n_bins_a, n_bins_b)
        What moves from each bin of `a` to each bin of `b`.

    Raises
    ------
    ValueError
        As `histrs.metrics.unbalanced_sinkhorn_distances`, or if no plan is allowed.

    Warns
    -----
    ConvergenceWarning
        If the marginals are not within `tol` after `max_iter` iterations.

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
    return _plan(a, b, M, reg, _penalties(reg_m), None, tol, max_iter, n_jobs)


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
    M : array-like of shape (n_bins_a, n_bins_b)
        Ground distance: non-negative, infinite where transport is forbidden.
    reg : float
        Weight of the entropy, in the units of `M`.
    mass : float, default=None
        What is moved; None means the smaller of both masses.
    tol : float, default=1e-9
        Largest L1 error of a marginal, as a part of `mass`.
    max_iter : int, default=10000
        Most iterations.
    n_jobs : int, default=None
        Number of threads; None and -1 mean one a core.

    Returns
    -------
    plan : ndarray of float64 of shape (n_bins_a, n_bins_b)
        What moves from each bin of `a` to each bin of `b`; it adds up to `mass`.

    Raises
    ------
    ValueError
        As `histrs.metrics.partial_sinkhorn_distances`, or if no plan is allowed.

    Warns
    -----
    ConvergenceWarning
        If the marginals are not within `tol` after `max_iter` iterations.

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
    return _plan(a, b, M, reg, None, mass, tol, max_iter, n_jobs)


def _costs(
    problem: Problem,
    reg: float,
    penalties: tuple[float, float] | None,
    mass: float | None,
    tol: float,
    max_iter: int,
    cost: UnbalancedCost,
    n_jobs: int | None,
) -> tuple[NDArray[Any], SinkhornInfo]:
    M, X, Y = problem
    options = (reg, penalties, mass, tol, check_max_iter(max_iter), cost, False)
    values, errors, n_iter, _ = _histrs.relaxed_distances(
        to_core(X), None if Y is None else to_core(Y), M, *options, count_threads(n_jobs)
    )
    warn_of_worst(errors, tol, max_iter)
    return values, SinkhornInfo(errors <= tol, errors, n_iter.astype(np.intp))


def _plan(
    a: ArrayLike,
    b: ArrayLike,
    M: ArrayLike,
    reg: float,
    penalties: tuple[float, float] | None,
    mass: float | None,
    tol: float,
    max_iter: int,
    n_jobs: int | None,
) -> Vector:
    a, b = check_one(a, b)
    costs, X, Y = _problem(a[None, :], b[None, :], M)
    assert Y is not None
    options = (reg, penalties, mass, tol, check_max_iter(max_iter), "transport", True)
    values, errors, _, potentials = _histrs.relaxed_distances(
        to_core(X), to_core(Y), costs, *options, count_threads(n_jobs)
    )
    refuse_impossible(float(values[0, 0]))
    warn_of_worst(errors, tol, max_iter)
    assert potentials is not None
    return plan_of_potentials(potentials, costs, reg)


def plan_of_potentials(potentials: tuple[Vector, Vector], M: Vector, reg: float) -> Vector:
    """Return the plan of the only pair."""
    alpha, beta = potentials[0][0, 0], potentials[1][0, 0]
    plan: Vector = np.exp((alpha[:, None] + beta - M) / reg)
    return plan


def _problem(X: ArrayLike | Matrix, Y: ArrayLike | Matrix | None, M: ArrayLike) -> Problem:
    X, Y = check_pair(X, Y)
    return check_ground_distance(M, X.shape[1], (X if Y is None else Y).shape[1]), X, Y


def _penalties(reg_m: Penalties) -> tuple[float, float]:
    values = real_array(reg_m, "reg_m")
    if values.shape not in ((), (2,)):
        raise ValueError(
            f"reg_m has shape {values.shape}: give a number, or one for X and one for Y."
        )
    first, second = np.broadcast_to(values, 2).tolist()
    return first, second
