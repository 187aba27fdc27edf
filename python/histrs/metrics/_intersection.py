"""The histogram intersection kernel."""

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
def intersection_kernel(
    X: ArrayLike | Matrix, Y: ArrayLike | Matrix | None = None, *, n_jobs: int | None = None
) -> NDArray[Any]:
    r"""Compute the histogram intersection kernel between rows.

    .. math:: k(x, y) = \sum_d \min(x(d), y(d))

    Equation 5 of [1]_. The kernel is positive semi-definite on non-negative vectors.

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
    .. [1] E. Rodner, A. Freytag, P. Bodesheim, B. Fröhlich and J. Denzler, "Large-scale Gaussian
       process inference with generalized histogram intersection kernels for visual recognition
       tasks", International Journal of Computer Vision, 2016.

    Examples
    --------
    >>> from histrs.metrics import intersection_kernel
    >>> intersection_kernel([[1, 2], [3, 0]], [[2, 2], [0, 5], [1, 1]])
    array([[3., 2., 2.],
           [2., 0., 1.]])
    """
    left, right = checked_pair(X, Y)
    return _histrs.intersection_gram(left, right, count_threads(n_jobs))
