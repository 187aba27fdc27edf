"""Means of covariance matrices."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, TypeAlias, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import lapack
from sklearn.exceptions import ConvergenceWarning

from histrs import _histrs
from histrs._checks.numbers import numbers_checked
from histrs._checks.validation import count_threads
from histrs._estimator import documented
from histrs._warnings import warn
from histrs.spd._distances import check_definite
from histrs.spd._docs import MATRICES
from histrs.spd._stack import Stack, as_stack, symmetric

Float64: TypeAlias = NDArray[np.float64]
MetricName: TypeAlias = Literal["airm", "riemann", "jbld", "logeuclid", "euclid"]

# Whose exponential, and the sum of some of them, double precision holds.
_LARGEST_LOGARITHM = 700.0


@overload
def jbld_mean(
    X: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    tol: float = 1e-8,
    max_iter: int = 100,
    return_n_iter: Literal[False] = False,
    n_jobs: int | None = None,
) -> NDArray[Any]: ...
@overload
def jbld_mean(
    X: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    tol: float = 1e-8,
    max_iter: int = 100,
    return_n_iter: Literal[True],
    n_jobs: int | None = None,
) -> tuple[NDArray[Any], int]: ...
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

    of [1]_, found as :func:`airm_mean` finds its own: the fixed-point iteration of the paper halves
    the error in a step at best.

    Parameters
    ----------
    {X}
    {sample_weight}
    tol : float, default=1e-8
        Largest residual :math:`\| C^{1/2} \nabla C^{1/2} \|_F`, where :math:`\nabla` is twice the
        gradient of the weighted mean divergence: it does not change with scale or basis.
    {max_iter}
    {return_n_iter}
    {n_jobs}

    Returns
    -------
    {C}
    {n_iter}

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
    found = _mean(X, "jbld", sample_weight, tol, max_iter, n_jobs)
    return (found.matrix, found.n_iter) if return_n_iter else found.matrix


@overload
def airm_mean(
    X: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    tol: float = 1e-8,
    max_iter: int = 100,
    return_n_iter: Literal[False] = False,
    n_jobs: int | None = None,
) -> NDArray[Any]: ...
@overload
def airm_mean(
    X: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    tol: float = 1e-8,
    max_iter: int = 100,
    return_n_iter: Literal[True],
    n_jobs: int | None = None,
) -> tuple[NDArray[Any], int]: ...
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
    {X}
    {sample_weight}
    tol : float, default=1e-8
        Largest residual :math:`\| \sum_i w_i \log(C^{-1/2} X_i C^{-1/2}) \|_F`, which does not
        change with scale or basis: about the distance to the mean.
    {max_iter}
    {return_n_iter}
    {n_jobs}

    Returns
    -------
    {C}
    {n_iter}

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
    found = _mean(X, "airm", sample_weight, tol, max_iter, n_jobs)
    return (found.matrix, found.n_iter) if return_n_iter else found.matrix


@documented(MATRICES)
def log_euclidean_mean(
    X: ArrayLike, *, sample_weight: ArrayLike | None = None, n_jobs: int | None = None
) -> NDArray[Any]:
    r"""Compute the log-Euclidean mean of covariance matrices.

    .. math:: \bar X = \exp \sum_i w_i \log X_i, \qquad \sum_i w_i = 1

    of [1]_: in closed form, but not invariant under a change of basis that is not orthogonal.

    Parameters
    ----------
    {X}
    {sample_weight}
    {n_jobs}

    Returns
    -------
    {C}

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
    return _mean(X, "logeuclid", sample_weight, 1.0, 1, n_jobs).matrix


class Found(NamedTuple):
    """A mean, with the iterations that it took and what is left of the gradient."""

    matrix: NDArray[Any]
    n_iter: int
    residual: float


def _mean(
    X: ArrayLike,
    metric: MetricName,
    sample_weight: ArrayLike | None,
    tol: float,
    max_iter: int,
    n_jobs: int | None,
) -> Found:
    if not tol > 0.0:
        raise ValueError(f"tol = {tol} is out of range: it must be above 0.")
    if max_iter < 1:
        raise ValueError(f"max_iter = {max_iter} is out of range: it must be at least 1.")
    stack = as_stack(X)
    weights = weights_of(sample_weight, len(stack))
    found = mean_of(stack, weights, metric, tol=tol, max_iter=max_iter, n_jobs=n_jobs)
    if found.residual > tol:
        warn(
            f"{metric}_mean stopped after {found.n_iter} iterations with a residual of "
            f"{found.residual:.2e}, above the tolerance {tol:.2e}. Raise max_iter or tol.",
            ConvergenceWarning,
        )
    return found._replace(matrix=found.matrix.astype(stack.dtype))


