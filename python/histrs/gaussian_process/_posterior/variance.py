"""Bounds of the posterior variance, without amplitude, as the system is.

The exact variance is `k(x, x) - k_x^T (K + s I)^-1 k_x`. What is below that quadratic form makes a
bound above the variance, without a solve for a row (sections 7.2 and 7.3); solves make it certain.
"""

from __future__ import annotations

from typing import Protocol, cast

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse
from scipy.sparse.linalg import LinearOperator, eigsh

from histrs import _histrs
from histrs._checks.rows import in_row_blocks
from histrs._solvers.log_det import largest_eigenvalue_bound
from histrs._typing import Array, Matrix
from histrs.gaussian_process._bound.additive import MinimaBound
from histrs.gaussian_process._bound.scores import ExactScore, Score, TabulatedScore
from histrs.gaussian_process._systems.system import System

# Up to so many rows all eigenvalues cost less than Lanczos for a few.
_DENSE_ROWS = 512
# Test rows whose kernel vectors are made at a time.
_ROWS = 256
# Cells of the table when the mean has none.
DEFAULT_BINS = 100
# Rows that are solved for at a time.
_BLOCK = 64
# Rounding of what a row explains, as part of its prior variance and for each training row.
_ROUNDING = 4.0 * np.finfo(np.float64).eps
# How much less is tolerated of a residual where the bounds are too far apart, and how often.
_STRICTER = 0.1
_ROUNDS = 8


class Variance(Protocol):
    """Posterior variances, exact, bounded or nearly right, of any rows."""

    def of(self, X: Matrix) -> Array:
        """Return the variance of every row, without amplitude."""


class FineVariance:
    r"""FAPU, eq. 29, with `k` eigenpairs :math:`\xi_i, v_i` of :math:`K + s I`.

    .. math:: k_{**} - \sum_{i \le k} \frac{(v_i^T k_*)^2}{\xi_i}
              - \frac{\|k_*\|^2 - \sum_{i \le k} (v_i^T k_*)^2}{\xi_{k+1}}

    Eigenvalues are computed to a residual, which is added to each. With vectors `V`, values `t` and
    :math:`\|K V - V t\| = r`, the matrix is at most :math:`V (t + r) V^T + (\lambda + r)(I - V
    V^T)`. Here `lambda` is the largest eigenvalue on the complement of `V`. No eigenvalue is taken
    for larger than `largest_eigenvalue_bound` says.
    """

    def __init__(self, system: System, n_eigenvectors: int) -> None:
        self._system = system
        n = len(system.diagonal)
        k = min(n_eigenvectors, n)
        values, vectors = _leading_eigenpairs(system, min(k + 1, n))
        largest = _largest_eigenvalue(system, vectors[:, 0])
        # In which squares stay within the range; a power of 2 rounds nothing.
        self._unit = float(np.ldexp(1.0, int(np.frexp(largest + system.s)[1])))
        rest = (_multiply(system, vectors) - vectors * values) / self._unit
        residuals = np.sqrt(np.sum(rest**2, axis=0)) * self._unit
        residual = float(np.linalg.norm(residuals[:k] / self._unit)) * self._unit
        upper = np.minimum(values + residuals + residual, largest) + system.s
        self._vectors, self._upper = vectors[:, :k], upper[:k]
        self._rest = upper[k] if k < n else largest + system.s

    def of(self, X: Matrix) -> Array:
        """Return the bound for every row."""
        X, prior = _transformed(self._system, X)
        variance = np.empty_like(prior)
        for start in range(0, len(prior), _ROWS):
            rows = slice(start, start + _ROWS)
            unit = self._unit
            k = self._system.cross(X[rows]) / unit
            projections = (self._vectors.T @ k) ** 2
            left = np.maximum(np.einsum("ij,ij->j", k, k) - projections.sum(axis=0), 0.0)
            known = projections.T @ (unit / self._upper) + left * (unit / self._rest)
            variance[rows] = prior[rows] - unit * known
        return np.maximum(variance, 0.0)


class CoarseVariance:
    r"""CAPU, eqs. 30 to 32: one score of squared features instead of a kernel vector.

    .. math:: k_{**} - \frac{1}{\xi_1} \sum_d \sum_i w_i \min(x_*(d)^2, x_i(d)^2)

    An intercept of variance `c` adds :math:`\sum_i w_i (2 c \sum_d \min(x_*(d), x_i(d)) + c^2)` to
    the sums, a second score. With `n_bins` scores are tabulated (q-CAPU), less what tables may be
    too large by.
    """

    def __init__(self, system: System, n_bins: int | None) -> None:
        self._system, bound = system, cast(MinimaBound, system.bound)
        start = np.sqrt(system.diagonal)
        self._largest = _largest_eigenvalue(system, start) + system.s
        square = _histrs.Transform("power", 2.0)
        columns = bound.columns.transformed(square, None, bound.n_threads)
        weights = np.ones(len(start)) if system.row_scale is None else system.row_scale**2
        self._score = _score(columns, weights, n_bins, bound.n_threads)
        c = bound.kernel.intercept_variance
        self._constant = c * c * float(np.sum(weights))
        self._of_intercept = (
            _score(bound.columns, 2.0 * c * weights, n_bins, bound.n_threads) if c > 0.0 else None
        )

    def of(self, X: Matrix) -> Array:
        """Return the bound for every row."""
        n_threads = self._system.bound.n_threads
        X, prior = _transformed(self._system, X)
        score = self._score.evaluate(_squared(X), n_threads) - self._score.error_bound()
        squares = np.maximum(score[:, 0], 0.0) + self._constant
        if self._of_intercept is not None:
            sums = self._of_intercept.evaluate(X, n_threads) - self._of_intercept.error_bound()
            squares += np.maximum(sums[:, 0], 0.0)
        return np.maximum(prior - squares / self._largest, 0.0)


