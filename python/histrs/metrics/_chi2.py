"""The chi-square distance, and the kernels that come of it."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike, NDArray

from histrs import _histrs
from histrs._checks.numbers import numbers_checked
from histrs._checks.validation import count_threads
from histrs._estimator import documented
from histrs._typing import Matrix
from histrs.metrics._docs import PAIRS
from histrs.metrics._pairs import checked_pair


@documented(PAIRS)
def chi2_distances(
    X: ArrayLike | Matrix, Y: ArrayLike | Matrix | None = None, *, n_jobs: int | None = None
) -> NDArray[Any]:
    r"""Compute the chi-square distance between rows.

    .. math:: \chi^2(x, y) = \sum_d \frac{(x(d) - y(d))^2}{x(d) + y(d)}

    Equation 14 of [1]_; bins that are empty in both rows add nothing. It is the square of a
    metric: :math:`\chi^2(x, y) = |c(x) - c(y)|^2` for every feature map `c` of
    `additive_chi2_kernel`. Some authors put a factor one half before the sum.

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
    {errors}

    References
    ----------
    .. [1] F. Li, G. Lebanon and C. Sminchisescu, "Chebyshev approximations to the histogram
       chi-square kernel", CVPR 2012.

    Examples
    --------
    >>> from histrs.metrics import chi2_distances
    >>> chi2_distances([[1, 3], [1, 1]])
    array([[0., 1.],
           [1., 0.]])
    """
    left, right = checked_pair(X, Y)
    return _histrs.chi2_distances(left, right, count_threads(n_jobs))


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
    left, right = checked_pair(X, Y)
    return _histrs.additive_chi2_gram(left, right, count_threads(n_jobs))


@documented(PAIRS)
@numbers_checked
def exp_chi2_kernel(
    X: ArrayLike | Matrix,
    Y: ArrayLike | Matrix | None = None,
    gamma: float = 1.0,
    *,
    n_jobs: int | None = None,
) -> NDArray[Any]:
    r"""Compute the exponential chi-square kernel between rows.

    .. math:: k(x, y) = \exp(-\gamma \chi^2(x, y))

    Equation 1 of [1]_ with a scale, see `chi2_distances`; the same as scikit-learn's
    `chi2_kernel`.

    Parameters
    ----------
    {X}
    {Y}
    gamma : float, default=1.0
        Inverse scale of the distance: positive and finite.
    {n_jobs}

    Returns
    -------
    {K}

    Raises
    ------
    ValueError
        If an entry is negative, NaN or infinite (the message names it), `gamma` is not positive,
        or the numbers of columns differ.

    See Also
    --------
    histrs.kernel_approximation.ExpChi2Sampler : Random features of this kernel.

    References
    ----------
    .. [1] F. Li, G. Lebanon and C. Sminchisescu, "Chebyshev approximations to the histogram
       chi-square kernel", CVPR 2012.

    Examples
    --------
    >>> from histrs.metrics import exp_chi2_kernel
    >>> exp_chi2_kernel([[1, 3], [1, 1]], gamma=0.5).round(3)
    array([[1.   , 0.607],
           [0.607, 1.   ]])
    """
    left, right = checked_pair(X, Y)
    return _histrs.exp_chi2_gram(left, right, gamma, count_threads(n_jobs))
