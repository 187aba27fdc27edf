"""BLAS and LAPACK by calls that other threads run beside, so that Ctrl-C can leave them.

SciPy's own wrappers run one call at a time. Matrices of triangles are in Fortran order.
"""

from __future__ import annotations

import ctypes
from ctypes import byref, c_char, c_double, c_int, c_void_p
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cython_blas, cython_lapack

from histrs._threads import leavable_if
from histrs._typing import Array

# Below, LAPACK needs less time than Ctrl-C may.
_SHORT = 500


def eigh(upper: Array, n_largest: int | None = None) -> tuple[Array, Array]:
    """Return eigenvalues in ascending order and their vectors, as columns, of an upper triangle.

    `n_largest` asks for the largest; None is all, which divide and conquer finds faster. A
    LinAlgError says that LAPACK did not converge.
    """
    if n_largest is None or n_largest == len(upper):
        values, vectors = _leavable(len(upper), lambda: np.linalg.eigh(upper, UPLO="U"))
        return values, vectors
    matrix = np.array(upper, dtype=np.float64, order="F")
    values, vectors = _leavable(len(upper), lambda: _largest(matrix, n_largest))
    return values, vectors


def eigvalsh(matrix: Array) -> Array:
    """Return the eigenvalues of a symmetric matrix in ascending order."""
    values: Array = _leavable(len(matrix), lambda: np.linalg.eigvalsh(matrix))
    return values


def qr(matrix: Array) -> tuple[Array, Array]:
    """Return Q with orthonormal columns and the triangular R, whose product is the matrix."""
    factors = _leavable(min(matrix.shape), lambda: np.linalg.qr(matrix))
    return factors.Q, factors.R


def _leavable(n: int, work: Any) -> Any:
    return leavable_if(n >= _SHORT)(work)


def _largest(matrix: Array, k: int) -> tuple[Array, Array]:
    """Return the `k` largest pairs; the matrix, in Fortran order, is overwritten."""
    n = len(matrix)
    values, vectors = np.empty(n), np.empty((n, k), order="F")
    support, found = np.empty(2 * k, dtype=np.intc), np.empty(1, dtype=np.intc)

    def call(work: Array, n_work: int, integers: NDArray[np.intc], n_integers: int) -> None:
        which = "V", "I", "U", n, matrix, n, 0.0, 0.0, n - k + 1, n, 0.0
        into = found, values, vectors, n, support, work, n_work, integers, n_integers
        if info := _lapack("dsyevr", *which, *into):
            raise np.linalg.LinAlgError(f"dsyevr did not converge: info = {info}.")

    work, integers = np.empty(1), np.empty(1, dtype=np.intc)
    call(work, -1, integers, -1)
    n_work, n_integers = int(work[0]), int(integers[0])
    call(np.empty(n_work), n_work, np.empty(n_integers, dtype=np.intc), n_integers)
    return values[:k], vectors


# ---- triangles ---------------------------------------------------------------------------------


def factorised(A: Array, *, lower: bool) -> bool:
    """Overwrite a triangle of a symmetric matrix with its Cholesky factor.

    Say whether the matrix is positive definite. What is beyond the triangle stays.
    """
    return _lapack("dpotrf", _side(lower), len(A), A, _leading(A)) == 0


def solved(L: Array, B: Array, *, lower: bool) -> Array:
    """Return `A^-1 B` by the Cholesky factor of `A`."""
    X = np.array(B, dtype=np.float64, order="F")
    _checked("dpotrs", _side(lower), len(L), X.shape[1], L, _leading(L), X, _leading(X))
    return X


def invert_factorised(L: Array, *, lower: bool) -> None:
    """Overwrite the Cholesky factor of a matrix with the same triangle of its inverse."""
    _checked("dpotri", _side(lower), len(L), L, _leading(L))


def invert_triangle(L: Array) -> None:
    """Overwrite a lower triangle with its inverse."""
    _checked("dtrtri", "L", "N", len(L), L, _leading(L))


def solve_triangle(
    L: Array, X: Array, *, lower: bool, transposed: bool = False, from_right: bool = False
) -> None:
    """Overwrite `X` with `L^-1 X`, or with `X L^-1`; of the transpose of `L` if asked for."""
    how = "R" if from_right else "L", _side(lower), "T" if transposed else "N", "N"
    _call(cython_blas, "dtrsm", *how, *X.shape, 1.0, L, _leading(L), X, _leading(X))


def _side(lower: bool) -> str:
    return "L" if lower else "U"


def _leading(A: Array) -> int:
    """Return how far apart columns are."""
    if A.dtype != np.float64 or (len(A) > 1 and A.strides[0] != A.itemsize):
        raise TypeError("LAPACK takes double precision in Fortran order.")
    return max(A.strides[1] // A.itemsize if A.shape[1] > 1 else len(A), 1)


# ---- calls -------------------------------------------------------------------------------------


def _checked(name: str, *arguments: Any) -> None:
    if info := _lapack(name, *arguments):
        raise np.linalg.LinAlgError(f"{name} failed: info = {info}.")


def _lapack(name: str, *arguments: Any) -> int:
    """Call a routine of LAPACK, and return what it says of its success: 0 if it had any."""
    info = np.zeros(1, dtype=np.intc)
    _call(cython_lapack, name, *arguments, info)
    return int(info[0])


def _call(module: Any, name: str, *arguments: Any) -> None:
    _routine(module, name, len(arguments))(*map(_passed, arguments))


def _passed(value: Any) -> Any:
    """Return an argument as Fortran takes it: by its address."""
    if isinstance(value, np.ndarray):
        return value.ctypes.data
    if isinstance(value, str):
        return byref(c_char(value.encode()))
    return byref(c_double(value) if isinstance(value, float) else c_int(value))


@cache
def _routine(module: Any, name: str, n_arguments: int) -> Any:
    """Return a routine of SciPy's as a function that other threads run beside."""
    capsule = module.__pyx_capi__[name]
    name_of = ctypes.pythonapi.PyCapsule_GetName
    name_of.restype, name_of.argtypes = ctypes.c_char_p, [ctypes.py_object]
    address_of = ctypes.pythonapi.PyCapsule_GetPointer
    address_of.restype = c_void_p
    address_of.argtypes = [ctypes.py_object, ctypes.c_char_p]
    function = ctypes.CFUNCTYPE(None, *[c_void_p] * n_arguments)
    return function(address_of(capsule, name_of(capsule)))
