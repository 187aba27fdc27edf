"""The Jensen-Shannon kernel."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike, NDArray

from histrs import _histrs
from histrs._validation import Matrix, count_threads
from histrs.metrics._pairs import checked_pair


def jensen_shannon_kernel(
    X: ArrayLike | Matrix, Y: ArrayLike | Matrix | None = None, *, n_jobs: int | None = None
) -> NDArray[Any]:
    r"""Compute the Jensen-Shannon kernel between rows.

    .. math:: k(x, y) = \frac12 \sum_d \left( x(d) \log_2 \frac{x(d) + y(d)}{x(d)}
              + y(d) \log_2 \frac{x(d) + y(d)}{y(d)} \right)

    Table 1 of [1]_; a bin that is empty in either row adds nothing. For rows of sum 1 it is one
    less the Jensen-Shannon divergence in bits. The kernel is positive semi-definite.

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
    >>> from histrs.metrics import jensen_shannon_kernel
    >>> jensen_shannon_kernel([[1, 0], [0.5, 0.5]]).round(4)
    array([[1.    , 0.6887],
           [0.6887, 1.    ]])
    """
    left, right = checked_pair(X, Y)
    return _histrs.jensen_shannon_gram(left, right, count_threads(n_jobs))
