"""Bounds below the earth mover's distance, each much cheaper than the distance."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.spatial.distance import cdist

from histrs._checks.numbers import numbers_checked
from histrs._checks.scale import exponent_of, may_overflow
from histrs._checks.validation import check_random_state, real_array, stored
from histrs._estimator import documented
from histrs._typing import Array, Matrix
from histrs.transport._arguments import check_pair, without_infinity
from histrs.transport._docs import TRANSPORT
from histrs.transport._emd import check_problem

Distances = Array


@documented(TRANSPORT)
def centroid_bounds(
    X: ArrayLike | Matrix,
    Y: ArrayLike | Matrix | None = None,
    *,
    positions: ArrayLike,
    n_jobs: int | None = None,
) -> Distances:
    r"""Bound the earth mover's distance by the distance of the centres of mass.

    .. math:: D(a, b) \ge \Bigl\| \sum_i a_i p_i - \sum_j b_j p_j \Bigr\|_2

    It holds where the cost matrix is the Euclidean distance of the bins' positions
    :math:`p`, or larger (Rubner, Tomasi and Guibas 2000). Its cost is one product.

    Parameters
    ----------
    {X_Y_of_bounds}
    {positions}
    {n_jobs_of_checks}

    Returns
    -------
    {bounds}

    Examples
    --------
    >>> from histrs.transport import centroid_bounds
    >>> centroid_bounds([[1, 0, 0], [0, 1, 1]][:1], [[0, 0, 1]], positions=[[0], [1], [2]])
    array([[2.]])
    """
    X, Y, positions = _with_positions(X, Y, positions, n_jobs)
    X, Y, positions, exponent = _in_units(X, Y, positions)
    left = np.asarray(X @ positions)
    right = left if Y is None else np.asarray(Y @ positions)
    return _out_of_units(cdist(left, right), exponent)


@documented(TRANSPORT)
def projection_bounds(
    X: ArrayLike | Matrix,
    Y: ArrayLike | Matrix | None = None,
    *,
    positions: ArrayLike,
    n_jobs: int | None = None,
) -> Distances:
    r"""Bound the earth mover's distance by its exact value along one axis at a time.

    .. math:: D(a, b) \ge \max_k \int \bigl| F^{(k)}_a(t) - F^{(k)}_b(t) \bigr| \, dt

    :math:`F^{(k)}` is the cumulative mass along axis :math:`k`, and the integral is the distance
    of the projections on it (Cohen and Guibas 1997). It holds where the cost matrix is the
    Euclidean distance of the bins' positions, or larger, and is never below the difference of
    the centres of mass along an axis. The cost of a pair is proportional to the number of
    distinct coordinates.

    Parameters
    ----------
    {X_Y_of_bounds}
    {positions}
    {n_jobs_of_checks}

    Returns
    -------
    {bounds}

    Examples
    --------
    >>> from histrs.transport import projection_bounds
    >>> projection_bounds([[0, 2, 0]], [[1, 0, 1]], positions=[[0], [1], [2]])
    array([[2.]])
    """
    X, Y, positions = _with_positions(X, Y, positions, n_jobs)
    X, Y, positions, exponent = _in_units(X, Y, positions)
    bounds = np.zeros((X.shape[0], (X if Y is None else Y).shape[0]))
    for along in _along_axes(X, Y, positions):
        np.maximum(bounds, along, out=bounds)
    return _out_of_units(bounds, exponent)


@documented(TRANSPORT)
def wasserstein_1d(
    X: ArrayLike | Matrix,
    Y: ArrayLike | Matrix | None = None,
    *,
    positions: ArrayLike | None = None,
    n_jobs: int | None = None,
) -> Distances:
    r"""Compute the exact Wasserstein distance between rows over a line.

    .. math:: D(a, b) = \int \bigl| F_a(t) - F_b(t) \bigr| \, dt

    :math:`F` is the cumulative mass (equation 2.37 of [1]_). It equals
    `histrs.metrics.emd_distances` where the cost is the distance of positions, and takes time
    proportional to the number of bins.

    Parameters
    ----------
    {X_Y_of_bounds}
    positions : array-like of shape (n_bins,), default=None
        Where the bins are, in any order; None means 0, 1, 2 and so on.
    {n_jobs_of_checks}

    Returns
    -------
    D : ndarray of shape (n_samples_X, n_samples_Y)
        Distances.

    References
    ----------
    .. [1] G. Peyré and M. Cuturi, "Computational optimal transport", 2019.

    Examples
    --------
    >>> from histrs.transport import wasserstein_1d
    >>> wasserstein_1d([[1, 0, 0], [0, 1, 1]][:1], [[0, 0, 1], [1, 0, 0]], positions=[0, 1, 3])
    array([[3., 0.]])
    """
    X, Y = check_pair(X, Y)
    places = np.arange(X.shape[1]) if positions is None else real_array(positions, "positions")
    if places.ndim != 1:
        raise ValueError(f"positions has shape {places.shape}, expected one number for each bin.")
    return projection_bounds(X, Y, positions=places[:, None], n_jobs=n_jobs)


@documented(TRANSPORT)
@numbers_checked
def sliced_wasserstein(
    X: ArrayLike | Matrix,
    Y: ArrayLike | Matrix | None = None,
    *,
    positions: ArrayLike,
    n_projections: int = 50,
    random_state: int | np.random.RandomState | None = None,
    n_jobs: int | None = None,
) -> Distances:
    r"""Compute the sliced Wasserstein distance between rows.

    .. math:: D(a, b) = \mathbb{E}_\theta \; W(a_\theta, b_\theta)

    The mean, over random directions :math:`\theta`, of the exact distance of order 1 of the
    projections on them (section 2.4 of [1]_). It is never above the earth mover's distance with
    Euclidean costs.

    Parameters
    ----------
    {X_Y_of_bounds}
    {positions}
    n_projections : int, default=50
        Number of directions.
    random_state : int, RandomState instance or None, default=None
        Draws the directions.
    {n_jobs_of_checks}

    Returns
    -------
    D : ndarray of shape (n_samples_X, n_samples_Y)
        Distances.

    References
    ----------
    .. [1] N. Bonneel, J. Rabin, G. Peyré and H. Pfister, "Sliced and Radon Wasserstein barycenters
       of measures", Journal of Mathematical Imaging and Vision, 2015.

    Examples
    --------
    On a line there is one direction:

    >>> from histrs.transport import sliced_wasserstein
    >>> sliced_wasserstein([[1, 0]], [[0, 1]], positions=[[0], [2]], random_state=0)
    array([[2.]])
    """
    if n_projections < 1:
        raise ValueError(f"n_projections = {n_projections}: must be at least 1.")
    X, Y, positions = _with_positions(X, Y, positions, n_jobs)
    X, Y, positions, exponent = _in_units(X, Y, positions)
    random = check_random_state(random_state)
    directions = random.standard_normal((positions.shape[1], n_projections))
    directions /= np.linalg.norm(directions, axis=0)
    total = np.zeros((X.shape[0], (X if Y is None else Y).shape[0]))
    for along in _along_axes(X, Y, positions @ directions):
        total += along
    return _out_of_units(total / n_projections, exponent)


def _along_axes(X: Matrix, Y: Matrix | None, positions: Distances) -> Iterator[Distances]:
    """Yield the exact distances of the projections on each axis."""
    for axis in positions.T:
        left = _weighted_cumulative_mass(X, axis)
        right = left if Y is None else _weighted_cumulative_mass(Y, axis)
        yield cdist(left, right, "cityblock")


@documented(TRANSPORT)
def relaxed_bounds(
    X: ArrayLike | Matrix,
    Y: ArrayLike | Matrix | None = None,
    *,
    M: ArrayLike,
    n_jobs: int | None = None,
) -> Distances:
    r"""Bound the earth mover's distance by dropping one of its two marginals.

    .. math::

        D(a, b) \ge \max\Bigl( \sum_i a_i \min_{j: b_j > 0} M_{ij},
                               \sum_j b_j \min_{i: a_i > 0} M_{ij} \Bigr)

    The relaxed word mover's distance (Kusner et al. 2015). Nearest-bin distances to a histogram
    are found once for all pairs with it (Atasu et al. 2017). The bound holds for every cost matrix,
    and is strong where histograms are sparse.

    Parameters
    ----------
    {X_Y_of_bounds}
    M : array-like of shape (n_bins_X, n_bins_Y)
        Cost matrix: non-negative, infinite where transport is forbidden. An infinite entry
        counts as the largest finite one here, with which the bound still holds.
    {n_jobs_of_checks}

    Returns
    -------
    {bounds}

    Examples
    --------
    >>> from histrs.transport import relaxed_bounds
    >>> relaxed_bounds([[2, 0, 0]], [[0, 1, 1]], M=[[0, 1, 2], [1, 0, 1], [2, 1, 0]])
    array([[3.]])
    """
    X, Y, M = check_problem(X, Y, M, n_jobs)
    X, Y, M, exponent = _in_units(X, Y, without_infinity(M))
    other = X if Y is None else Y
    forward = _to_nearest(X, M, other)
    backward = _to_nearest(other, M.T, X).T
    return _out_of_units(np.maximum(forward, backward), exponent)


def _in_units(
    X: Matrix, Y: Matrix | None, lengths: Distances
) -> tuple[Matrix, Matrix | None, Distances, int]:
    """Return masses and lengths of about 1, whose products and squares stay within the range.

    The last is the exponent of the power of 2 that bounds are then to be multiplied by.
    """
    mass = max(exponent_of(stored(Z)) for Z in (X, Y) if Z is not None)
    length = exponent_of(lengths)
    X = _divided(X, mass)
    Y = None if Y is None else _divided(Y, mass)
    return X, Y, np.ldexp(lengths, -length), mass + length


def _divided(X: Matrix, exponent: int) -> Matrix:
    values = np.ldexp(stored(X).astype(np.float64), -exponent)
    if not sparse.issparse(X):
        return values
    return type(X)((values, X.indices[: X.nnz], X.indptr), shape=X.shape)


def _out_of_units(bounds: Distances, exponent: int) -> Distances:
    # Infinite where the distance is beyond double precision.
    with may_overflow():
        return np.asarray(np.ldexp(bounds, exponent), dtype=np.float64)


def _to_nearest(X: Matrix, M: Distances, Y: Matrix) -> Distances:
    """Return what rows of `X` cost to the nearest bins with mass of each row of `Y`."""
    used = np.flatnonzero(np.asarray((X > 0).sum(axis=0)).ravel())
    # Bins in rows: those of a row of `Y` are read one after the other.
    costs = np.ascontiguousarray(M[used].T)
    nearest = np.empty((len(used), Y.shape[0]))
    for j in range(Y.shape[0]):
        row = Y[[j]].toarray()[0] if sparse.issparse(Y) else Y[j]
        nearest[:, j] = costs[row > 0].min(axis=0)
    return np.asarray(X[:, used] @ nearest)


def _with_positions(
    X: ArrayLike | Matrix, Y: ArrayLike | Matrix | None, positions: ArrayLike, n_jobs: int | None
) -> tuple[Matrix, Matrix | None, Distances]:
    X, Y = check_pair(X, Y)
    positions = real_array(positions, "positions")
    if positions.ndim != 2 or len(positions) != X.shape[1]:
        raise ValueError(
            f"positions has shape {positions.shape}, expected ({X.shape[1]}, n_dimensions): a row "
            "for each column of X."
        )
    if not np.isfinite(positions).all():
        row, column = np.argwhere(~np.isfinite(positions))[0]
        raise ValueError(
            f"positions[{row}, {column}] = {positions[row, column]}: give finite numbers."
        )
    n_columns = X.shape[1] if Y is None else Y.shape[1]
    check_problem(X, Y, np.zeros((X.shape[1], n_columns)), n_jobs)
    if n_columns != X.shape[1]:
        raise ValueError(
            f"X has {X.shape[1]} columns but Y has {n_columns}; give both the same bins."
        )
    return X, Y, positions


def _weighted_cumulative_mass(X: Matrix, axis: NDArray[Any]) -> Distances:
    """Return the cumulative mass between distinct coordinates, times their distance."""
    coordinates, index = np.unique(axis, return_inverse=True)
    gather = sparse.csr_array(
        (np.ones(len(axis)), (np.arange(len(axis)), index)), shape=(len(axis), len(coordinates))
    )
    mass = np.asarray((gather.T @ X.T).toarray() if sparse.issparse(X) else X @ gather)
    mass = mass.T if sparse.issparse(X) else mass
    cumulative: Distances = np.cumsum(mass, axis=1)[:, :-1] * np.diff(coordinates)
    return cumulative
