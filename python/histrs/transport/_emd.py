"""The exact earth mover's distance, and cheap bounds below it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from histrs import _histrs
from histrs._numbers import numbers_checked
from histrs._threads import in_threads
from histrs._validation import Matrix, count_threads, to_core
from histrs.transport._arguments import (
    check_entries,
    check_ground_distance,
    check_one,
    check_pair,
    refuse_impossible,
)

Vector = NDArray[np.float64]
Solver = Callable[[Vector, Vector, Vector], Vector]

# Part of the mass that may be left over: sums of rows agree no better.
_ROUNDING = 1e-6


def emd_distances(
    X: ArrayLike | Matrix,
    Y: ArrayLike | Matrix | None = None,
    *,
    M: ArrayLike,
    n_jobs: int | None = None,
) -> NDArray[Any]:
    r"""Compute the exact earth mover's distance between rows, through POT.

    .. math::

        D(a, b) = \min_{T \ge 0,\; T 1 = a,\; T^\top 1 = b} \sum_{ij} T_{ij} M_{ij}

    Equation 2 of [1]_, by the network simplex of POT [2]_; it needs ``pip install "histrs[emd]"``.
    Its time grows with the cube of the number of bins in use; bins without mass are left out. A
    metric if `M` is one.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples_X, n_bins_X)
        Histograms: non-negative, finite, of one common positive sum (to 1e-6 of it, or 1e-4 in
        single precision).
    Y : {array-like, sparse matrix} of shape (n_samples_Y, n_bins_Y), default=None
        Other histograms of the same sum. None means `X`; each pair is then computed once if `M`
        is symmetric.
    M : array-like of shape (n_bins_X, n_bins_Y)
        Ground distance: non-negative, infinite where transport is forbidden.
    n_jobs : int, default=None
        Number of threads; None and -1 mean one a core. POT holds the interpreter's lock for a
        part of the time.

    Returns
    -------
    D : ndarray of shape (n_samples_X, n_samples_Y)
        Distances; float32 when both arguments are, else float64. Infinite where no plan is allowed.

    Raises
    ------
    ImportError
        If POT is not installed.
    ValueError
        If an entry is negative, NaN or infinite, a row has another sum than the first or none, or
        `M` has the wrong shape; the message names row and column.

    References
    ----------
    .. [1] M. J. Kusner, N. I. Kolkin, S. Tyree and K. Q. Weinberger, "Image data compression for
       covariance and histogram descriptors", 2015.
    .. [2] R. Flamary et al., "POT: Python Optimal Transport", Journal of Machine Learning
       Research, 2021.

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
    """
    solve = _solver()
    X, Y, M = check_problem(X, Y, M, n_jobs, may_forbid=True)
    once = Y is None and bool(np.array_equal(M, M.T))
    other = X if Y is None else Y
    D = np.zeros((X.shape[0], other.shape[0]))

    left = threading.Event()

    def fill(i: int) -> None:
        source = _bins_with_mass(X, i)
        for j in range(i if once else 0, other.shape[0]):
            if left.is_set():
                return
            D[i, j] = _cost(solve, source, _bins_with_mass(other, j), M)
            if once:
                D[j, i] = D[i, j]

    try:
        in_threads(fill, range(X.shape[0]), n_threads=count_threads(n_jobs))
    finally:
        left.set()
    return D.astype(X.dtype, copy=False)


@numbers_checked
def emd_plan(
    a: ArrayLike,
    b: ArrayLike,
    *,
    M: ArrayLike,
    mass: float | None = None,
) -> Vector:
    r"""Compute the exact transport plan between two histograms, or parts of them, through POT.

    .. math::

        T = \operatorname*{argmin}_{T \ge 0,\; T 1 = a,\; T^\top 1 = b} \sum_{ij} T_{ij} M_{ij}

    Equation 2 of [1]_; its cost is that of `histrs.metrics.emd_distances`. With a mass it is the
    cheapest plan of that sum with :math:`T 1 \le a` and :math:`T^\top 1 \le b` [2]_: the rest goes
    to a bin more on either side, at no cost. It needs ``pip install "histrs[emd]"``.

    Parameters
    ----------
    a : array-like of shape (n_bins_a,)
        Histogram that is moved.
    b : array-like of shape (n_bins_b,)
        Histogram that it becomes; of the same sum, unless `mass` is given.
    M : array-like of shape (n_bins_a, n_bins_b)
        Ground distance: non-negative, infinite where transport is forbidden.
    mass : float, default=None
        What is moved, no more than either has; None means all.

    Returns
    -------
    plan : ndarray of float64 of shape (n_bins_a, n_bins_b)
        What moves from each bin of `a` to each bin of `b`.

    Raises
    ------
    ImportError
        If POT is not installed.
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
    solve = _solver()
    a, b = check_one(a, b)
    if mass is None:
        X, Y, costs = check_problem(a[None, :], b[None, :], M, 1, may_forbid=True)
    else:
        X, Y = check_pair(a[None, :], b[None, :])
        assert Y is not None
        costs = check_ground_distance(M, X.shape[1], Y.shape[1])
        check_entries(costs, may_forbid=True)
        for histogram, name in ((X, "a"), (Y, "b")):
            _check_moves(histogram, name, mass)
    assert Y is not None
    plan = np.zeros(costs.shape)
    if mass == 0:
        return plan
    (rows, a), (columns, b) = _bins_with_mass(X, 0), _bins_with_mass(Y, 0)
    costs, _ = _about_one(costs[np.ix_(rows, columns)])
    n, m = costs.shape
    if mass is not None:
        a, b = a / mass, b / mass
        rest = np.maximum([b.sum() - 1.0, a.sum() - 1.0], 0.0)
        a, b = np.append(a, rest[0]), np.append(b, rest[1])
        costs = np.pad(costs, (0, 1))
        costs[n, m] = np.inf
    a, b, exponent = _about_one_mass(a, b)
    found = _allowed_plan(solve, a, b, costs)
    if found is None:
        refuse_impossible(np.inf)
    assert found is not None
    moved = np.ldexp(found[:n, :m], exponent)
    plan[np.ix_(rows, columns)] = moved if mass is None else mass * moved
    return plan


