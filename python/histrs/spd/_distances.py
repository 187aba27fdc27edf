"""Distances between symmetric positive definite matrices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from histrs import _histrs
from histrs._checks.validation import count_threads
from histrs._estimator import documented
from histrs.spd._docs import MATRICES
from histrs.spd._stack import Stack, as_stack, same_dtype

OnError: TypeAlias = Literal["raise", "nan"]
AllPairs: TypeAlias = Callable[[Stack, Stack | None, int], NDArray[Any]]
Paired: TypeAlias = Callable[[Stack, Stack, int], NDArray[Any]]


@documented(MATRICES)
def jbld_distances(
    X: ArrayLike,
    Y: ArrayLike | None = None,
    *,
    paired: bool = False,
    on_error: OnError = "raise",
    n_jobs: int | None = None,
) -> NDArray[Any]:
    r"""Compute Jensen-Bregman log-det divergences between covariance matrices.

    .. math:: D_J(X, Y) = \log\det\frac{X + Y}{2} - \frac{1}{2} \log\det(X Y)

    Equation 1 of [1]_, due to [2]_. It is symmetric, invariant under :math:`X \to A X A^T` of
    both, and exactly 0 for equal matrices. As in the paper there is no square root: it is
    ``numpy.sqrt`` of the result that obeys the triangle inequality [3]_, and that pyRiemann's
    ``distance_logdet`` returns.

    Parameters
    ----------
    X : array-like of shape (n_X, p, p) or (n_X, p * p)
        Symmetric positive definite matrices.
    {Y}
    {paired}
    {on_error}
    {n_jobs}

    Returns
    -------
    D : ndarray of shape (n_X, n_Y), or (n_X,) with `paired`
        Divergences; float32 when both arguments are, else float64. Sums are in double precision:
        the error is about ``1e-16 * p`` times the largest condition number.

    Raises
    ------
    ValueError
        If a matrix is not finite, not symmetric or not positive definite (the message names
        it), or shapes do not match.

    See Also
    --------
    airm_distances : The geodesic distance that it stands in for.
    histrs.spd.project_to_spd : Makes matrices positive definite.

    References
    ----------
    .. [1] M. J. Kusner, N. I. Kolkin, S. Tyree and K. Q. Weinberger, "Image data compression for
       covariance and histogram descriptors", 2015.
    .. [2] A. Cherian, S. Sra, A. Banerjee and N. Papanikolopoulos, "Efficient similarity search
       for covariance matrices via the Jensen-Bregman LogDet divergence", ICCV 2011.
    .. [3] S. Sra, "A new metric on the manifold of kernel matrices with application to matrix
       geometric means", NIPS 2012.

    Examples
    --------
    >>> import numpy as np
    >>> from histrs.metrics import jbld_distances
    >>> X = np.stack([np.eye(2), np.diag([4.0, 1.0])])
    >>> jbld_distances(X).round(4)
    array([[0.    , 0.2231],
           [0.2231, 0.    ]])
    """
    return _distances(_histrs.jbld_distances, _histrs.jbld_paired, X, Y, paired, on_error, n_jobs)


@documented(MATRICES)
def airm_distances(
    X: ArrayLike,
    Y: ArrayLike | None = None,
    *,
    paired: bool = False,
    on_error: OnError = "raise",
    n_jobs: int | None = None,
) -> NDArray[Any]:
    r"""Compute affine-invariant Riemannian distances between covariance matrices.

    .. math:: D_R(X, Y) = \left\| \log(X^{-1/2} Y X^{-1/2}) \right\|_F
              = \Big( \sum_k \log^2 \lambda_k(X^{-1} Y) \Big)^{1/2}

    Definition 1 of [1]_: the length of the geodesic between two matrices in the natural metric
    of the cone of symmetric positive definite matrices [2]_. pyRiemann's ``distance_riemann`` is
    the same.

    Parameters
    ----------
    X : array-like of shape (n_X, p, p) or (n_X, p * p)
        Symmetric positive definite matrices.
    {Y}
    {paired}
    {on_error}
    {n_jobs}

    Returns
    -------
    D : ndarray of shape (n_X, n_Y), or (n_X,) with `paired`
        Distances; float32 when both arguments are, else float64. Computed in double precision;
        exactly 0 for equal matrices.

    Raises
    ------
    ValueError
        If a matrix is not finite, not symmetric or not positive definite (the message names it),
        two matrices are so far apart that the smallest eigenvalue of :math:`X^{-1} Y` is lost in
        the rounding of the largest, or shapes do not match.

    See Also
    --------
    jbld_distances : Nearly the same order of neighbours for a fraction of the work.

    References
    ----------
    .. [1] M. J. Kusner, N. I. Kolkin, S. Tyree and K. Q. Weinberger, "Image data compression for
       covariance and histogram descriptors", 2015.
    .. [2] X. Pennec, P. Fillard and N. Ayache, "A Riemannian framework for tensor computing",
       International Journal of Computer Vision, 2006.

    Examples
    --------
    >>> import numpy as np
    >>> from histrs.metrics import airm_distances
    >>> X = np.stack([np.eye(2), np.diag([4.0, 1.0])])
    >>> airm_distances(X).round(4)
    array([[0.    , 1.3863],
           [1.3863, 0.    ]])
    """
    return _distances(_histrs.airm_distances, _histrs.airm_paired, X, Y, paired, on_error, n_jobs)


def check_definite(X: Stack, n_jobs: int | None = None) -> None:
    """Refuse what is not positive definite, by its index."""
    jbld_distances(X, X, paired=True, n_jobs=n_jobs)


def _distances(
    all_pairs: AllPairs,
    of_paired: Paired,
    X: ArrayLike,
    Y: ArrayLike | None,
    paired: bool,
    on_error: OnError,
    n_jobs: int | None,
) -> NDArray[Any]:
    if on_error not in ("raise", "nan"):
        raise ValueError(f'on_error = {on_error!r} is not known: use "raise" or "nan".')
    n_threads = count_threads(n_jobs)
    X = as_stack(X, "X")
    if paired:
        if Y is None:
            raise ValueError("paired=True compares X[i] with Y[i]: give Y.")
        X, Y = same_dtype(X, as_stack(Y, "Y"))
        # Sets of different sizes have no pairs, whatever is in them.
        if on_error == "raise" or X.shape != Y.shape:
            return of_paired(X, Y, n_threads)
        good = _definite(X, n_threads) & _definite(Y, n_threads)
        of_pairs = np.full(len(X), np.nan, dtype=X.dtype)
        of_pairs[good] = _paired_or_nan(of_paired, X[good], Y[good], n_threads)
        return of_pairs
    if Y is not None:
        X, Y = same_dtype(X, as_stack(Y, "Y"))
    if on_error == "raise" or (Y is not None and X.shape[1] != Y.shape[1]):
        return all_pairs(X, Y, n_threads)
    good = _definite(X, n_threads)
    others = good if Y is None else _definite(Y, n_threads)
    D = np.full((len(good), len(others)), np.nan, dtype=X.dtype)
    part = None if Y is None else Y[others]
    D[np.ix_(good, others)] = _all_or_nan(all_pairs, X[good], part, n_threads)
    return D


def _definite(X: Stack, n_threads: int) -> NDArray[np.bool_]:
    """Say which matrices are positive definite: halves of a set that is not all so are tried."""
    try:
        _histrs.jbld_paired(X, X, n_threads)
    except ValueError:
        if len(X) == 1:
            return np.zeros(1, dtype=bool)
        half = len(X) // 2
        return np.concatenate([_definite(X[:half], n_threads), _definite(X[half:], n_threads)])
    return np.ones(len(X), dtype=bool)


def _all_or_nan(f: AllPairs, X: Stack, Y: Stack | None, n_threads: int) -> NDArray[Any]:
    """Return distances of definite matrices, NaN where they are too far apart."""
    try:
        return f(X, Y, n_threads)
    except ValueError:
        Y = X if Y is None else Y
        if len(X) > 1:
            parts = np.array_split(X, 2)
            return np.concatenate([_all_or_nan(f, part, Y, n_threads) for part in parts])
        if len(Y) > 1:
            parts = np.array_split(Y, 2)
            return np.concatenate([_all_or_nan(f, X, part, n_threads) for part in parts], axis=1)
        return np.full((1, 1), np.nan)


def _paired_or_nan(f: Paired, X: Stack, Y: Stack, n_threads: int) -> NDArray[Any]:
    try:
        return f(X, Y, n_threads)
    except ValueError:
        if len(X) == 1:
            return np.full(1, np.nan)
        half = len(X) // 2
        first = _paired_or_nan(f, X[:half], Y[:half], n_threads)
        return np.concatenate([first, _paired_or_nan(f, X[half:], Y[half:], n_threads)])
