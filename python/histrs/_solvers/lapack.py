"""Factors of matrices, by calls of LAPACK that Ctrl-C can leave."""

from __future__ import annotations

import ctypes
from ctypes import POINTER, byref, c_char, c_double, c_int
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cython_lapack

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
    """Return the `k` largest pairs; the matrix, in Fortran order, is overwritten.

    As ``scipy.linalg.eigh(..., driver="evr")``, which keeps all other threads waiting.
    """
    n = len(matrix)
    values, vectors = np.empty(n), np.empty((n, k), order="F")
    support, found, info = np.empty(2 * k, dtype=np.intc), c_int(), c_int()

    def call(work: Array, n_work: int, integers: NDArray[np.intc], n_integers: int) -> None:
        sizes = [c_int(i) for i in (n, n, n - k + 1, n, n, n_work, n_integers)]
        order, leading, first, last, leading_out, n_work_c, n_integers_c = sizes
        zero = c_double(0.0)
        _dsyevr()(
            byref(c_char(b"V")),
            byref(c_char(b"I")),
            byref(c_char(b"U")),
            byref(order),
            _doubles(matrix),
            byref(leading),
            byref(zero),
            byref(zero),
            byref(first),
            byref(last),
            byref(zero),
            byref(found),
            _doubles(values),
            _doubles(vectors),
            byref(leading_out),
            _integers(support),
            _doubles(work),
            byref(n_work_c),
            _integers(integers),
            byref(n_integers_c),
            byref(info),
        )
        if info.value:
            raise np.linalg.LinAlgError(f"dsyevr did not converge: info = {info.value}.")

    work, integers = np.empty(1), np.empty(1, dtype=np.intc)
    call(work, -1, integers, -1)
    n_work, n_integers = int(work[0]), int(integers[0])
    call(np.empty(n_work), n_work, np.empty(n_integers, dtype=np.intc), n_integers)
    return values[:k], vectors


def _doubles(array: Array) -> Any:
    return array.ctypes.data_as(POINTER(c_double))


def _integers(array: NDArray[np.intc]) -> Any:
    return array.ctypes.data_as(POINTER(c_int))


@cache
def _dsyevr() -> Any:
    """Return SciPy's dsyevr as a function that other threads run beside."""
    capsule = cython_lapack.__pyx_capi__["dsyevr"]
    name_of = ctypes.pythonapi.PyCapsule_GetName
    name_of.restype, name_of.argtypes = ctypes.c_char_p, [ctypes.py_object]
    address_of = ctypes.pythonapi.PyCapsule_GetPointer
    address_of.restype = ctypes.c_void_p
    address_of.argtypes = [ctypes.py_object, ctypes.c_char_p]
    text, double, integer = POINTER(c_char), POINTER(c_double), POINTER(c_int)
    arguments: list[Any] = [
        *(text, text, text, integer, double, integer, double, double, integer, integer, double),
        *(integer, double, double, integer, integer, double, integer, integer, integer, integer),
    ]
    return ctypes.CFUNCTYPE(None, *arguments)(address_of(capsule, name_of(capsule)))
