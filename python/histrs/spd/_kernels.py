"""Kernels between covariance matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.distance import cdist

from histrs._checks.numbers import numbers_checked
from histrs._estimator import documented
from histrs._warnings import warn
from histrs.spd._distances import airm_distances, jbld_distances
from histrs.spd._docs import MATRICES
from histrs.spd._logarithms import tangent_rows
from histrs.spd._stack import as_stack


@documented(MATRICES)
@numbers_checked
def jbld_kernel(
    X: ArrayLike, Y: ArrayLike | None = None, *, gamma: float = 0.5, n_jobs: int | None = None
) -> NDArray[Any]:
    r"""Compute the kernel of the Jensen-Bregman log-det divergence.

    .. math:: k(X, Y) = e^{-\gamma D_J(X, Y)}
              = \Big( \frac{\sqrt{\det X \det Y}}{\det \frac{X + Y}{2}} \Big)^\gamma

    It is positive semi-definite, for all matrices of :math:`p` rows, if and only if :math:`\gamma`
    is one of 1/2, 1, 3/2, ..., :math:`(p - 2)/2`, or at least :math:`(p - 1)/2` [1]_.

    Parameters
    ----------
    {X_and_Y}
    gamma : float, default=0.5
        Kernel coefficient; above 0. Any multiple of 1/2 is allowed at every size.
    {n_jobs_and_K}

    Warns
    -----
    UserWarning
        If the kernel is not positive semi-definite at `gamma`, with the nearest values at which it
        is.

    See Also
    --------
    jbld_distances : The divergence.
    log_euclidean_kernel : Positive definite at every `gamma`.

    References
    ----------
    .. [1] S. Sra, "A new metric on the manifold of kernel matrices with application to matrix
       geometric means", NIPS 2012, theorem on :math:`1 / \det(X + Y)^\beta`.

    Examples
    --------
    >>> import numpy as np
    >>> from histrs.metrics import jbld_kernel
    >>> X = np.stack([np.eye(2), np.diag([4.0, 1.0])])
    >>> jbld_kernel(X, gamma=1.0).round(3)
    array([[1. , 0.8],
           [0.8, 1. ]])
    """
    X = as_stack(X, "X")
    gamma = _coefficient(gamma, X.shape[1])
    near = nearest_definite(gamma, X.shape[1])
    if gamma not in near:
        options = " or ".join(f"{value:g}" for value in near)
        warn(
            f"gamma = {gamma:g}: for matrices of {X.shape[1]} rows exp(-gamma D_J) is positive "
            f"definite only at multiples of 1/2 and from {(X.shape[1] - 1) / 2:g} on; take "
            f"{options}."
        )
    return _exponential_of(jbld_distances(X, Y, n_jobs=n_jobs), gamma)


@documented(MATRICES)
@numbers_checked
def log_euclidean_kernel(
    X: ArrayLike,
    Y: ArrayLike | None = None,
    *,
    gamma: float | None = None,
    n_jobs: int | None = None,
) -> NDArray[Any]:
    r"""Compute the log-Euclidean Gaussian kernel.

    .. math:: k(X, Y) = e^{-\gamma \| \log X - \log Y \|_F^2}

    Positive definite at every :math:`\gamma` [1]_: logarithms are points of a vector space.

    Parameters
    ----------
    {X_and_Y}
    {gamma}
    {n_jobs_and_K}

    See Also
    --------
    jbld_kernel : Does not depend on the basis.
    histrs.spd.Whitening : Moves the mean to the identity first, where logarithms are about the
        coordinates of the tangent space.

    References
    ----------
    .. [1] S. Jayasumana, R. Hartley, M. Salzmann, H. Li and M. Harandi, "Kernel methods on the
       Riemannian manifold of symmetric positive definite matrices", CVPR 2013.

    Examples
    --------
    >>> import numpy as np
    >>> from histrs.metrics import log_euclidean_kernel
    >>> X = np.stack([np.eye(2), np.diag([np.e, 1.0])])
    >>> log_euclidean_kernel(X, gamma=1.0).round(3)
    array([[1.   , 0.368],
           [0.368, 1.   ]])
    """
    X = as_stack(X, "X")
    gamma = _coefficient(gamma, X.shape[1])
    left = right = tangent_rows(X, None, n_jobs)
    if Y is not None:
        Y = as_stack(Y, "Y")
        if Y.shape[1] != X.shape[1]:
            raise ValueError(
                f"Y has matrices of {Y.shape[1]} rows, and X of {X.shape[1]}: give both "
                "covariances of the same features in the same order."
            )
        try:
            right = tangent_rows(Y, None, n_jobs)
        except ValueError as error:
            raise ValueError(str(error).replace("X[", "Y[")) from None
    squares = cdist(left.astype(np.float64), right.astype(np.float64), "sqeuclidean")
    return _exponential_of(squares, gamma).astype(np.result_type(left, right), copy=False)


@documented(MATRICES)
@numbers_checked
def airm_kernel(
    X: ArrayLike,
    Y: ArrayLike | None = None,
    *,
    gamma: float | None = None,
    n_jobs: int | None = None,
) -> NDArray[Any]:
    r"""Compute the Gaussian of the affine-invariant Riemannian distance.

    .. math:: k(X, Y) = e^{-\gamma D_R(X, Y)^2}

    It is **not** positive definite in general, at no :math:`\gamma` for all sets of matrices: the
    space is curved [1]_. On real data its negative eigenvalues are often small. Support vector
    machines with it are among the best for EEG; a Gaussian process or a kernel ridge with it may
    fail.
    :func:`jbld_kernel` is its definite cousin: :math:`D_R^2 \approx 8 D_J` for near matrices.

    Parameters
    ----------
    {X_and_Y}
    {gamma}
    {n_jobs_and_K}

    See Also
    --------
    airm_distances : The distance.

    References
    ----------
    .. [1] A. Feragen, F. Lauze and S. Hauberg, "Geodesic exponential kernels: when curvature and
       linearity conflict", CVPR 2015.

    Examples
    --------
    >>> import numpy as np
    >>> from histrs.metrics import airm_kernel
    >>> X = np.stack([np.eye(2), np.diag([np.e, 1.0])])
    >>> airm_kernel(X, gamma=1.0).round(3)
    array([[1.   , 0.368],
           [0.368, 1.   ]])
    """
    X = as_stack(X, "X")
    gamma = _coefficient(gamma, X.shape[1])
    return _exponential_of(airm_distances(X, Y, n_jobs=n_jobs) ** 2, gamma)


def nearest_definite(gamma: float, p: int) -> tuple[float, ...]:
    """Return the values nearest to `gamma` where the kernel of the divergence is definite.

    Itself alone if it is one.
    """
    gamma = float(gamma)
    if gamma >= (p - 1) / 2 or (2.0 * gamma).is_integer():
        return (gamma,)
    below, above = np.floor(2.0 * gamma) / 2.0, np.ceil(2.0 * gamma) / 2.0
    return (float(above),) if below == 0.0 else (float(below), float(above))


def _coefficient(gamma: float | None, p: int) -> float:
    """Return the coefficient, checked; None is one over the number of coordinates."""
    gamma = 2.0 / (p * (p + 1)) if gamma is None else gamma
    if not 0.0 < gamma < np.inf:
        raise ValueError(f"gamma = {gamma} is out of range: it must be above 0.")
    return gamma


def _exponential_of(distances: NDArray[Any], gamma: float) -> NDArray[Any]:
    """Return ``exp(-gamma * distances)`` in their precision, in place."""
    distances *= -float(gamma)
    np.exp(distances, out=distances)
    return distances
