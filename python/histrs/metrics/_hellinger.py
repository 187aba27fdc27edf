"""Hellinger's kernel."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike, NDArray

from histrs import _histrs
from histrs._validation import Matrix, count_threads
from histrs.metrics._pairs import checked_pair


def hellinger_kernel(
    X: ArrayLike | Matrix, Y: ArrayLike | Matrix | None = None, *, n_jobs: int | None = None
) -> NDArray[Any]:
    r"""Compute the Hellinger kernel between rows.

    .. math:: k(x, y) = \sum_d \sqrt{x(d) y(d)}

    Also known as the Bhattacharyya coefficient; see table 1 of [1]_. It is the inner product of
    the square roots.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples_X, n_features)
        Histograms: non-negative, finite.
    Y : {array-like, sparse matrix} of shape (n_samples_Y, n_features), default=None
        Other histograms; None means `X`, and computes every pair once.
    n_jobs : int, default=None
        Number of threads; None and -1 mean one a core.

    Returns
    -------
    K : ndarray of shape (n_samples_X, n_samples_Y)
        Kernel matrix; float32 when both arguments are, else float64.

    Raises
    ------
    ValueError
        If an entry is negative, NaN or infinite (the message names it), or the numbers of
        columns differ.

    References
    ----------
    .. [1] A. Vedaldi and A. Zisserman, "Efficient additive kernels via explicit feature maps",
       IEEE Transactions on Pattern Analysis and Machine Intelligence, 2012.

    Examples
    --------
    >>> from histrs.metrics import hellinger_kernel
    >>> hellinger_kernel([[1, 4], [4, 9]])
    array([[ 5.,  8.],
           [ 8., 13.]])
    """
    left, right = checked_pair(X, Y)
    return _histrs.hellinger_gram(left, right, count_threads(n_jobs))
