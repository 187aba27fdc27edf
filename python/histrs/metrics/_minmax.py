"""The MinMax kernel, and one less it, its distance."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike, NDArray

from histrs import _histrs
from histrs._estimator import documented
from histrs._typing import Matrix
from histrs.metrics._docs import PAIRS
from histrs.metrics._pairs import of_pairs


@documented(PAIRS)
def minmax_kernel(
    X: ArrayLike | Matrix, Y: ArrayLike | Matrix | None = None, *, n_jobs: int | None = None
) -> NDArray[Any]:
    r"""Compute the MinMax kernel between rows: how much of what either has, both have.

    .. math:: k(x, y) = \frac{\sum_d \min(x(d), y(d))}{\sum_d \max(x(d), y(d))}

    Section 2 of [1]_; two empty rows have kernel 1. It is also known as the count Tanimoto kernel
    of molecules, as Ruzicka similarity, and on zeros and ones as the Jaccard index. It is positive
    semi-definite on non-negative vectors, between 0 and 1, and does not depend on their common
    scale. Rows whose entries add up to infinity are refused.

    {of_a_kernel}

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
    return of_pairs(_histrs.minmax_gram, X, Y, n_jobs)


@documented(PAIRS)
def minmax_distances(
    X: ArrayLike | Matrix, Y: ArrayLike | Matrix | None = None, *, n_jobs: int | None = None
) -> NDArray[Any]:
    r"""Compute the MinMax distance between rows.

    .. math:: D(x, y) = 1 - \frac{\sum_d \min(x(d), y(d))}{\sum_d \max(x(d), y(d))}
              = \frac{\sum_d |x(d) - y(d)|}{\sum_d \max(x(d), y(d))}

    A metric, between 0 and 1; two empty rows are at distance 0. It is also known as the Soergel
    distance, and on zeros and ones as the Jaccard distance. Its kernel is `minmax_kernel`. Rows
    whose entries add up to infinity are refused.

    {of_distances}

    Examples
    --------
    >>> from histrs.metrics import minmax_distances
    >>> minmax_distances([[1, 2], [3, 0]], [[2, 2], [0, 5], [1, 2]])
    array([[0.25      , 0.66666667, 0.        ],
           [0.6       , 1.        , 0.8       ]])
    """
    return of_pairs(_histrs.minmax_distances, X, Y, n_jobs)
