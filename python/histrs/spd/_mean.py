"""The mean in the Jensen-Bregman log-det divergence."""

from typing import Any, Literal, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning

from histrs._warnings import warn
from histrs.spd._distances import check_definite
from histrs.spd._stack import Stack, as_stack, symmetric


@overload
def jbld_mean(
    X: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    tol: float = 1e-8,
    max_iter: int = 100,
    return_n_iter: Literal[False] = False,
) -> NDArray[Any]: ...
@overload
def jbld_mean(
    X: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    tol: float = 1e-8,
    max_iter: int = 100,
    return_n_iter: Literal[True],
) -> tuple[NDArray[Any], int]: ...
def jbld_mean(
    X: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    tol: float = 1e-8,
    max_iter: int = 100,
    return_n_iter: bool = False,
) -> NDArray[Any] | tuple[NDArray[Any], int]:
    r"""Compute the mean of covariance matrices in the Jensen-Bregman log-det divergence.

    .. math:: \bar X = \arg\min_C \sum_i w_i D_J(C, X_i)

    The fixed-point iteration of [1]_, started at the arithmetic mean:

    .. math:: C \leftarrow \Big( \sum_i w_i \Big(\frac{C + X_i}{2}\Big)^{-1} \Big)^{-1},
              \qquad \sum_i w_i = 1

    Parameters
    ----------
    X : array-like of shape (n, p, p) or (n, p * p)
        Symmetric positive definite matrices, at least one.
    sample_weight : array-like of shape (n,), default=None
        Non-negative weights, not all 0; None means equal ones.
    tol : float, default=1e-8
        Largest residual :math:`\| C^{1/2} \nabla C^{1/2} \|_F`, where :math:`\nabla` is twice the
        gradient of the weighted mean divergence: it does not change with scale or basis.
    max_iter : int, default=100
        Most iterations; a ConvergenceWarning gives the residual when they did not suffice.
    return_n_iter : bool, default=False
        Also return the number of iterations.

    Returns
    -------
    C : ndarray of shape (p, p)
        The mean, in the precision of `X`.
    n_iter : int
        With `return_n_iter`: iterations made.

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
    if not tol > 0.0:
        raise ValueError(f"tol = {tol} is out of range: it must be above 0.")
    if max_iter < 1:
        raise ValueError(f"max_iter = {max_iter} is out of range: it must be at least 1.")
    stack = as_stack(X)
    weights = _weights(sample_weight, len(stack))
    check_definite(stack)
    wide = stack.astype(np.float64)
    C, n_iter, residual = _fixed_point(wide, weights, tol, max_iter)
    if residual > tol:
        warn(
            f"jbld_mean stopped after {n_iter} iterations with a residual of {residual:.2e}, "
            f"above the tolerance {tol:.2e}. Raise max_iter or tol.",
            ConvergenceWarning,
        )
    mean = C.astype(stack.dtype)
    return (mean, n_iter) if return_n_iter else mean


def _weights(sample_weight: ArrayLike | None, n: int) -> NDArray[np.float64]:
    if n == 0:
        raise ValueError("X has no matrices: a mean takes at least one.")
    if sample_weight is None:
        return np.full(n, 1.0 / n)
    weights = np.asarray(sample_weight, dtype=np.float64)
    if weights.shape != (n,):
        raise ValueError(f"sample_weight has shape {weights.shape}, expected ({n},): one a matrix.")
    bad = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0.0)))
    if len(bad):
        raise ValueError(
            f"sample_weight[{bad[0]}] = {weights[bad[0]]}: weights are finite and non-negative; "
            "drop the matrix, or give it weight 0."
        )
    if not np.any(weights):
        raise ValueError("sample_weight is 0 everywhere: give at least one matrix some weight.")
    weights = weights / weights.max()
    return np.asarray(weights / weights.sum())


def _fixed_point(
    X: Stack, weights: NDArray[np.float64], tol: float, max_iter: int
) -> tuple[NDArray[np.float64], int, float]:
    C = np.einsum("n,nij->ij", weights, X)
    identity = np.eye(len(C))
    residual = np.inf
    for n_iter in range(max_iter + 1):
        inverse = np.einsum("n,nij->ij", weights, np.linalg.inv((C + X) / 2))
        root = np.linalg.cholesky(C)
        # As large as with the symmetric root of C: they differ by a rotation.
        residual = float(np.linalg.norm(root.T @ inverse @ root - identity))
        if residual <= tol or n_iter == max_iter:
            break
        C = symmetric(np.linalg.inv(inverse))
    return C, n_iter, residual