def _check_moves(histogram: Matrix, name: str, mass: float) -> None:
    """Raise unless the only row is a histogram that has so much mass."""
    _histrs.check_histograms(to_core(histogram), 1)
    if not (mass >= 0 and np.isfinite(mass)):
        raise ValueError(f"mass = {mass}: what moves is non-negative and finite.")
    if mass > (1 + _ROUNDING) * histogram.sum():
        raise ValueError(
            f"{name} sums to {histogram.sum()}, and mass = {mass:g} is to move: lower mass to what "
            "either has at most."
        )


def emd_of_pairs(
    X: Matrix,
    Y: Matrix,
    rows: NDArray[np.intp],
    columns: NDArray[np.intp],
    *,
    M: ArrayLike,
    n_jobs: int | None,
) -> NDArray[Any]:
    """Return the distances of ``X[rows[k]]`` and ``Y[columns[k]]``, as `emd_distances` does."""
    solve = _solver()
    X, other, M = check_problem(X, Y, M, n_jobs, may_forbid=True)
    assert other is not None

    def cost(i: int, j: int) -> float:
        return _cost(solve, _bins_with_mass(X, i), _bins_with_mass(other, j), M)

    costs = in_threads(cost, rows, columns, n_threads=count_threads(n_jobs))
    return np.array(costs).astype(X.dtype, copy=False)


def _cost(
    solve: Solver,
    source: tuple[NDArray[np.intp], Vector],
    target: tuple[NDArray[np.intp], Vector],
    M: Vector,
) -> float:
    (rows, a), (columns, b) = source, target
    a, b, mass = _about_one_mass(a, b)
    costs, unit = _about_one(M[np.ix_(rows, columns)])
    plan = _allowed_plan(solve, a, b, costs)
    if plan is None:
        return np.inf
    paid = costs[plan > 0] @ plan[plan > 0]
    with np.errstate(over="ignore"):
        return float(np.ldexp(paid, mass + unit))


def _allowed_plan(solve: Solver, a: Vector, b: Vector, costs: Vector) -> Vector | None:
    """Return the best plan that moves nothing where the cost is infinite, or None."""
    forbidden = np.isinf(costs)
    if not forbidden.any():
        return solve(a, b, np.ascontiguousarray(costs))
    # Any detour that avoids such a move is shorter: it visits no bin twice.
    finite = np.max(costs, where=~forbidden, initial=0.0)
    detour = 2.0 * sum(costs.shape) * (finite if finite > 0 else 1.0)
    plan = solve(a, b, np.where(forbidden, detour, costs))
    if plan[forbidden].sum() > _ROUNDING * a.sum():
        return None
    plan[forbidden] = 0.0
    return plan


def _about_one_mass(a: Vector, b: Vector) -> tuple[Vector, Vector, int]:
    """Return both divided by a power of 2, and the power, with one mass.

    POT takes small masses for none, and large ones without end; and it finds no plan between masses
    that differ by rounding.
    """
    a, exponent = _about_one(a)
    b, _ = _about_one(b)
    return a, b * (a.sum() / b.sum()), exponent


def _about_one(values: Vector) -> tuple[Vector, int]:
    """Return numbers divided by a power of 2, so that the largest is about 1, and the power."""
    largest = np.max(values, where=np.isfinite(values), initial=0.0)
    exponent = int(np.frexp(largest)[1])
    return np.ldexp(values, -exponent), exponent


def _solver() -> Solver:
    try:
        from ot import emd
    except ImportError as error:
        raise ImportError(
            "the exact earth mover's distance needs POT, which is not installed: "
            'pip install "histrs[emd]"'
        ) from error

    def solve(a: Vector, b: Vector, M: Vector) -> Vector:
        plan: Vector = emd(a, b, M, numItermax=10_000_000, check_marginals=False)
        return plan

    return solve


def check_problem(
    X: ArrayLike | Matrix,
    Y: ArrayLike | Matrix | None,
    M: ArrayLike,
    n_jobs: int | None,
    *,
    may_forbid: bool = False,
) -> tuple[Matrix, Matrix | None, NDArray[np.float64]]:
    """Return histograms of one mass and their ground distance, or raise at the first bad entry."""
    X, Y = check_pair(X, Y)
    M = check_ground_distance(M, X.shape[1], (X if Y is None else Y).shape[1])
    check_entries(M, may_forbid=may_forbid)
    core = to_core(X), None if Y is None else to_core(Y)
    _histrs.check_masses(*core, count_threads(n_jobs))
    return X, Y, M


def _bins_with_mass(X: Matrix, row: int) -> tuple[NDArray[np.intp], Vector]:
    if sparse.issparse(X):
        part = slice(X.indptr[row], X.indptr[row + 1])
        return X.indices[part].astype(np.intp), X.data[part].astype(np.float64)
    (bins,) = np.nonzero(X[row])
    return bins, X[row, bins].astype(np.float64)
