"""The exact earth mover's distance, and cheap bounds below it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from histrs import _histrs
from histrs._checks.numbers import numbers_checked
from histrs._checks.validation import count_threads, to_core
from histrs._typing import Array, Matrix
from histrs.transport._arguments import (
    check_entries,
    check_ground_distance,
    check_one,
    check_pair,
    refuse_impossible,
)
from histrs.transport._positions import Solve, by_supports, of_pairs_by_supports, takes_positions

Vector = Array

# Part of the mass that may be left over: sums of rows agree no better.
_ROUNDING = 1e-6


def emd_distances(
    X: ArrayLike | Matrix,
    Y: ArrayLike | Matrix | None = None,
    *,
    M: ArrayLike | None = None,
    positions: ArrayLike | None = None,
    n_jobs: int | None = None,
) -> NDArray[Any]:
    r"""Compute the exact earth mover's distance between rows.

    .. math::

        D(a, b) = \min_{T \ge 0,\; T 1 = a,\; T^\top 1 = b} \sum_{ij} T_{ij} M_{ij}

    Equation 2 of [1]_, by the network simplex method (chapter 11 of [2]_) on strongly feasible
    trees [3]_. Bins without mass are left out. Where `M` is a metric of up to 1,024 bins, mass that
    both histograms have in a bin stays, and is left out too. Time grows with about the cube of the
    number of bins that are left. The distance is a metric if `M` is one.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples_X, n_bins_X)
        Histograms: non-negative, finite, of one common positive sum (to 1e-6 of it, or 1e-4 in
        single precision).
    Y : {array-like, sparse matrix} of shape (n_samples_Y, n_bins_Y), default=None
        Other histograms of the same sum. None means `X`; each pair is then computed once if `M`
        is symmetric.
    M : array-like of shape (n_bins_X, n_bins_Y), default=None
        Cost matrix: non-negative, infinite where transport is forbidden.
    positions : array-like of shape (n_bins, n_dimensions), default=None
        Positions of the bins, in place of `M`: the cost is their Euclidean distance. With
        embeddings of words, this is the word mover's distance. Costs are computed only between bins
        with mass. Rows are divided by their sums.
    n_jobs : int, default=None
        Number of threads; None and -1 mean one per core.

    Returns
    -------
    D : ndarray of shape (n_samples_X, n_samples_Y)
        Distances; float32 when both arguments are, else float64. Infinite where no plan is allowed.

    Raises
    ------
    ValueError
        If an entry is negative, NaN or infinite, if a row has no mass or another sum than the
        first, or if `M` has the wrong shape. The message names row and column. If both of `M` and
        `positions` are given, or neither.

    Warns
    -----
    UserWarning
        If rows have no mass, with `positions`; their distances are infinite.

    References
    ----------
    .. [1] M. J. Kusner, N. I. Kolkin, S. Tyree and K. Q. Weinberger, "Image data compression for
       covariance and histogram descriptors", 2015.
    .. [2] R. K. Ahuja, T. L. Magnanti and J. B. Orlin, "Network Flows", 1993.
    .. [3] W. H. Cunningham, "A network simplex method", Mathematical Programming, 1976.

    Examples
    --------
    >>> import numpy as np
    >>> from histrs.metrics import emd_distances
    >>> X = np.array([[4, 0, 0, 0], [0, 0, 2, 2], [1, 1, 1, 1]]) / 4
    >>> bins = np.arange(4.0)
    >>> emd_distances(X, M=np.abs(bins[:, None] - bins))
    array([[0. , 2.5, 1.5],
           [2.5, 0. , 1. ],
           [1.5, 1. , 0. ]])
    >>> emd_distances(X[:1], X, positions=bins[:, None])
    array([[0. , 2.5, 1.5]])
    """
    X, Y = check_pair(X, Y)
    if takes_positions(M, positions):
        D = by_supports(X, Y, positions, _solver(n_jobs), (np.inf,))[0]
        return D.astype(X.dtype, copy=False)
    assert M is not None
    M = check_ground_distance(M, X.shape[1], (X if Y is None else Y).shape[1])
    other = None if Y is None else to_core(Y)
    return _histrs.emd_distances(to_core(X), other, M, count_threads(n_jobs))


@numbers_checked
def emd_plan(a: ArrayLike, b: ArrayLike, *, M: ArrayLike, mass: float | None = None) -> Vector:
    r"""Compute the exact transport plan between two histograms, or parts of them.

    .. math::

        T = \operatorname*{argmin}_{T \ge 0,\; T 1 = a,\; T^\top 1 = b} \sum_{ij} T_{ij} M_{ij}

    Equation 2 of [1]_; its cost is that of `histrs.metrics.emd_distances`. With `mass`, it is the
    cheapest plan of this sum with :math:`T 1 \le a` and :math:`T^\top 1 \le b` [2]_: the rest goes
    to an extra bin on either side, at no cost.

    Parameters
    ----------
    a : array-like of shape (n_bins_a,)
        Histogram that is moved.
    b : array-like of shape (n_bins_b,)
        Histogram that it becomes; of the same sum, unless `mass` is given.
    M : array-like of shape (n_bins_a, n_bins_b)
        Cost matrix: non-negative, infinite where transport is forbidden.
    mass : float, default=None
        Mass to move, at most the smaller of both sums; None means all.

    Returns
    -------
    plan : ndarray of float64 of shape (n_bins_a, n_bins_b)
        Mass moved from each bin of `a` to each bin of `b`.

    Raises
    ------
    ValueError
        If an entry is negative, NaN or infinite, the sums differ, `M` has the wrong shape, or no
        plan is allowed.

    References
    ----------
    .. [1] M. J. Kusner, N. I. Kolkin, S. Tyree and K. Q. Weinberger, "Image data compression for
       covariance and histogram descriptors", 2015.
    .. [2] L. Chapel, M. Z. Alaya and G. Gasso, "Partial optimal transport with applications on
       positive-unlabeled learning", NeurIPS 2020.

    Examples
    --------
    >>> from histrs.transport import emd_plan
    >>> M = [[0, 1, 2], [1, 0, 1], [2, 1, 0]]
    >>> emd_plan([2, 0, 1], [1, 2, 0], M=M)
    array([[1., 1., 0.],
           [0., 0., 0.],
           [0., 1., 0.]])
    >>> emd_plan([2, 0, 1], [1, 0, 4], M=M, mass=2)
    array([[1., 0., 0.],
           [0., 0., 0.],
           [0., 0., 1.]])
    """
    a, b = check_one(a, b)
    if mass is None:
        X, Y, costs = check_problem(a[None, :], b[None, :], M, 1)
        plan = _histrs.emd_plan(a, b, costs, 1)
    else:
        X, Y = check_pair(a[None, :], b[None, :])
        assert Y is not None
        costs = check_ground_distance(M, X.shape[1], Y.shape[1])
        check_entries(costs)
        for histogram, name in ((X, "a"), (Y, "b")):
            _check_moves(histogram, name, mass)
        plan = _partial_plan(a, b, costs, mass)
    if plan is None:
        refuse_impossible(np.inf)
    assert plan is not None
    return plan


def _partial_plan(a: Vector, b: Vector, costs: Vector, mass: float) -> Vector | None:
    """Return the best plan of so much mass: the rest goes to a bin more on either side."""
    n, m = costs.shape
    if mass == 0:
        return np.zeros((n, m))
    # Sums within the range, and the parts that move exact.
    a, b = a / mass, b / mass
    rest = np.maximum([b.sum() - 1.0, a.sum() - 1.0], 0.0)
    costs = np.pad(costs, (0, 1))
    costs[n, m] = np.inf
    plan = _histrs.emd_plan(np.append(a, rest[0]), np.append(b, rest[1]), costs, 1)
    return None if plan is None else mass * plan[:n, :m]


def _check_moves(histogram: Matrix, name: str, mass: float) -> None:
    """Raise unless the only row is a histogram that has so much mass."""
    _histrs.check_histograms(to_core(histogram), 1)
    if not (mass >= 0 and np.isfinite(mass)):
        raise ValueError(f"mass = {mass}: must be finite and not negative.")
    if mass > (1 + _ROUNDING) * histogram.sum():
        raise ValueError(
            f"mass = {mass:g}, but {name} sums to {histogram.sum()}: give at most the smaller sum "
            "of both histograms."
        )


def emd_of_pairs(
    X: Matrix,
    Y: Matrix,
    rows: NDArray[np.intp],
    columns: NDArray[np.intp],
    *,
    M: ArrayLike | None = None,
    positions: ArrayLike | None = None,
    n_jobs: int | None,
) -> NDArray[Any]:
    """Return the distances of ``X[rows[k]]`` and ``Y[columns[k]]``, as `emd_distances` does."""
    X, other = check_pair(X, Y)
    assert other is not None
    if M is None and positions is not None:
        values = of_pairs_by_supports(X, other, rows, columns, positions, _solver(n_jobs))
        return values.astype(X.dtype, copy=False)
    assert M is not None
    M = check_ground_distance(M, X.shape[1], other.shape[1])
    pairs = rows.astype(np.int64), columns.astype(np.int64)
    return _histrs.emd_pairs(to_core(X), to_core(other), *pairs, M, count_threads(n_jobs))


def _solver(n_jobs: int | None) -> Solve:
    def solve(row: Matrix, rows: Matrix, costs: Array) -> tuple[NDArray[Any], ...]:
        core = to_core(row), to_core(rows)
        return (_histrs.emd_distances(*core, costs, count_threads(n_jobs)),)

    return solve


def check_problem(
    X: ArrayLike | Matrix, Y: ArrayLike | Matrix | None, M: ArrayLike, n_jobs: int | None
) -> tuple[Matrix, Matrix | None, Array]:
    """Return histograms of one mass and their cost matrix, or raise at the first bad entry."""
    X, Y = check_pair(X, Y)
    M = check_ground_distance(M, X.shape[1], (X if Y is None else Y).shape[1])
    check_entries(M)
    core = to_core(X), None if Y is None else to_core(Y)
    _histrs.check_masses(*core, count_threads(n_jobs))
    return X, Y, M
