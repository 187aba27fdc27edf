"""Posterior variances at little more than the price of the mean, from what is solved once."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from histrs._solvers.block_cg import Array
from histrs._solvers.row_scale import scaled
from histrs._threads import blas_threads_at_most
from histrs._validation import Matrix
from histrs.gaussian_process._interactions.score import score_of
from histrs.gaussian_process._preconditioned import LEAST_NOISE
from histrs.gaussian_process._score import Score
from histrs.gaussian_process._system import KernelSystem

# Directions, and right-hand sides from which they are built: whole vectors of the core.
_RANK = 96
_N_PROBES = 8
_MAX_NUMBERS = 4e7
# Rows whose variances are solved for, to learn what the directions leave out, and most numbers of
# these solutions: a line needs few.
_N_SOLVED = 100
_MIN_SOLVED = 16
_MAX_SOLVED_NUMBERS = 3.2e6
_TOLERANCE = 1e-2
# Scores of more training values are read from a table with so many cells a column.
_MAX_KNOTS = 4_000_000
_N_BINS = 1024
# Variances below this part of the prior mean are rounding.
_LEAST = 1e-12
# What a row that is left out keeps on the diagonal, as part of `s`: with nothing, the matrix would
# be singular.
_APART = 1e-6
# Part of a vector below which what is left of it is rounding.
_ROUNDING = 1e-12


def n_solved_of(n_rows: int) -> int:
    """Return how many training rows are solved for."""
    return min(n_rows, int(np.clip(_MAX_SOLVED_NUMBERS / max(n_rows, 1), _MIN_SOLVED, _N_SOLVED)))


class CachedVariance:
    r"""Variances from a few directions, corrected by rows that are solved exactly.

    The columns of `Q` span a block Krylov space of `A = K + s I`. With :math:`T = Q^T A Q`,

    .. math:: u(x) = k(x, x) - k_x^T Q T^{-1} Q^T k_x

    is at least the posterior variance, since less is known in a subspace, and takes one score with
    as many outputs as directions (LOVE: Pleiss et al., 2018). How much is missing is learned:
    :math:`\log v = a + b \log u` is fitted to training rows, each predicted without itself, whose
    variances :math:`1 / [A^{-1}]_{ii} - s` are solved for. Their `u` is without themselves too: it
    is that of :math:`A` with zeros for what a row has to do with others.

    Attributes
    ----------
    error : float
        Mean relative error of the predictive standard deviation, noise included, on those rows,
        each half of them by the coefficients of the other.
    """

    def __init__(self, system: KernelSystem) -> None:
        self._system = system
        n = len(system.diagonal)
        # A seed of its own: variances must not change from call to call.
        rng = np.random.default_rng(0)
        rank = int(np.clip(_MAX_NUMBERS / max(n, 1), _N_PROBES, _RANK))
        n_solved = n_solved_of(n)
        rows = np.sort(rng.choice(n, n_solved, replace=False))
        space = _krylov_space(system, min(rank, n), rows, rng)
        self._score = _score(system, space.root(system.s))
        mean = float(system.row_sums.mean()) if n > 0 else 0.0
        # Rows of zeros have a logarithm, too.
        self._floor = max(_LEAST * mean, float(np.finfo(np.float64).tiny))
        weights = np.ones(n_solved) if system.row_scale is None else system.row_scale[rows] ** 2
        exact = np.maximum(_without_itself(system, rows) / weights, self._floor)
        upper = np.maximum(space.upper_without_itself(system, rows) / weights, self._floor)
        self._coefficients = _fit(upper, exact)
        halves = [np.arange(n_solved) % 2 == half for half in (0, 1)]
        estimate = np.empty(n_solved)
        for half, other in (halves, halves[::-1]):
            estimate[half] = _evaluate(_fit(upper[other], exact[other]), upper[half])
        ratio = np.sqrt((estimate + system.s) / (exact + system.s))
        self.error = float(np.mean(np.abs(ratio - 1.0))) if n_solved > 0 else 0.0

    def of(self, X: Matrix) -> Array:
        """Return the variance of every row, without amplitude."""
        rows = self._system.kernel.rows(X, self._system.n_threads)
        prior = self._system.prior(rows)
        variance: Array = np.minimum(_evaluate(self._coefficients, self._upper(X, rows)), prior)
        return variance

    def _upper(self, X: Matrix, rows: Matrix) -> Array:
        """Return `u` of rows that the kernel makes of features."""
        n_threads = self._system.n_threads
        prior = self._system.prior(rows)
        scores = self._score.evaluate(X if self._score.takes_features else rows, n_threads)
        upper: Array = np.maximum(prior - np.einsum("ij,ij->i", scores, scores), self._floor)
        return upper


class _Space(NamedTuple):
    """A block Krylov space of `A = K + s I`."""

    Q: Array
    """An orthonormal basis, of shape (n_samples, rank)."""
    T: Array
    """`Q^T A Q`."""
    AQ: Array
    """Some rows of `A Q`."""

    def root(self, s: float) -> Array:
        """Return `R` with `R R^T = Q T^-1 Q^T`."""
        values, vectors = linalg.eigh(self.T, check_finite=False)
        kept = values > 0.5 * s
        directions: Array = self.Q @ (vectors[:, kept] / np.sqrt(values[kept]))
        return directions

    def upper_without_itself(self, system: KernelSystem, rows: NDArray[np.intp]) -> Array:
        """Return `u` of the training rows that `AQ` is of, each as if it were not one."""
        q, w, prior = self.Q[rows], self.AQ, system.diagonal[rows]
        cross = q[:, :, None] * w[:, None, :]
        square = q[:, :, None] * q[:, None, :]
        T = self.T - cross - cross.transpose(0, 2, 1)
        T += (prior + (1.0 + _APART) * system.s)[:, None, None] * square
        # Noise that vanishes beside the kernel does not keep the matrix from being singular.
        lacking = max(LEAST_NOISE * float(system.diagonal.sum()) - system.s, 0.0)
        T += lacking * np.eye(T.shape[-1])
        projected = w - (prior + system.s)[:, None] * q
        with blas_threads_at_most(1):
            solved = np.linalg.solve(T, projected[:, :, None])[:, :, 0]
        upper: Array = prior - np.einsum("ij,ij->i", projected, solved)
        return upper


def _krylov_space(
    system: KernelSystem, rank: int, rows: NDArray[np.intp], rng: np.random.Generator
) -> _Space:
    """Return a block Krylov space from random signs."""
    n = len(system.diagonal)
    Q = np.empty((n, 0))
    T = np.zeros((rank, rank))
    AQ = np.empty((len(rows), rank))
    V = rng.choice([-1.0, 1.0], size=(n, min(_N_PROBES, rank)))
    while True:
        V = _new_directions(Q, V, rng)[:, : rank - Q.shape[1]]
        Q = np.hstack([Q, V])
        with blas_threads_at_most(1):
            product = system.multiply(np.ascontiguousarray(V))
        new = slice(Q.shape[1] - V.shape[1], Q.shape[1])
        T[: Q.shape[1], new] = Q.T @ product
        AQ[:, new] = product[rows]
        if Q.shape[1] == rank:
            break
        V = product
    # Of the lower half, nothing was computed.
    return _Space(Q, np.triu(T) + np.triu(T, 1).T, AQ)


def _new_directions(Q: Array, V: Array, rng: np.random.Generator) -> Array:
    """Return orthonormal vectors, orthogonal to `Q`, that span what it lacks of `V`."""
    # In a unit in which squares stay within the range; a power of 2 rounds nothing.
    V = np.ldexp(V, -np.frexp(np.max(np.abs(V), initial=0.0))[1])
    left = V - Q @ (Q.T @ V)
    # Where the space ends, random directions go on.
    lost = np.linalg.norm(left, axis=0) <= _ROUNDING * np.linalg.norm(V, axis=0)
    left[:, lost] = rng.standard_normal((len(V), int(np.sum(lost))))
    for _ in range(3):
        left -= Q @ (Q.T @ left)
        left, _ = linalg.qr(left, mode="economic", check_finite=False)
        if np.max(np.abs(Q.T @ left), initial=0.0) <= _ROUNDING:
            break
    return np.asarray(left)


def _score(system: KernelSystem, R: Array) -> Score:
    few = system.n_function_numbers * max(R.shape[1], 1) <= 25 * _MAX_KNOTS
    R = scaled(system.row_scale, R)
    return score_of(system, R, None if few else _N_BINS, "linear")


def _without_itself(system: KernelSystem, rows: NDArray[np.intp]) -> Array:
    """Return the variances of training rows by a fit without each."""
    unit = np.zeros((len(system.diagonal), len(rows)))
    unit[rows, np.arange(len(rows))] = 1.0
    X = system.solve(unit, np.full(len(rows), _TOLERANCE)).X
    # The error of this is of second order in that of X.
    residual = unit - system.multiply(X)
    inverse = X[rows, np.arange(len(rows))] + np.einsum("ij,ij->j", X, residual)
    variance: Array = 1.0 / np.maximum(inverse, np.finfo(np.float64).tiny) - system.s
    return variance


def _fit(upper: Array, exact: Array) -> Array:
    """Return the coefficients of a line between the logarithms."""
    x, y = np.log(upper), np.log(exact)
    if len(x) == 0 or np.ptp(x) == 0.0:
        return np.array([float(np.mean(y - x)) if len(x) > 0 else 0.0, 1.0])
    return np.asarray(np.polynomial.polynomial.polyfit(x, y, 1), dtype=np.float64)


def _evaluate(coefficients: Array, upper: Array) -> Array:
    return np.asarray(np.exp(coefficients[0] + coefficients[1] * np.log(upper)))
