"""The kernel that the Euclidean distance induces."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.utils.extmath import row_norms

from histrs._checks.validation import stored
from histrs._typing import Matrix
from histrs.metrics._pairs import check_columns, checked_vectors

# Distances below this part of the rows' lengths are computed from differences, so many at once.
_NEAR = 1e-3
_PAIRS = 4096


def energy_distance_kernel(
    X: ArrayLike | Matrix, Y: ArrayLike | Matrix | None = None
) -> NDArray[Any]:
    r"""Compute the kernel that the Euclidean distance induces between rows of any sign.

    .. math:: k(x, y) = \frac12 \left( |x| + |y| - |x - y| \right)

    The distance-induced kernel of [1]_ about the origin: its maximum mean discrepancy is the energy
    distance, and it is the covariance of Brownian motion over :math:`R^d`. It is positive
    semi-definite. In one dimension and on non-negative numbers it is :math:`\min(x, y)`, so that
    the intersection kernel is its sum over columns.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples_X, n_features)
        Rows: finite.
    Y : {array-like, sparse matrix} of shape (n_samples_Y, n_features), default=None
        Other rows; None means `X`.

    Returns
    -------
    K : ndarray of shape (n_samples_X, n_samples_Y)
        Kernel matrix; float32 when both arguments are, else float64.

    Raises
    ------
    ValueError
        If an entry is NaN or infinite, or the numbers of columns differ.

    See Also
    --------
    histrs.kernel_approximation.SlicedDistanceMap : Makes it an intersection kernel of projections.

    References
    ----------
    .. [1] D. Sejdinovic, B. Sriperumbudur, A. Gretton and K. Fukumizu, "Equivalence of
       distance-based and RKHS-based statistics in hypothesis testing", The Annals of Statistics,
       2013.

    Examples
    --------
    >>> from histrs.metrics import energy_distance_kernel
    >>> energy_distance_kernel([[3.0, 4.0], [-3.0, 4.0]])
    array([[5., 2.],
           [2., 5.]])
    """
    left = checked_vectors(X, "X")
    right = left if Y is None else checked_vectors(Y, "Y")
    check_columns(left, right)
    dtype = np.result_type(left.dtype, right.dtype)
    # At size 1, no square overflows.
    size = max(_largest_entry(left), _largest_entry(right)) or 1.0
    left, right = (_divided(Z, size) for Z in (left, right))
    D = _distances(left, right)
    if Y is None:
        D = 0.5 * (D + D.T)
    K = row_norms(left)[:, None] + row_norms(right) - D
    K *= 0.5 * size
    kernel: NDArray[Any] = K.astype(dtype, copy=False)
    return kernel


def _distances(X: Matrix, Y: Matrix) -> NDArray[np.float64]:
    """Return Euclidean distances, also between rows that are nearly equal, to most digits."""
    if 0 in X.shape or 0 in Y.shape:
        return np.zeros((X.shape[0], Y.shape[0]))
    D: NDArray[np.float64] = euclidean_distances(X, Y)
    lengths = row_norms(X)[:, None] + row_norms(Y)
    # Found by way of inner products, small distances have lost the digits in which rows agree.
    near = np.argwhere(_NEAR * lengths > D)
    for start in range(0, len(near), _PAIRS):
        i, j = near[start : start + _PAIRS].T
        D[i, j] = row_norms(X[i] - Y[j])
    return D


def _divided(X: Matrix, size: float) -> Matrix:
    divided: Any = X.astype(np.float64) / size
    checked: Matrix = divided
    return checked


def _largest_entry(X: Matrix) -> float:
    return float(np.max(np.abs(stored(X)), initial=0.0))
