"""Posterior variances at little more than the cost of the mean, from what is solved once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from histrs._solvers.row_scale import scaled
from histrs._typing import Array, Matrix
from histrs.gaussian_process._bound.scores import Score
from histrs.gaussian_process._posterior.subspace import (
    N_PROBES,
    KrylovSpace,
    NearbyRows,
    is_far_above_rounding,
)
from histrs.gaussian_process._systems.system import System

# Directions.
_RANK = 96
_MAX_NUMBERS = 4e7
# Rows whose variances are solved for, to learn what the directions leave out, and most numbers of
# these solutions: a line needs few.
_N_SOLVED = 100
_MIN_SOLVED = 16
_MAX_SOLVED_NUMBERS = 3.2e6
_TOLERANCE = 1e-2
# Training rows that may be near, at most, and the mean error above which it is worth asking them.
_MAX_CANDIDATES = 1 << 16
_GOOD_ENOUGH = 0.005
# Part of the error that may be more with them: training rows, each without itself, have fewer rows
# near them than what is predicted, since equal rows were merged.
_TOLERATED = 1.1
# Singular values of logarithms, relative to the largest, of bounds that say the same.
_SAME = 1e-6
# Scores of more training values are read from a table with so many cells per column.
_MAX_KNOTS = 4_000_000
_N_BINS = 1024
# Variances below this part of the prior mean are rounding.
_LEAST = 1e-12


def n_solved_of(n_rows: int) -> int:
    """Return how many training rows are solved for."""
    return min(n_rows, int(np.clip(_MAX_SOLVED_NUMBERS / max(n_rows, 1), _MIN_SOLVED, _N_SOLVED)))


class CachedVariance:
    r"""Variances from a few directions, corrected by rows that are solved exactly.

    The columns of `Q` span a block Krylov space of `A = K + s I`. With :math:`T = Q^T A Q`,

    .. math:: u(x) = k(x, x) - k_x^T Q T^{-1} Q^T k_x

    is at least the posterior variance, since less is known in a subspace, and takes one score with
    as many outputs as directions (LOVE: Pleiss et al., 2018). How much is missing is learned:
    :math:`\log v = a + b \log u` is fitted to `n_solved` training rows (a hundred at most by
    default), each predicted without itself, whose variances :math:`1 / [A^{-1}]_{ii} - s` are
    solved for. Their `u` is without themselves too: it is that of :math:`A` with zeros for what a
    row has to do with others.

    Where that is off by more than 0.5 % in the mean, training rows near `x` are conditioned on too.
    With `w`, what is left then, the line becomes a plane, :math:`\log v = a + b \log u + c \log w`,
    unless that is clearly worse. This is for systems that have it (`has_nearby_rows`).

    `error` is the mean relative error of the predictive standard deviation, noise included, on
    those rows, each by the coefficients of the others. `score` has a column for each direction.
    """

    def __init__(self, system: System, n_solved: int | None = None) -> None:
        self._system = system
        n = len(system.diagonal)
        # A seed of its own: variances must not change from call to call.
        rng = np.random.default_rng(0)
        rank = int(np.clip(_MAX_NUMBERS / max(n, 1), N_PROBES, _RANK))
        n_solved = n_solved_of(n) if n_solved is None else min(n, n_solved)
        solved = np.sort(rng.choice(n, n_solved, replace=False))
        candidates = solved
        if system.bound.has_nearby_rows:
            # Of a generator of their own, so that the space is that of data on a cluster.
            some = np.random.default_rng(1).choice(n, min(n, _MAX_CANDIDATES), replace=False)
            candidates = np.union1d(solved, some)
        indices = np.searchsorted(candidates, solved)
        space = KrylovSpace(system, min(rank, n), candidates, rng)
        self.score = _score(system, space.directions)
        mean = float(system.bound.variances.mean()) if n > 0 else 0.0
        # Rows of zeros have a logarithm, too.
        self._floor = max(_LEAST * mean, float(np.finfo(np.float64).tiny))
        weights = (
            np.ones(len(solved)) if system.row_scale is None else system.row_scale[solved] ** 2
        )
        exact = np.maximum(_without_itself(system, solved) / weights, self._floor)
        upper = space.upper_without_itself(indices)
        uppers = np.maximum(upper / weights, self._floor)[None]
        self.error = _error_without_itself(uppers, exact, system.s)
        self._nearby: NearbyRows | None = None
        if self.error > _GOOD_ENOUGH and system.bound.has_nearby_rows:
            nearby = NearbyRows(system, space)
            upper -= nearby.known_without_itself(space, indices)
            both = np.vstack([uppers, np.maximum(upper / weights, self._floor)])
            error = _error_without_itself(both, exact, system.s)
            # Scores are read from coarse tables.
            X, coordinates = system.X[solved], space.coordinates[indices]
            errors = self._scores(X, system.bound.rows_of(X)) - coordinates
            seeming = nearby.known_by_rounding(coordinates, errors)
            error += 0.5 * float(np.mean(seeming / (exact + system.s)))
            if error < _TOLERATED * self.error:
                self.error, self._nearby, uppers = error, nearby, both
        self._plane = _Plane(uppers, exact)
        # Without the preconditioner, which nothing asks for any more.
        self._system = replace(system)

    def of(self, X: Matrix, scores: Array | None = None) -> Array:
        """Return the variance of every row, without amplitude; `scores` are known of directions."""
        rows = self._system.bound.rows_of(X)
        prior = self._system.bound.prior(rows)
        scores = self._scores(X, rows) if scores is None else scores
        return np.minimum(self._plane.at(self._uppers(rows, scores, prior)), prior)

    def _uppers(self, rows: Matrix, scores: Array, prior: Array) -> Array:
        """Return `u` of rows that the kernel makes of features, and with nearby rows, if any."""
        upper: Array = prior - np.einsum("ij,ij->i", scores, scores)
        uppers = upper[None]
        if self._nearby is not None:
            uppers = np.vstack([upper, upper - self._nearby.known(rows, scores)])
        return np.maximum(uppers, self._floor)

    def _scores(self, X: Matrix, rows: Matrix) -> Array:
        n_threads = self._system.bound.n_threads
        return self.score.evaluate(X if self.score.takes_features else rows, n_threads)


def _score(system: System, R: Array) -> Score:
    few = system.bound.n_function_numbers * max(R.shape[1], 1) <= 25 * _MAX_KNOTS
    V: Any = scaled(system.row_scale, R)
    if system.bound.has_single_scores and is_far_above_rounding(system):
        V = V.astype(np.float32)
    return system.bound.score(V, None if few else _N_BINS, "linear")


def _without_itself(system: System, rows: NDArray[np.intp]) -> Array:
    """Return the variances of training rows by a fit without each."""
    unit = np.zeros((len(system.diagonal), len(rows)))
    unit[rows, np.arange(len(rows))] = 1.0
    X = system.solve(unit, np.full(len(rows), _TOLERANCE)).X
    # The error of this is of second order in that of X.
    residual = unit - system.multiply(X)
    inverse = X[rows, np.arange(len(rows))] + np.einsum("ij,ij->j", X, residual)
    variance: Array = 1.0 / np.maximum(inverse, np.finfo(np.float64).tiny) - system.s
    return variance


class _Plane:
    """What is bounded, as a product of powers of upper bounds, each below the one before.

    By least squares of logarithms; where they do not say, it is a part of the last bound.
    """

    def __init__(self, uppers: Array, exact: Array) -> None:
        x = np.log(uppers)
        y = np.log(exact) - x[-1]
        # Of no rows, it is the last bound.
        none = np.zeros((len(x), 1))
        self._least = np.min(x, axis=1, keepdims=True) if len(y) > 0 else none
        self._most = np.max(x, axis=1, keepdims=True) if len(y) > 0 else none
        self._centre = np.mean(x, axis=1, keepdims=True) if len(y) > 0 else none
        self.constant = float(np.mean(y)) if len(y) > 0 else 0.0
        self.slopes: Array = np.linalg.lstsq((x - self._centre).T, y - self.constant, rcond=_SAME)[
            0
        ]

    def at(self, uppers: Array) -> Array:
        """Return what is on the plane; beyond what it was fitted to, the nearest part."""
        x = np.clip(np.log(uppers), self._least, self._most) - self._centre
        below: Array = np.minimum(np.exp(self.constant + self.slopes @ x), 1.0) * uppers[-1]
        return below


def _error_without_itself(uppers: Array, exact: Array, noise: float) -> float:
    """Return the mean relative error of roots, with the noise, each by a plane of the others."""
    n = len(exact)
    if n == 0:
        return 0.0
    estimate = np.empty(n)
    for i in range(n):
        others = np.arange(n) != i
        estimate[i] = _Plane(uppers[:, others], exact[others]).at(uppers[:, i : i + 1])[0]
    ratio = np.sqrt((estimate + noise) / (exact + noise))
    return float(np.mean(np.abs(ratio - 1.0)))
