"""The MinMax kernel, and one less it, its distance."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike, NDArray

from histrs import _histrs
from histrs._checks.validation import count_threads
from histrs._estimator import documented
from histrs._typing import Matrix
from histrs.metrics._docs import COUNTS, PAIRS
from histrs.metrics._pairs import checked_pair


@documented(PAIRS, COUNTS)
def minmax_kernel(
    X: ArrayLike | Matrix, Y: ArrayLike | Matrix | None = None, *, n_jobs: int | None = None
) -> NDArray[Any]:
    r"""Compute the MinMax kernel between rows: how much of what either has, both have.

    .. math:: k(x, y) = \frac{\sum_d \min(x(d), y(d))}{\sum_d \max(x(d), y(d))}

    Section 2 of [1]_; two empty rows have kernel 1. It is also known as the count Tanimoto kernel
    of molecules, as Ruzicka similarity, and on zeros and ones as the Jaccard index. It is positive
    semi-definite on non-negative vectors, and does not depend on their common scale.

    Parameters
    ----------
    {X}
    {Y}
    {n_jobs}

    Returns
    -------
    K : ndarray of shape (n_samples_X, n_samples_Y)
        Kernel matrix, of entries between 0 and 1; float32 when both arguments are, else float64.

    Raises
    ------
    ValueError
        If an entry is negative, NaN or infinite (the message names it), the entries of a row add up
        to infinity, or the numbers of columns differ.

    See Also
    --------
    minmax_distances : One less the kernel.
    histrs.gaussian_process.MinMaxGPRegressor : Gaussian processes with this kernel.

    References
    ----------
    .. [1] L. Ralaivola, S. J. Swamidass, H. Saigo and P. Baldi, "Graph kernels for chemical
       informatics", Neural Networks, 2005.

    Examples
    --------
    >>> from histrs.metrics import minmax_kernel
    >>> minmax_kernel([[1, 2], [3, 0]], [[2, 2], [0, 5], [1, 2]])
    array([[0.75      , 0.33333333, 1.        ],
           [0.4       , 0.        , 0.2       ]])
    """
    left, right = checked_pair(X, Y)
    return _histrs.minmax_gram(left, right, count_threads(n_jobs))


@documented(PAIRS, COUNTS)
def minmax_distances(
    X: ArrayLike | Matrix, Y: ArrayLike | Matrix | None = None, *, n_jobs: int | None = None
) -> NDArray[Any]:
    r"""Compute the MinMax distance between rows.

    .. math:: D(x, y) = 1 - \frac{\sum_d \min(x(d), y(d))}{\sum_d \max(x(d), y(d))}
              = \frac{\sum_d |x(d) - y(d)|}{\sum_d \max(x(d), y(d))}

    A metric, between 0 and 1; two empty rows are at distance 0. It is also known as the Soergel
    distance, and on zeros and ones as the Jaccard distance. Its kernel is `minmax_kernel`.

    Parameters
    ----------
    {X}
    {Y}
    {n_jobs}

    Returns
    -------
    {D}

    Raises
    ------
    ValueError
        If an entry is negative, NaN or infinite (the message names it), the entries of a row add up
        to infinity, or the numbers of columns differ.

    Examples
    --------
    >>> from histrs.metrics import minmax_distances
    >>> minmax_distances([[1, 2], [3, 0]], [[2, 2], [0, 5], [1, 2]])
    array([[0.25      , 0.66666667, 0.        ],
           [0.6       , 1.        , 0.8       ]])
    """
    left, right = checked_pair(X, Y)
    return _histrs.minmax_distances(left, right, count_threads(n_jobs))
