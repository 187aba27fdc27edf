"""Cholesky factorisation that Ctrl-C can stop."""

import numpy as np
from scipy import linalg

from histrs._solvers.block_cg import Array

# Floating-point operations of one call of BLAS, a tenth of a second or so.
_OPERATIONS = 5e9
_MIN_BLOCK = 64
_MAX_BLOCK = 256
# Right-hand sides solved at a time.
_COLUMNS = 64


def factorise_in_place(A: Array) -> Array:
    """Overwrite the lower triangle of a symmetric positive definite matrix with its factor.

    LAPACK would do it in one call, which cannot be interrupted; here Python gets its turn after
    every block of columns.

    Parameters
    ----------
    A : ndarray of shape (n, n)
        The matrix; Fortran-ordered it is used as it is.

    Returns
    -------
    ndarray of shape (n, n)
        `A`, its lower triangle being the factor `L` with `A = L L^T`.

    Raises
    ------
    scipy.linalg.LinAlgError
        If `A` is not positive definite.
    """
    n = len(A)
    size = int(np.clip(2 * _OPERATIONS / max(n, 1) ** 2, _MIN_BLOCK, _MAX_BLOCK))
    for start in range(0, n, size):
        end = min(start + size, n)
        # In this order the product has the layout of what it is subtracted from.
        A[start:, start:end] -= (A[start:end, :start] @ A[start:, :start].T).T
        L = linalg.cholesky(A[start:end, start:end], lower=True, check_finite=False)
        A[start:end, start:end] = L
        # A[end:, start:end] L^-T
        A[end:, start:end] = linalg.blas.dtrsm(
            1.0, L, A[end:, start:end], side=1, lower=1, trans_a=1
        )
    return A


def solve_factorised(L: Array, B: Array) -> Array:
    """Return `(L L^T)^-1 B`, a few columns at a time."""
    X = np.empty_like(B)
    for start in range(0, B.shape[1], _COLUMNS):
        columns = slice(start, start + _COLUMNS)
        X[:, columns] = linalg.cho_solve((L, True), B[:, columns], check_finite=False)
    return X
