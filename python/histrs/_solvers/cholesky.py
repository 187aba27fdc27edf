"""Cholesky factorisation that Ctrl-C can stop, and factors of matrices that grow and shrink."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from histrs._solvers import lapack
from histrs._threads import leavable_if
from histrs._typing import Array

# Floating-point operations of one call of BLAS, some tenths of a second.
_OPERATIONS = 2e10
# Columns factorised together: enough for BLAS to compute more than it reads.
_BLOCK = 1024
_MIN_ROWS = 64
# Rows that are factorised in a few hundredths of a second.
SHORT_ROWS = 1024
# Rows and columns that stay in the cache while they are transposed.
_CACHED = 256
# Right-hand sides solved at a time.
_COLUMNS = 64
_QR_BLOCK = 32
# Rows below the triangle, as part of it, before they are made part of it.
_MOST_BELOW = 0.1


def factorise_in_place(A: Array) -> Array:
    """Overwrite the lower triangle of a symmetric positive definite matrix with its factor.

    LAPACK would do it in one call, which cannot be interrupted; here Python gets its turn after
    every block of columns. A Fortran-ordered matrix is used as it is. One that is not positive
    definite is a LinAlgError.
    """
    n = len(A)
    # On a busy machine, a few tenths of a second of BLAS are many of the wall's.
    call = leavable_if(n > SHORT_ROWS)
    # What takes one call no longer than others is left to LAPACK whole.
    size = max(n, 1) if n**3 <= 3 * _OPERATIONS else _BLOCK
    for start in range(0, n, size):
        end = min(start + size, n)
        known, here = A[start:end, :start], slice(start, end)
        for rows in _row_blocks(start, n, start * size):
            # In this order the product has the layout of what it is subtracted from.
            A[rows, here] -= call(np.matmul, known, A[rows, :start].T).T
        L = call(cholesky, A[here, here])
        A[here, here] = L
        for rows in _row_blocks(end, n, size**2):
            # A[rows, here] L^-T
            X = np.array(A[rows, here], order="F")
            call(lapack.solve_triangle, L, X, lower=True, transposed=True, from_right=True)
            A[rows, here] = X
    return A


def cholesky(A: Array) -> Array:
    """Return the lower factor of a positive definite matrix, in Fortran order."""
    L = np.array(A, dtype=np.float64, order="F")
    if not lapack.factorised(L, lower=True):
        raise linalg.LinAlgError("The matrix is not positive definite.")
    _clear_above(L)
    return L


def _clear_above(L: Array) -> None:
    for columns in _blocks(len(L)):
        L[: columns.start, columns] = 0.0
        L[columns, columns] = np.tril(L[columns, columns])


def _row_blocks(start: int, end: int, operations: int) -> Iterator[slice]:
    """Yield blocks of rows, each of which takes so many multiplications."""
    size = max(int(_OPERATIONS / max(2 * operations, 1)), _MIN_ROWS)
    return (slice(first, min(first + size, end)) for first in range(start, end, size))


@dataclass(frozen=True)
class CholeskyFactor:
    """The lower factor of a positive definite matrix, to which rows and columns can be added.

    It is kept as `[[T, 0], [B, C]]` with few rows in `B` and `C`, so that rows are added without a
    copy of the others.
    """

    triangle: Array
    """`T`, of which the upper triangle is never read; Fortran-ordered it is used as it is."""
    below: Array
    """`B`, the rows that were added, so far as they go with `T`."""
    corner: Array
    """`C`, lower triangular."""

    @classmethod
    def of(cls, L: Array) -> Self:
        """Return the factor that is one triangle."""
        return cls(L, np.zeros((0, len(L))), np.zeros((0, 0)))

    @classmethod
    def with_noise(cls, K: Array, s: float, cure: str) -> Self:
        """Return the factor of `K + s I`, which takes the place of `K`."""
        largest = float(np.max(np.diagonal(K), initial=0.0))
        K[np.diag_indices_from(K)] += s
        # LAPACK wants Fortran order, which the transpose has; it is the same matrix.
        try:
            return cls.of(factorise_in_place(K.T))
        except linalg.LinAlgError as error:
            raise ValueError(
                f"The kernel matrix plus noise is not positive definite: noise / amplitude = "
                f"{s:.1e} vanishes beside its largest entry, {largest:.1e}. {cure}"
            ) from error

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.triangle) + len(self.corner)

    def whole(self) -> Array:
        """Return the factor as one triangle, in Fortran order."""
        n, m = len(self.triangle), len(self.corner)
        if m == 0:
            return self.triangle
        L = np.zeros((n + m, n + m), order="F")
        for columns in _blocks(n):
            L[columns.start : n, columns] = self.triangle[columns.start :, columns]
        L[n:, :n], L[n:, n:] = self.below, self.corner
        return L

    def diagonal(self) -> Array:
        """Return the diagonal of the factor."""
        return np.concatenate([np.diag(self.triangle), np.diag(self.corner)])

    def solve_lower(self, B: Array) -> Array:
        """Return `L^-1 B`."""
        n = len(self.triangle)
        above: Array = _solve_triangular(self.triangle, B[:n])
        if len(self.corner) == 0:
            return above
        return np.vstack([above, _solve_triangular(self.corner, B[n:] - self.below @ above)])

    def solve(self, B: Array) -> Array:
        """Return `(L L^T)^-1 B`, a few columns at a time, so that Ctrl-C gets its turn."""
        n = len(self.triangle)
        X = np.empty_like(B)
        for start in range(0, B.shape[1], _COLUMNS):
            columns = slice(start, start + _COLUMNS)
            half = self.solve_lower(B[:, columns])
            X[n:, columns] = _solve_triangular(self.corner, half[n:], transposed=True)
            above = half[:n] - self.below.T @ X[n:, columns]
            X[:n, columns] = _solve_triangular(self.triangle, above, transposed=True)
        return X

    def form(self, k: Array) -> Array:
        """Return `k^T (L L^T)^-1 k`."""
        half = self.solve_lower(k)
        form: Array = half.T @ half
        return form

    def forms(self, k: Array) -> Array:
        """Return the diagonal of that."""
        half = self.solve_lower(k)
        forms: Array = np.einsum("ij,ij->j", half, half)
        return forms

    def log_det(self) -> float:
        """Return `log det L L^T`."""
        return 2.0 * float(np.sum(np.log(self.diagonal())))

    def inverse_diagonal(self) -> Array:
        """Return the diagonal of `L^-T L^-1`, a few columns at a time."""
        L = self.whole()
        diagonal = np.empty(len(L))
        for start in range(0, len(L), _CACHED):
            end = min(start + _CACHED, len(L))
            # Columns of the inverse are 0 above the diagonal.
            columns = np.eye(end - start, len(L) - start).T
            call = leavable_if(len(L) > SHORT_ROWS)
            call(lapack.solve_triangle, L[start:, start:], columns, lower=True)
            diagonal[start:end] = np.einsum("ij,ij->j", columns, columns)
        return diagonal

    def insert(self, B: Array, C: Array) -> Self:
        """Return the factor of `[[A, B^T], [B, C]]`, this being that of `A`.

        A LinAlgError says that the matrix is not positive definite.
        """
        n = len(self.triangle)
        new = np.empty_like(B, order="C")
        for start in range(0, len(C), _COLUMNS):
            rows = slice(start, start + _COLUMNS)
            new[rows] = self.solve_lower(B[rows].T).T
        rest = factorise_in_place(np.asfortranarray(C - new @ new.T))
        old, m = len(self.corner), len(C)
        corner = np.zeros((old + m, old + m), order="F")
        corner[:old, :old], corner[old:, :old], corner[old:, old:] = self.corner, new[:, n:], rest
        grown = type(self)(self.triangle, np.vstack([self.below, new[:, :n]]), corner)
        return grown if len(corner) <= _MOST_BELOW * n else type(self).of(grown.whole())

    def remove(self, kept: NDArray[np.int64], removed: NDArray[np.int64]) -> Self:
        """Return the factor of the rows and columns that are kept; both in ascending order."""
        return type(self).of(remove_rows(self.whole(), kept, removed))


def _solve_triangular(L: Array, B: Array, *, transposed: bool = False) -> Array:
    """Return `L^-1 B` or `L^-T B`."""
    if len(L) == 0:
        return B
    X = np.array(B, dtype=np.float64, order="F")
    if L.flags.f_contiguous:
        lapack.solve_triangle(L, X, lower=True, transposed=transposed)
    else:
        lapack.solve_triangle(L.T, X, lower=False, transposed=not transposed)
    return X


def remove_rows(L: Array, kept: NDArray[np.int64], removed: NDArray[np.int64]) -> Array:
    """Return the factor of the rows and columns of `L L^T` that are kept, in Fortran order.

    They are those of `P P^T + Q Q^T`. `P` is the kept part of `L`, lower triangular again, and `Q`
    holds the columns of the removed rows. Orthogonal transformations make a triangle of `P^T` on
    top of `Q^T`, and the factor is its transpose. Both kinds of indices ascend.
    """
    n = len(kept)
    # Rows before the first that is removed stay as they are.
    start = int(np.searchsorted(kept, removed[0])) if len(removed) > 0 else n
    below = kept[start:]
    shrunk = np.zeros((n, n), order="F")
    triangle = np.zeros((len(below), len(below)), order="F")
    for columns in _blocks(n):
        part = np.take(L.T[kept[columns]], kept[columns.start :], axis=1)
        shrunk[columns.start :, columns] = part.T
    for columns in _blocks(len(below)):
        triangle[columns, columns.start :] = shrunk[start:, start:][columns.start :, columns].T
    size = max(int(_OPERATIONS / (2 * max(len(below), 1) ** 2)), 1)
    for first in range(0, len(removed) if len(below) > 0 else 0, size):
        columns = removed[first : first + size]
        Q = np.where(below[:, None] > columns, L[np.ix_(below, columns)], 0.0)
        triangle, *_ = linalg.lapack.dtpqrt(
            0, min(_QR_BLOCK, len(below)), triangle, np.asfortranarray(Q.T), overwrite_a=True
        )
    # The diagonal of a factor is positive.
    signs = np.where(np.diag(triangle) < 0.0, -1.0, 1.0)
    for columns in _blocks(len(below)):
        part = triangle[columns, columns.start :] * signs[columns, None]
        shrunk[start:, start:][columns.start :, columns] = part.T
    return shrunk


def _blocks(n: int) -> Iterator[slice]:
    """Yield blocks of columns of a triangle, which stay in the cache while they are transposed."""
    return (slice(start, min(start + _CACHED, n)) for start in range(0, n, _CACHED))


def inverse_of(L: Array) -> Array:
    """Return the inverse of `L L^T`; what is above `L` says nothing."""
    inverse = np.array(L, order="F")
    leavable_if(len(L) > SHORT_ROWS)(lapack.invert_factorised, inverse, lower=True)
    # The other triangle is not set.
    for columns in _blocks(len(inverse)):
        corner = inverse[columns, columns]
        corner[:] = np.tril(corner) + np.tril(corner, -1).T
        inverse[columns, columns.stop :] = inverse[columns.stop :, columns].T
    return inverse


def inverse_of_lower(L: Array) -> Array:
    """Return `L^-1`; what is above `L` says nothing."""
    inverse = np.array(L, order="F")
    leavable_if(len(L) > SHORT_ROWS)(lapack.invert_triangle, inverse)
    _clear_above(inverse)
    return inverse


def factor_with_jitter(A: Array) -> Array:
    """Return the lower Cholesky factor of a matrix that is positive definite but for rounding."""
    diagonal = np.diag(A).copy()
    jitter = 0.0
    while True:
        try:
            L: Array = linalg.cholesky(A, lower=True, check_finite=False)
        except linalg.LinAlgError:
            jitter = max(10.0 * jitter, len(A) * np.finfo(A.dtype).eps)
            A[np.diag_indices_from(A)] = (1.0 + jitter) * diagonal
        else:
            return L
