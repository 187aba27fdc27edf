"""Hellinger's kernel."""

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
def hellinger_kernel(
    X: ArrayLike | Matrix, Y: ArrayLike | Matrix | None = None, *, n_jobs: int | None = None
) -> NDArray[Any]:
    r"""Compute the Hellinger kernel between rows.

    .. math:: k(x, y) = \sum_d \sqrt{x(d) y(d)}

    Also known as the Bhattacharyya coefficient; see table 1 of [1]_. It is the inner product of
    the square roots.

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
    >>> from histrs.metrics import hellinger_kernel
    >>> hellinger_kernel([[1, 4], [4, 9]])
    array([[ 5.,  8.],
           [ 8., 13.]])
    """
    left, right = checked_pair(X, Y)
    return _histrs.hellinger_gram(left, right, count_threads(n_jobs))
