"""The chi-square distance, and the exponential kernel of it."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike, NDArray

from histrs import _histrs
from histrs._checks.numbers import numbers_checked
from histrs._estimator import documented
from histrs._typing import Matrix
from histrs.metrics._docs import PAIRS
from histrs.metrics._pairs import of_pairs


@documented(PAIRS)
def chi2_distances(
    X: ArrayLike | Matrix, Y: ArrayLike | Matrix | None = None, *, n_jobs: int | None = None
) -> NDArray[Any]:
    r"""Compute the chi-square distance between rows.

    .. math:: \chi^2(x, y) = \sum_d \frac{(x(d) - y(d))^2}{x(d) + y(d)}

    Equation 14 of [1]_; bins that are empty in both rows add nothing. It is the square of a
    metric: :math:`\chi^2(x, y) = |c(x) - c(y)|^2` for every feature map `c` of
    `additive_chi2_kernel`. Some authors put a factor one half before the sum.

    {of_distances}

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
    return of_pairs(_histrs.chi2_distances, X, Y, n_jobs)


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

    {X_and_Y}
    gamma : float, default=1.0
        Inverse scale of the distance: positive and finite.
    {n_jobs_and_K}

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
    return of_pairs(_histrs.exp_chi2_gram, X, Y, n_jobs, gamma)
