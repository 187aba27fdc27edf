"""The nearest symmetric positive definite matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from histrs._checks.numbers import numbers_checked
from histrs._checks.validation import check_finite
from histrs.spd._stack import as_stack, symmetric


@numbers_checked
def project_to_spd(X: ArrayLike, *, floor: float = 1e-6) -> NDArray[Any]:
    r"""Project matrices on the symmetric positive definite ones.

    .. math:: P(X) = \sum_k \max(\lambda_k, \mathrm{floor}\, \lambda_{\max}) v_k v_k^T,
              \qquad \frac{X + X^T}{2} = \sum_k \lambda_k v_k v_k^T

    The result is the nearest to `X` in the Frobenius norm among symmetric matrices whose
    eigenvalues are at least ``floor`` times the largest [1]_.

    Parameters
    ----------
    X : array-like of shape (n, p, p) or (n, p * p)
        Square matrices: covariances of too few samples, with rounding errors, or averages.
    floor : float, default=1e-6
        Smallest eigenvalue of the result over its largest; in (0, 1]. Single precision cannot hold
        less than ``4 * p * eps``, about ``5e-7 * p``, which it gets at least.

    Returns
    -------
    P : ndarray of shape (n, p, p)
        Symmetric positive definite matrices in the precision of `X`. A matrix that was one
        already, with condition number at most ``1 / floor``, changes only by rounding.

    Raises
    ------
    ValueError
        If an entry is not finite, or a matrix has no positive eigenvalue; the message names it.

    See Also
    --------
    covariance_descriptors : Its `shrinkage` avoids singular covariances in the first place.

    References
    ----------
    .. [1] N. J. Higham, "Computing a nearest symmetric positive semidefinite matrix", Linear
       Algebra and its Applications 103, 1988.

    Examples
    --------
    >>> import numpy as np
    >>> from histrs.spd import project_to_spd
    >>> project_to_spd([[[1.0, 2.0], [2.0, 1.0]]], floor=0.1).round(3)
    array([[[1.65, 1.35],
            [1.35, 1.65]]])
    """
    if not 0.0 < floor <= 1.0:
        raise ValueError(f"floor = {floor} is out of range: a ratio of eigenvalues in (0, 1].")
    X = as_stack(X)
    check_finite(X, "X", "drop the matrix, or compute it from samples without missing values")
    # In double precision: single would lose a floor of 1e-6.
    wide = X.astype(np.float64)
    values, vectors = np.linalg.eigh(symmetric(wide))
    largest = values[:, -1]
    if np.any(largest <= 0.0):
        i = np.flatnonzero(largest <= 0.0)[0]
        raise ValueError(
            f"X[{i}] has no positive eigenvalue (the largest is {largest[i]:.3g}): no positive "
            "definite matrix is nearest to it; check how it was computed, or drop it."
        )
    # Rounding to single precision would make lower ones singular again.
    floor = max(floor, 4 * X.shape[1] * float(np.finfo(X.dtype).eps))
    values = np.maximum(values, floor * largest[:, None])
    projected = (vectors * values[:, None, :]) @ vectors.transpose(0, 2, 1)
    return symmetric(projected).astype(X.dtype)