def _score(
    columns: _histrs.SortedColumns, weights: Array, n_bins: int | None, n_threads: int
) -> Score:
    V = weights[:, None]
    if n_bins is None:
        return ExactScore(columns, V, n_threads)
    return TabulatedScore(columns, V, n_bins, "linear", n_threads)


def _transformed(system: System, X: Matrix) -> tuple[Matrix, Array]:
    """Return the features that the kernel takes minima of, and the prior variances."""
    T = system.bound.rows_of(X)
    return T, system.bound.prior(T)


def _squared(X: Matrix) -> Matrix:
    """Return the squares of all entries, in double precision; none is there twice."""
    if not sparse.issparse(X):
        return np.square(X, dtype=np.float64)
    squares = X.astype(np.float64, copy=True)
    squares.data **= 2
    return squares


def _multiply(system: System, V: Array) -> Array:
    return system.product(np.ascontiguousarray(V))


def _largest_eigenvalue(system: System, v: Array) -> float:
    """Return a number that no eigenvalue of `K` exceeds."""
    trace = float(system.diagonal.sum())
    return largest_eigenvalue_bound(lambda V: _multiply(system, V), v, trace)


def _leading_eigenpairs(system: System, k: int) -> tuple[Array, Array]:
    """Return the `k` largest eigenvalues of `K`, descending, and their eigenvectors."""
    n = len(system.diagonal)
    if not np.any(system.diagonal):
        # The kernel matrix is 0, where Lanczos has nowhere to start.
        return np.zeros(k), np.eye(n, k)
    if n <= max(_DENSE_ROWS, 2 * k):
        values, vectors = linalg.eigh(system.kernel_matrix(), check_finite=False)
        return values[::-1][:k], vectors[:, ::-1][:, :k]
    operator = LinearOperator(
        (n, n), matvec=lambda v: _multiply(system, v.reshape(-1, 1))[:, 0], dtype=np.float64
    )
    # A seed of its own: the bounds must not change from call to call.
    v0 = np.random.default_rng(0).random(n)
    values, vectors = eigsh(operator, k, which="LA", v0=v0, tol=1e-6)
    order = np.argsort(values)[::-1]
    return values[order], vectors[:, order]


def variance_bounds(system: System, X: Matrix, gap: float) -> tuple[Array, Array]:
    r"""Return what the variances of rows are between, without amplitude.

    With any :math:`b` and what it leaves, :math:`r = k_x - A b`, :math:`A = K + s I`,

    .. math:: k_x^T A^{-1} k_x = k_x^T b + b^T r + r^T A^{-1} r,
              \qquad 0 \le r^T A^{-1} r \le r^T r / s,

    as no eigenvalue of `A` is below `s`. The systems are solved until the upper standard deviation,
    `s` included, is above the lower one by no more than `gap` times that. Bounds hold, whether they
    are as near as that or not; the rounding of double precision is counted in.
    """
    prior = in_row_blocks(X, lambda rows: system.bound.prior(system.bound.rows_of(rows)))
    lower, upper = np.empty_like(prior), np.empty_like(prior)
    for start in range(0, len(prior), _BLOCK):
        rows = slice(start, start + _BLOCK)
        k = system.cross(system.bound.rows_of(X[rows]))
        explained, missing = _explained(system, k, prior[rows], gap)
        upper[rows] = np.clip(prior[rows] - explained, 0.0, prior[rows])
        lower[rows] = np.maximum(prior[rows] - explained - missing, 0.0)
    return lower, upper


def are_near(system: System, lower: Array, upper: Array, gap: float) -> NDArray[np.bool_]:
    """Say which standard deviations, `s` included, are as near as that."""
    near: NDArray[np.bool_] = np.sqrt((upper + system.s) / (lower + system.s)) <= 1.0 + gap
    return near


def _explained(system: System, k: Array, prior: Array, gap: float) -> tuple[Array, Array]:
    """Return less than what the training rows explain of the prior, and how much less at most."""
    # With this residual the bounds are near enough even where nothing is left of the variance.
    tol = np.full(k.shape[1], np.sqrt(2.0 * gap / max(len(k), 1)) * system.s)
    B: Array | None = None
    explained, missing = np.zeros(k.shape[1]), np.full(k.shape[1], np.inf)
    rounding = _ROUNDING * len(k) * prior
    for _ in range(_ROUNDS):
        solution = system.solve(k, tol, B)
        B = solution.X
        R = k - system.multiply(B)
        at_most = np.einsum("ij,ij->j", R, R) / system.s + 2.0 * rounding
        better = at_most < missing
        least = np.einsum("ij,ij->j", k, B) + np.einsum("ij,ij->j", B, R) - rounding
        explained, missing = np.where(better, least, explained), np.where(better, at_most, missing)
        left = np.maximum(prior - explained, 0.0)
        wide = ~are_near(system, np.maximum(left - missing, 0.0), left, gap)
        if not np.any(wide & better):
            break
        tol[wide] *= _STRICTER
    return explained, missing
