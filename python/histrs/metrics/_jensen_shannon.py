"""The Jensen-Shannon kernel."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike, NDArray

from histrs import _histrs
from histrs._checks.validation import count_threads
from histrs._estimator import documented
from histrs._typing import Matrix
from histrs.metrics._docs import PAIRS
from histrs.metrics._pairs import checked_pair


@documented(PAIRS)
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
    {X}
    {Y}
    {n_jobs}

    Returns
    -------
    {K}

    Raises
    ------
    {errors}

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
