"""Kernels that are sums over columns."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike, NDArray

from histrs import _histrs
from histrs._estimator import documented
from histrs._typing import Matrix
from histrs.metrics._docs import PAIRS
from histrs.metrics._pairs import of_pairs


@documented(PAIRS)
def additive_chi2_kernel(
    X: ArrayLike | Matrix, Y: ArrayLike | Matrix | None = None, *, n_jobs: int | None = None
) -> NDArray[Any]:
    r"""Compute the additive chi-square kernel between rows.

    .. math:: k_0(x, y) = \sum_d \frac{2 x(d) y(d)}{x(d) + y(d)}

    The right-hand side of equation 4 of [1]_, whose left-hand side is off by a factor: for rows
    of sum 1 it is :math:`1 - \chi^2(x, y)/2`, not :math:`1 - \chi^2(x, y)`. The kernel is
    positive semi-definite. It differs from scikit-learn's function of that name, which returns
    :math:`-\chi^2(x, y)`.

    {of_a_kernel}

    See Also
    --------
    histrs.kernel_approximation.AdditiveChi2Map : Explicit features of this kernel.

    References
    ----------
    .. [1] F. Li, G. Lebanon and C. Sminchisescu, "Chebyshev approximations to the histogram
       chi-square kernel", CVPR 2012.

    Examples
    --------
    >>> from histrs.metrics import additive_chi2_kernel
    >>> additive_chi2_kernel([[1, 3], [1, 1]])
    array([[4. , 2.5],
           [2.5, 2. ]])
    """
    return of_pairs(_histrs.additive_chi2_gram, X, Y, n_jobs)


@documented(PAIRS)
def hellinger_kernel(
    X: ArrayLike | Matrix, Y: ArrayLike | Matrix | None = None, *, n_jobs: int | None = None
) -> NDArray[Any]:
    r"""Compute the Hellinger kernel between rows.

    .. math:: k(x, y) = \sum_d \sqrt{x(d) y(d)}

    Also known as the Bhattacharyya coefficient; see table 1 of [1]_. It is the inner product of
    the square roots.

    {of_a_kernel}

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
    return of_pairs(_histrs.hellinger_gram, X, Y, n_jobs)


@documented(PAIRS)
def intersection_kernel(
    X: ArrayLike | Matrix, Y: ArrayLike | Matrix | None = None, *, n_jobs: int | None = None
) -> NDArray[Any]:
    r"""Compute the histogram intersection kernel between rows.

    .. math:: k(x, y) = \sum_d \min(x(d), y(d))

    Equation 5 of [1]_. The kernel is positive semi-definite on non-negative vectors.

    {of_a_kernel}

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
    return of_pairs(_histrs.intersection_gram, X, Y, n_jobs)


@documented(PAIRS)
def jensen_shannon_kernel(
    X: ArrayLike | Matrix, Y: ArrayLike | Matrix | None = None, *, n_jobs: int | None = None
) -> NDArray[Any]:
    r"""Compute the Jensen-Shannon kernel between rows.

    .. math:: k(x, y) = \frac12 \sum_d \left( x(d) \log_2 \frac{x(d) + y(d)}{x(d)}
              + y(d) \log_2 \frac{x(d) + y(d)}{y(d)} \right)

    Table 1 of [1]_; a bin that is empty in either row adds nothing. For rows of sum 1 it is one
    less the Jensen-Shannon divergence in bits. The kernel is positive semi-definite.

    {of_a_kernel}

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
    return of_pairs(_histrs.jensen_shannon_gram, X, Y, n_jobs)