def weights_of(sample_weight: ArrayLike | None, n: int) -> NDArray[np.float64]:
    if n == 0:
        raise ValueError("X has no matrices: a mean takes at least one.")
    if sample_weight is None:
        return np.full(n, 1.0 / n)
    weights = np.asarray(sample_weight, dtype=np.float64)
    if weights.shape != (n,):
        raise ValueError(
            f"sample_weight has shape {weights.shape}, expected ({n},): one per matrix."
        )
    bad = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0.0)))
    if len(bad):
        raise ValueError(
            f"sample_weight[{bad[0]}] = {weights[bad[0]]}: weights are finite and non-negative; "
            "drop the matrix, or give it weight 0."
        )
    if not np.any(weights):
        raise ValueError("sample_weight is 0 everywhere: a mean with every weight zero is none.")
    weights = weights / weights.max()
    return np.asarray(weights / weights.sum())


def mean_of(
    stack: Stack,
    weights: Float64,
    metric: MetricName,
    *,
    tol: float = 1e-8,
    max_iter: int = 100,
    start: Float64 | None = None,
    n_jobs: int | None = None,
) -> Found:
    """Return a mean in double precision; `weights` add up to 1.

    Of "airm" and "jbld" the search begins at `start`, None being the arithmetic mean.
    """
    if metric in ("euclid", "logeuclid") or len(stack) == 1 or not np.all(weights > 0.0):
        # The search itself looks at all that have weight.
        check_definite(stack, n_jobs)
    some = weights > 0.0
    stack, weights = (stack, weights) if some.all() else (stack[some], weights[some])
    if metric == "logeuclid":
        rows = _histrs.tangent_vectors(stack, None, count_threads(n_jobs))
        return Found(exponential(unpacked((weights @ rows)[None])[0]), 0, 0.0)
    if metric == "euclid" or len(stack) == 1:
        arithmetic = np.einsum("n,nij->ij", weights, stack.astype(np.float64))
        return Found(symmetric(arithmetic), 0, 0.0)
    dispersion = "jbld" if metric == "jbld" else "airm"
    n_threads = count_threads(n_jobs)

    matrix, n_iter, residual = _histrs.dispersion_mean(
        stack, weights, dispersion, start, tol, max_iter, n_threads
    )
    return Found(matrix, n_iter, residual)


def exponential(S: Float64) -> Float64:
    """Return the exponential of symmetric matrices."""
    values, vectors = np.linalg.eigh(S)
    if np.max(values, initial=0.0) > _LARGEST_LOGARITHM:
        raise ValueError(
            f"The logarithm of a matrix has the eigenvalue {np.max(values):.1e}: its exponential "
            "overflows. Scale the matrices down."
        )
    scaled = vectors * np.exp(values)[..., None, :]
    return symmetric(scaled @ np.swapaxes(vectors, -1, -2))


def unpacked(rows: NDArray[Any]) -> Float64:
    """Return symmetric matrices of rows of upper triangles, the inverse of `tangent_rows`."""
    p = (int(np.sqrt(8 * rows.shape[1] + 1)) - 1) // 2
    i, j = np.triu_indices(p)
    out = np.empty((len(rows), p, p))
    out[:, i, j] = out[:, j, i] = np.where(i == j, 1.0, np.sqrt(0.5)) * rows
    return out


def roots(M: Float64) -> tuple[Float64, Float64]:
    """Return the symmetric root of a positive definite matrix, and its inverse.

    By a Cholesky factor and its singular values, which lose half the digits that eigenvalues of `M`
    would.
    """
    factor = np.linalg.cholesky(M)
    left, values, right = np.linalg.svd(factor)
    # Of small triangles, `solve_triangular` mostly waits for threads.
    inverse, _ = lapack.dtrtri(factor, lower=1)
    whitener = np.ascontiguousarray(symmetric((left @ right) @ inverse))
    return symmetric((left * values) @ left.T), whitener
