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
from histrs.spd._stack import Stack, as_stack

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

    Equation 1 of [1]_, due to [2]_. It is symmetric, invariant under :math:`X \to A X A^T` of both,
    and exactly 0 for equal matrices. As in the paper, there is no square root. ``numpy.sqrt`` of
    the result obeys the triangle inequality [3]_. pyRiemann's ``distance_logdet`` returns this
    root.

    Parameters
    ----------
    {X_and_Y}
    {paired_and_more}

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
    airm_distances : The geodesic distance that it approximates.
    histrs.spd.project_to_spd : Makes matrices positive definite.

    References
    ----------
    {kusner}
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
    {X_and_Y}
    {paired_and_more}

    Returns
    -------
    D : ndarray of shape (n_X, n_Y), or (n_X,) with `paired`
        Distances; float32 when both arguments are, else float64. Computed in double precision;
        exactly 0 for equal matrices.

    Raises
    ------
    ValueError
        If a matrix is not finite, not symmetric or not positive definite; the message names it. If
        shapes do not match. If two matrices are so far apart that the smallest eigenvalue of
        :math:`X^{-1} Y` is lost in the rounding of the largest.

    See Also
    --------
    jbld_distances : Nearly the same order of neighbours for a fraction of the work.

    References
    ----------
    {kusner}
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
    _histrs.jbld_paired(X, X, count_threads(n_jobs))


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
    if Y is not None:
        Y = as_stack(Y, "Y")
        X, Y = (Z.astype(np.result_type(X, Y), copy=False) for Z in (X, Y))
    elif paired:
        raise ValueError("paired=True compares X[i] with Y[i]: give Y.")
    other = X if Y is None else Y
    fit = X.shape[1:] == other.shape[1:] and (not paired or len(X) == len(other))
    # Sets of different sizes have no pairs, whatever is in them.
    if on_error == "raise" or not fit:
        return of_paired(X, other, n_threads) if paired else all_pairs(X, Y, n_threads)
    good = _definite(X, n_threads)
    others = good if Y is None else _definite(Y, n_threads)
    if paired:
        good = good & others
        of_pairs = np.full(len(X), np.nan, dtype=X.dtype)
        of_pairs[good] = _or_nan(lambda X, Y: of_paired(X, Y, n_threads), X[good], other[good])
        return of_pairs
    D = np.full((len(good), len(others)), np.nan, dtype=X.dtype)
    try:
        D[np.ix_(good, others)] = all_pairs(X[good], None if Y is None else Y[others], n_threads)
    except ValueError:
        for i in np.flatnonzero(good):
            x = X[i : i + 1]
            D[i, others] = _or_nan(lambda Y, x=x: all_pairs(x, Y, n_threads)[0], other[others])
    return D


def _definite(X: Stack, n_threads: int) -> NDArray[np.bool_]:
    """Say which matrices are positive definite."""
    bad: NDArray[np.bool_] = np.isnan(_or_nan(lambda X: _histrs.jbld_paired(X, X, n_threads), X))
    return ~bad


def _or_nan(of_pairs: Callable[..., NDArray[Any]], *stacks: Stack) -> NDArray[Any]:
    """Return distances of pairs, NaN of those that have none: halves are tried where one fails."""
    try:
        return of_pairs(*stacks)
    except ValueError:
        half = len(stacks[0]) // 2
        if half == 0:
            return np.full(1, np.nan)
        parts = [[Z[:half] for Z in stacks], [Z[half:] for Z in stacks]]
        return np.concatenate([_or_nan(of_pairs, *part) for part in parts])
