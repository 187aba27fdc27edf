"""Preconditioners by a factor of few columns: landmarks, pivoted Cholesky."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

from histrs import _histrs
from histrs._checks.validation import to_core
from histrs._solvers.cholesky import factor_with_jitter
from histrs._solvers.preconditioners import Indices
from histrs._typing import Array, Matrix

# Columns of the kernel matrix that pivoted Cholesky takes at a time, and numbers in them.
_PIVOT_BLOCK = 256
_MIN_PIVOT_BLOCK = 16
# Part of the largest diagonal entry below which nothing is left of a row.
_FLOOR = 1e-6
# Of smooth kernels, eigenvalues fall off so fast that far less is left by few columns.
_LOW_FLOOR = 1e-11
_BLOCK_NUMBERS = 1 << 25
# Double precision, and `E` kept.
_DOUBLE: tuple[type[np.floating[Any]], bool] = (np.float64, True)
# Part of the matrix by which rounding may change it where it is only to be near another.
_SMALL_CHANGE = 1e-2
# Rows of a factor whose products are summed in double precision at a time.
_SUMMED_ROWS = 1 << 14
# Largest values between which single precision holds the matrix and its factor.
_FITTING = (1e-6, 1e6)
_EPS_SINGLE = float(np.finfo(np.float32).eps)


def survives_single_precision(trace: float, s: float) -> bool:
    """Say whether `s` is not drowned by the rounding of `K` in single precision."""
    return bool(_EPS_SINGLE * trace < 0.1 * s)


def factor_survives_single_precision(trace: float, s: float) -> bool:
    """Say whether `s` is not drowned by the rounding of a factor of `K`, whose products are exact.

    That is as large as the root of the trace, and beside the root of `s`.
    """
    return bool(_EPS_SINGLE**2 * trace < _SMALL_CHANGE**2 * s)


class _PartialFactor:
    """`M = F F^T + s I` by the factors of what is inverted.

    Where single precision is enough for `F`, but not for `E = F L^-T`, it is `F` that is kept.
    """

    _s: float
    _n_threads: int
    _factor: Array
    """`L` with `L L^T = F^T F + s I`."""
    _keeps_factor: bool
    """Whether `F` is kept, and not `E`."""
    _inverse: _histrs.LowRankInverse

    def _invert(
        self, F_T: NDArray[Any], s: float, n_threads: int, row_scale: Array | None, *, whitens: bool
    ) -> None:
        """Take `F^T`, of rows that are multiplied by the scale; overwritten where `E` is kept."""
        self._s = s
        self._n_threads = n_threads
        if row_scale is not None:
            F_T *= row_scale.astype(F_T.dtype)
        inner = _squared(F_T) if not whitens else np.asarray(F_T @ F_T.T, dtype=np.float64)
        inner[np.diag_indices_from(inner)] += s
        self._factor, self._keeps_factor = factor_with_jitter(inner), not whitens
        if whitens and F_T.size > 0:
            # In place: of many rows, one more copy is what memory would be short of.
            trsm = linalg.get_blas_funcs("trsm", (F_T,))
            L = self._factor.astype(F_T.dtype)
            trsm(1.0, L, F_T.T, side=1, lower=1, trans_a=1, overwrite_b=1)
        self._inverse = self._inverse_of(F_T)

    def _inverse_of(self, rows_T: NDArray[Any]) -> _histrs.LowRankInverse:
        """Return the inverse by `F^T` or `E^T`, whichever is kept."""
        # (F F^T + s I)^-1 = (I - E E^T) / s with E = F L^-T.
        root = None
        if self._keeps_factor:
            root = np.ascontiguousarray(linalg.lapack.dtrtri(self._factor, lower=1)[0])
        return _histrs.LowRankInverse(rows_T, root, self._s, self._n_threads)

    def solve(self, V: Array) -> Array:
        """Return `M^-1 V`."""
        return self._inverse.apply(V, self._n_threads)

    def solve_cheaply(self, V: Array) -> Array:
        """Return nearly `M^-1 V`: sums in single precision."""
        return self._inverse.apply_f32(V, self._n_threads)

    def remove(self, kept: Indices, removed: Indices) -> Self:
        """Leave rows out, pivots among them; what these said of others stays."""
        rows_T = self._inverse.factor_transposed()
        gone = rows_T[:, removed].astype(np.float64)
        F_T = gone if self._keeps_factor else self._factor @ gone
        return self._changed(rows_T[:, kept], F_T, -1.0)

    def _with_rows(self, F_T: Array) -> Self:
        """Return the preconditioner with further rows of `F`."""
        before = self._inverse.factor_transposed()
        rows_T = F_T
        if not self._keeps_factor:
            rows_T = linalg.solve_triangular(self._factor, F_T, lower=True, check_finite=False)
        rows_T = rows_T.astype(before.dtype)
        if self._keeps_factor:
            F_T = rows_T.astype(np.float64)
        return self._changed(np.hstack([before, rows_T]), F_T, 1.0)

    def _changed(self, rows_T: NDArray[Any], F_T: Array, sign: float) -> Self:
        """Return the preconditioner of rows, `F` or `E` before, of which `F` came or went."""
        factor = factor_with_jitter(self._factor @ self._factor.T + sign * (F_T @ F_T.T))
        if not self._keeps_factor:
            turn = linalg.solve_triangular(factor, self._factor, lower=True, check_finite=False)
            rows_T = turn.astype(rows_T.dtype) @ rows_T
        changed = copy.copy(self)
        changed._factor = factor
        changed._inverse = changed._inverse_of(rows_T)
        return changed


class LowRank(_PartialFactor):
    """A low-rank approximation of any kernel from some of its columns: `M = F F^T + s I`.

    As `PivotedCholesky`, for a kernel whose columns are computed by a function.
    """

    def __init__(
        self,
        columns: Callable[[Indices], Array],
        diagonal: Array,
        s: float,
        rank: int,
        n_threads: int,
        row_scale: Array | None = None,
    ) -> None:
        floor = _LOW_FLOOR * float(np.max(diagonal, initial=0.0))
        F_T, _ = factor_by_pivots(columns, diagonal.copy(), floor, rank, np.float64)
        self._invert(F_T, s, n_threads, row_scale, whitens=True)


class Landmarks(_PartialFactor):
    """`PivotedCholesky` of a kernel matrix whose columns are computed elsewhere, by a function.

    Rows can leave it, and none come.
    """

    def __init__(
        self,
        columns: Callable[[Indices], Array],
        diagonal: Array,
        s: float,
        rank: int,
        n_threads: int,
        row_scale: Array | None = None,
    ) -> None:
        largest = float(np.max(diagonal, initial=0.0))
        dtype, whitens = precision_of_factor(diagonal, s, row_scale)
        # Where single precision drowns the noise, it would fill the last columns with rounding.
        computed, floor = (dtype, _FLOOR) if whitens else (np.float64, _LOW_FLOOR)
        F_T, _ = factor_by_pivots(columns, diagonal.copy(), floor * largest, rank, computed)
        self._invert(F_T.astype(dtype, copy=False), s, n_threads, row_scale, whitens=whitens)


class PivotedCholesky(_PartialFactor):
    """A low-rank approximation of the kernel from some of its columns.

    `M = F F^T + s I` with `F` the partial Cholesky factor of `K`. Pivots are drawn in blocks with
    probability proportional to the residual diagonal (randomly pivoted Cholesky). This is as good
    as the greedy choice, and columns are computed many at a time. With a `row_scale`, the rows of
    `F` are multiplied by it; `diagonal` is without.

    References
    ----------
    .. [1] E. N. Epperly, J. A. Tropp and R. J. Webber, "Embrace rejection: kernel matrix
       approximation by accelerated randomly pivoted Cholesky", 2024.
    """

    def __init__(
        self,
        X: Matrix,
        diagonal: Array,
        s: float,
        rank: int,
        n_threads: int,
        row_scale: Array | None = None,
    ) -> None:
        dtype, whitens = precision_of_factor(diagonal, s, row_scale)
        F_T, pivots = _pivoted_cholesky(X, diagonal, rank, dtype, n_threads)
        self._pivots = X[pivots].astype(np.float64)
        # Lower triangular: the rows of `F` that belong to the pivots.
        self._pivot_factor = F_T[:, pivots].T.astype(np.float64)
        self._invert(F_T, s, n_threads, row_scale, whitens=whitens)

    def insert(self, rows: Matrix, row_scale: Array | None = None) -> Self:
        """Take further rows for what the pivots say of them."""
        rows = rows.astype(np.float64, copy=False)
        K = _histrs.intersection_gram(to_core(self._pivots), to_core(rows), self._n_threads)
        F_T = linalg.solve_triangular(self._pivot_factor, K, lower=True, check_finite=False)
        if row_scale is not None:
            F_T *= row_scale
        return self._with_rows(F_T)


def precision_of_factor(
    diagonal: Array, s: float, row_scale: Array | None
) -> tuple[type[np.floating[Any]], bool]:
    """Return the precision of a factor, single where it drowns nothing, and whether `E` is kept."""
    of_rows = diagonal if row_scale is None else row_scale**2 * diagonal
    if not _FITTING[0] < np.max(of_rows, initial=0.0) < _FITTING[1]:
        return _DOUBLE
    trace = float(np.sum(of_rows))
    if survives_single_precision(trace, s):
        return np.float32, True
    return (np.float32, False) if factor_survives_single_precision(trace, s) else _DOUBLE


def _squared(F_T: NDArray[Any]) -> Array:
    """Return `F^T F`, sums in double precision."""
    inner = np.zeros((len(F_T), len(F_T)))
    for start in range(0, F_T.shape[1], _SUMMED_ROWS):
        part = F_T[:, start : start + _SUMMED_ROWS].astype(np.float64)
        inner += part @ part.T
    return inner


def _pivoted_cholesky(
    X: Matrix, diagonal: Array, rank: int, dtype: type[np.floating[Any]], n_threads: int
) -> tuple[NDArray[Any], Indices]:
    """Return `F^T` of shape (at most rank, n), `K - F F^T` positive semi-definite and small.

    With it the pivots, whose part of `F` is lower triangular.
    """
    n = len(diagonal)
    # Data of any scale must fit the range of single precision; most do.
    scale = float(X.max()) if X.shape[0] > 0 else 0.0
    if scale == 0.0:
        return np.zeros((0, n), dtype), np.empty(0, np.int64)
    if _FITTING[0] < scale < _FITTING[1]:
        scale, scaled = 1.0, X.astype(dtype, copy=False)
    else:
        scaled = _divided(X, scale, dtype)
    residual = diagonal / scale

    def columns(pivots: Indices) -> NDArray[Any]:
        return _histrs.intersection_gram(to_core(scaled[pivots]), to_core(scaled), n_threads)

    F_T, chosen = factor_by_pivots(columns, residual, _FLOOR * residual.max(), rank, dtype)
    F_T *= np.sqrt(scale)
    return F_T, chosen


def factor_by_pivots(
    columns: Callable[[Indices], NDArray[Any]],
    residual: Array,
    floor: float,
    rank: int,
    dtype: type[np.floating[Any]],
) -> tuple[NDArray[Any], Indices]:
    """Return `F^T` and its pivots, from a function of columns, and the diagonal, overwritten."""
    # The pivots are part of the algorithm, not of the model: one seed for all.
    rng = np.random.default_rng(0)
    n = len(residual)
    F_T = np.zeros((min(rank, n), n), dtype)
    chosen = np.empty(len(F_T), np.int64)
    done = 0
    block_size = int(np.clip(_BLOCK_NUMBERS // max(n, 1), _MIN_PIVOT_BLOCK, _PIVOT_BLOCK))
    while done < len(F_T):
        candidates = np.flatnonzero(residual > floor)
        if len(candidates) == 0:
            break
        size = min(block_size, len(F_T) - done, len(candidates))
        weight = residual[candidates] / residual[candidates].sum()
        pivots = rng.choice(candidates, size=size, replace=False, p=weight)
        block = columns(pivots)
        block -= F_T[:done, pivots].T @ F_T[:done]
        kept, L = _independent(block[:, pivots], floor)
        residual[pivots] = 0.0
        if len(kept) == 0:
            continue
        new = linalg.solve_triangular(L, block[kept], lower=True, check_finite=False)
        F_T[done : done + len(kept)] = new
        chosen[done : done + len(kept)] = pivots[kept]
        residual = np.maximum(residual - np.einsum("ij,ij->j", new, new), 0.0)
        done += len(kept)
    return F_T[:done], chosen[:done]


def _divided(X: Matrix, scale: float, dtype: type[np.floating[Any]]) -> Matrix:
    """Return `X / scale`."""
    if not sparse.issparse(X):
        return np.asarray(X / scale, dtype=dtype)
    # SciPy would multiply by 1 / scale, which may overflow.
    result = X.astype(np.float64)
    result.data /= scale
    rounded: Matrix = result.astype(dtype)
    return rounded


def _independent(G: NDArray[Any], floor: float) -> tuple[NDArray[np.intp], NDArray[Any]]:
    """Return rows of `G` that are independent, and the Cholesky factor of their block."""
    double = np.asarray(G, dtype=np.float64)
    factor, permutation, rank, _ = linalg.lapack.dpstrf(double, lower=1, tol=floor)
    kept: NDArray[np.intp] = permutation[:rank] - 1
    return kept, np.tril(factor[:rank, :rank]).astype(G.dtype)
