"""The exact earth mover's distance, and cheap bounds below it."""

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from histrs import _histrs
from histrs._threads import in_threads
from histrs._validation import Matrix, count_threads, to_core
from histrs.transport._arguments import check_entries, check_ground_distance, check_pair

Vector = NDArray[np.float64]
Solver = Callable[[Vector, Vector, Vector], float]


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
        Ground distance; finite, non-negative.
    n_jobs : int, default=None
        Number of threads; None and -1 mean one a core. POT holds the interpreter's lock for a
        part of the time.

    Returns
    -------
    D : ndarray of shape (n_samples_X, n_samples_Y)
        Distances; float32 when both arguments are, else float64.

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
    X, Y, M = check_problem(X, Y, M, n_jobs)
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
    X, other, M = check_problem(X, Y, M, n_jobs)
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
    # POT takes small masses for none, and large ones without end: all are about 1 for it.
    a, mass = _about_one(a)
    b, _ = _about_one(b)
    # One mass exactly, or POT finds no plan.
    b = b * (a.sum() / b.sum())
    costs, unit = _about_one(M[np.ix_(rows, columns)])
    with np.errstate(over="ignore"):
        return float(np.ldexp(solve(a, b, np.ascontiguousarray(costs)), mass + unit))


def _about_one(values: Vector) -> tuple[Vector, int]:
    """Return numbers divided by a power of 2, so that the largest is about 1, and the power."""
    exponent = int(np.frexp(np.max(values, initial=0.0))[1])
    return np.ldexp(values, -exponent), exponent


def _solver() -> Solver:
    try:
        from ot import emd2
    except ImportError as error:
        raise ImportError(
            'emd_distances needs POT, which is not installed: pip install "histrs[emd]"'
        ) from error

    def solve(a: Vector, b: Vector, M: Vector) -> float:
        return float(emd2(a, b, M, numItermax=10_000_000, check_marginals=False))

    return solve


def check_problem(
    X: ArrayLike | Matrix, Y: ArrayLike | Matrix | None, M: ArrayLike, n_jobs: int | None
) -> tuple[Matrix, Matrix | None, NDArray[np.float64]]:
    """Return histograms of one mass and their ground distance, or raise at the first bad entry."""
    X, Y = check_pair(X, Y)
    M = check_ground_distance(M, X.shape[1], (X if Y is None else Y).shape[1])
    check_entries(M)
    core = to_core(X), None if Y is None else to_core(Y)
    _histrs.check_masses(*core, count_threads(n_jobs))
    return X, Y, M


def _bins_with_mass(X: Matrix, row: int) -> tuple[NDArray[np.intp], Vector]:
    if sparse.issparse(X):
        part = slice(X.indptr[row], X.indptr[row + 1])
        return X.indices[part].astype(np.intp), X.data[part].astype(np.float64)
    (bins,) = np.nonzero(X[row])
    return bins, X[row, bins].astype(np.float64)
