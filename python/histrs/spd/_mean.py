"""Means of covariance matrices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, Protocol, TypedDict, Unpack, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from histrs._checks.numbers import numbers_checked
from histrs._estimator import documented
from histrs.spd._docs import MATRICES
from histrs.spd._geometry import GEOMETRIES, Mean, MetricName
from histrs.spd._logarithms import Float64
from histrs.spd._stack import as_stack


class Search(TypedDict, total=False):
    """Parameters of a mean that is searched for, beside what is returned."""

    sample_weight: ArrayLike | None
    tol: float
    max_iter: int
    n_jobs: int | None


class SearchedMean(Protocol):
    """The type of a mean that may tell of its search."""

    @overload
    def __call__(
        self, X: ArrayLike, *, return_n_iter: Literal[False] = ..., **search: Unpack[Search]
    ) -> NDArray[Any]: ...
    @overload
    def __call__(
        self, X: ArrayLike, *, return_n_iter: Literal[True], **search: Unpack[Search]
    ) -> tuple[NDArray[Any], int]: ...


def _searched(mean: Callable[..., Any]) -> SearchedMean:
    return mean


@_searched
@documented(MATRICES)
@numbers_checked
def jbld_mean(
    X: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    tol: float = 1e-8,
    max_iter: int = 100,
    return_n_iter: bool = False,
    n_jobs: int | None = None,
) -> NDArray[Any] | tuple[NDArray[Any], int]:
    r"""Compute the mean of covariance matrices in the Jensen-Bregman log-det divergence.

    .. math:: \bar X = \arg\min_C \sum_i w_i D_J(C, X_i)

    This is the mean of [1]_. The search is the same as in :func:`airm_mean`, because the
    fixed-point iteration of the paper halves the error in a step at best.

    Parameters
    ----------
    {X_and_weights}
    tol : float, default=1e-8
        Largest residual :math:`\| C^{1/2} \nabla C^{1/2} \|_F`, where :math:`\nabla` is twice the
        gradient of the weighted mean divergence: it does not change with scale or basis.
    {search}

    See Also
    --------
    airm_mean : The geometric mean, to which it is close.

    References
    ----------
    .. [1] A. Cherian, S. Sra, A. Banerjee and N. Papanikolopoulos, "Jensen-Bregman LogDet
       divergence with application to efficient similarity search for covariance matrices", IEEE
       TPAMI 35, 2013.

    Examples
    --------
    For matrices that commute it is close to the geometric mean:

    >>> import numpy as np
    >>> from histrs.spd import jbld_mean
    >>> jbld_mean([np.diag([1.0, 4.0]), np.diag([4.0, 1.0])]).round(6)
    array([[2., 0.],
           [0., 2.]])
    """
    found = _mean("jbld", X, sample_weight, n_jobs, tol, max_iter)
    return (found.matrix, found.n_iter) if return_n_iter else found.matrix


@_searched
@documented(MATRICES)
@numbers_checked
def airm_mean(
    X: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    tol: float = 1e-8,
    max_iter: int = 100,
    return_n_iter: bool = False,
    n_jobs: int | None = None,
) -> NDArray[Any] | tuple[NDArray[Any], int]:
    r"""Compute the mean of covariance matrices in the affine-invariant Riemannian metric.

    .. math:: \bar X = \arg\min_C \sum_i w_i D_R(C, X_i)^2

    The Karcher or geometric mean [1]_. Gradient descent on the manifold with the steps of Barzilai
    and Borwein [2]_, started at the arithmetic mean; the first step is that of [3]_.

    Parameters
    ----------
    {X_and_weights}
    tol : float, default=1e-8
        Largest residual :math:`\| \sum_i w_i \log(C^{-1/2} X_i C^{-1/2}) \|_F`, which does not
        change with scale or basis: about the distance to the mean.
    {search}

    See Also
    --------
    jbld_mean, log_euclidean_mean : Other means.
    TangentSpace : Coordinates around a mean.

    References
    ----------
    .. [1] M. Moakher, "A differential geometric approach to the geometric mean of symmetric
       positive-definite matrices", SIAM J. Matrix Anal. Appl. 26, 2005.
    .. [2] B. Iannazzo and M. Porcelli, "The Riemannian Barzilai-Borwein method with nonmonotone
       line search and the matrix geometric mean computation", IMA J. Numer. Anal. 38, 2018.
    .. [3] D. A. Bini and B. Iannazzo, "Computing the Karcher mean of symmetric positive definite
       matrices", Linear Algebra and its Applications 438, 2013.

    Examples
    --------
    >>> import numpy as np
    >>> from histrs.spd import airm_mean
    >>> airm_mean([np.diag([1.0, 4.0]), np.diag([4.0, 16.0])]).round(6)
    array([[2., 0.],
           [0., 8.]])
    """
    found = _mean("airm", X, sample_weight, n_jobs, tol, max_iter)
    return (found.matrix, found.n_iter) if return_n_iter else found.matrix


@documented(MATRICES)
def log_euclidean_mean(
    X: ArrayLike, *, sample_weight: ArrayLike | None = None, n_jobs: int | None = None
) -> NDArray[Any]:
    r"""Compute the log-Euclidean mean of covariance matrices.

    .. math:: \bar X = \exp \sum_i w_i \log X_i, \qquad \sum_i w_i = 1

    The mean of [1]_ is in closed form. It is not invariant under a change of basis that is not
    orthogonal.

    Parameters
    ----------
    {X_and_weights}
    {n_jobs}

    Returns
    -------
    C : ndarray of shape (p, p)
        The mean, in the precision of `X`.

    References
    ----------
    .. [1] V. Arsigny, P. Fillard, X. Pennec and N. Ayache, "Geometric means in a novel vector space
       structure on symmetric positive-definite matrices", SIAM J. Matrix Anal. Appl. 29, 2007.

    Examples
    --------
    >>> import numpy as np
    >>> from histrs.spd import log_euclidean_mean
    >>> log_euclidean_mean([np.diag([1.0, 4.0]), np.diag([4.0, 16.0])]).round(6)
    array([[2., 0.],
           [0., 8.]])
    """
    return _mean("logeuclid", X, sample_weight, n_jobs).matrix


def _mean(
    metric: MetricName,
    X: ArrayLike,
    sample_weight: ArrayLike | None,
    n_jobs: int | None,
    tol: float = 1.0,
    max_iter: int = 1,
) -> Mean:
    if not tol > 0.0:
        raise ValueError(f"tol = {tol} is out of range: it must be above 0.")
    if max_iter < 1:
        raise ValueError(f"max_iter = {max_iter} is out of range: it must be at least 1.")
    stack = as_stack(X)
    weights = checked_weights(sample_weight, len(stack))
    found = GEOMETRIES[metric].mean(stack, weights, n_jobs, tol=tol, max_iter=max_iter)
    found.warn_above(tol, f"{metric}_mean", ". Raise max_iter or tol.")
    return found._replace(matrix=found.matrix.astype(stack.dtype))


def checked_weights(sample_weight: ArrayLike | None, n: int) -> Float64:
    """Return the weights of matrices, one each where there are none; errors name the first bad."""
    if n == 0:
        raise ValueError("X has no matrices: a mean takes at least one.")
    if sample_weight is None:
        return np.ones(n)
    weights = np.array(sample_weight, dtype=np.float64)
    if weights.shape != (n,):
        raise ValueError(
            f"sample_weight has shape {weights.shape}, expected ({n},): one per matrix."
        )
    bad = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0.0)))
    if len(bad):
        raise ValueError(
            f"sample_weight[{bad[0]}] = {weights[bad[0]]}: weights must be finite and not "
            "negative; drop the matrix, or give it weight 0."
        )
    if not np.any(weights):
        raise ValueError("sample_weight is zero everywhere: give some matrix a positive weight.")
    return weights
