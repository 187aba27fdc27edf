"""The cutting planes of one problem, and the model that they determine."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from histrs import _histrs
from histrs._checks.scale import check_steps
from histrs._threads import blas_threads_at_most
from histrs._typing import Array

_MAX_ITER = 60
# How near to the boundary a step may come.
_TO_BOUNDARY = 0.995
# A plane that has had no part in so many optima in a row is removed.
_IDLE = 30
# Exchanges of weights before the interior-point method, which takes the time of some thousands.
_MAX_EXCHANGES = 20_000
_VANISHING = 1e-12


class Planes:
    r"""Planes :math:`b_i - \langle a_i, v \rangle` below a loss, and the dual on the simplex.

    The model that minimises :math:`\frac\lambda2 v^T K^+ v + \max_i b_i - \langle a_i, v \rangle`
    is :math:`v = K A \alpha / \lambda`, where :math:`\alpha` maximises
    :math:`b^T \alpha - \alpha^T A^T K A \alpha / (2 \lambda)` on the simplex. The argument `alpha`
    is :math:`\lambda`.
    """

    def __init__(self, width: int, alpha: float) -> None:
        self._lambda = alpha
        self._products = np.empty((8, width))  # rows K a_i, with room to spare
        self._gram = np.empty((8, 8))
        self._b = np.empty(0)
        self._idle = np.empty(0, dtype=np.intp)
        self.weights = np.empty(0)
        """The dual variables."""
        self.at_best = np.empty(0)
        """The products of the planes with the best model so far."""

    def __len__(self) -> int:
        return len(self._b)

    def add(self, a: Array, product: Array, b: float, at_best: float) -> None:
        """Add the plane `b - a . v`, with `K a` and its product with the best model."""
        n = len(self)
        if n == len(self._products):
            self._products = np.concatenate([self._products, np.empty_like(self._products)])
            gram = np.empty((2 * n, 2 * n))
            gram[:n, :n] = self._gram
            self._gram = gram
        self._products[n] = product
        self._gram[n, : n + 1] = self._products[: n + 1] @ a
        self._gram[:n, n] = self._gram[n, :n]
        self._b = np.append(self._b, b)
        self._idle = np.append(self._idle, 0)
        self.weights = np.append(self.weights, 0.0 if n else 1.0)
        self.at_best = np.append(self.at_best, at_best)

    def with_alpha(self, alpha: float) -> Self:
        """Return the same planes for another strength of the regulariser; these are used up."""
        self._lambda = alpha
        return self

    def solve(self, tol: float, n_threads: int) -> float:
        """Find the weights to a tolerance; return the value of the dual, a lower bound."""
        n = len(self)
        gram = self._gram[:n, :n].copy()
        gram /= self._lambda
        check_steps(gram, self._b)
        arguments = tol, _MAX_EXCHANGES, n_threads
        self.weights, gap = _histrs.svm_simplex_maximum(gram, self._b, self.weights, *arguments)
        if gap > tol:
            inner = simplex_maximum(gram, self._b, tol / 2)
            # Weights below a rounding vanish, and so their planes get idle.
            inner[inner < _VANISHING * inner.max()] = 0.0
            inner, inner_gap = _histrs.svm_simplex_maximum(
                gram, self._b, inner / inner.sum(), *arguments
            )
            if inner_gap < gap:
                self.weights = inner
        self._idle = np.where(self.weights > 0, 0, self._idle + 1)
        return float(self._b @ self.weights - self.square() * self._lambda / 2)

    def remove_idle(self) -> None:
        """Forget planes that have had no part for long."""
        kept = np.flatnonzero(self._idle < _IDLE)
        n = len(kept)
        if n == len(self):
            return
        self._products[:n] = self._products[kept]
        self._gram[:n, :n] = self._gram[np.ix_(kept, kept)]
        self._b, self._idle = self._b[kept], self._idle[kept]
        self.weights, self.at_best = self.weights[kept], self.at_best[kept]

    def model(self) -> Array:
        """Return the model of the weights."""
        used = np.flatnonzero(self.weights)
        v: Array = (self.weights[used] / self._lambda) @ self._products[used]
        return v

    def at_model(self) -> Array:
        """Return the products of the planes with the model of the weights."""
        n = len(self)
        product: Array = self._gram[:n, :n] @ self.weights / self._lambda
        return product

    def square(self) -> float:
        """Return `v^T K^+ v` of the model of the weights."""
        return max(0.0, float(self.weights @ self.at_model()) / self._lambda)

    def with_best(self) -> float:
        """Return `v^T K^+ u` of the model and the best one."""
        return float(self.weights @ self.at_best) / self._lambda


# Its factorisations end before other threads of BLAS have woken, which then wait in a loop.
@blas_threads_at_most(1)
def simplex_maximum(gram: Array, b: Array, tol: float) -> Array:
    r"""Return the maximum of :math:`b^T \alpha - \alpha^T H \alpha / 2` on the simplex.

    Mehrotra's predictor and corrector [1]_, to a gap of `tol`. Unlike that of exchanges, the number
    of steps hardly depends on the condition of `H`, positive semi-definite, but each takes a
    factorisation. Weights are positive: those that vanish at the optimum are small.

    References
    ----------
    .. [1] S. Mehrotra, "On the implementation of a primal-dual interior point method", SIAM Journal
       on Optimization 2(4), 1992.
    """
    n = len(b)
    weights = np.full(n, 1.0 / n)
    gradient = gram @ weights - b
    level = -float(gradient.min()) + max(float(np.ptp(gradient)), tol)
    slack = gradient + level
    for _ in range(_MAX_ITER):
        gap = float(weights @ slack)
        # The level is the multiplier of the sum, so that this vanishes but for rounding.
        residual = gram @ weights - b + level - slack
        if gap <= tol:
            break
        matrix = gram.copy()
        matrix.flat[:: n + 1] += slack / weights
        try:
            factor = cho_factor(matrix, overwrite_a=True, check_finite=False)
        except LinAlgError:  # as near as rounding lets it come
            break
        newton = _Newton(factor, weights, slack, residual)
        step, slack_step, _ = newton.step(np.zeros(n))
        reach = min(1.0, _reach(weights, step), _reach(slack, slack_step))
        after = float((weights + reach * step) @ (slack + reach * slack_step))
        centre = (after / gap) ** 3 * gap / n
        # Of a step that is cut short, the second order counts with its square alone.
        step, slack_step, rise = newton.step(centre - reach**2 * step * slack_step)
        reach = min(1.0, _TO_BOUNDARY * min(_reach(weights, step), _reach(slack, slack_step)))
        weights = weights + reach * step
        slack = slack + reach * slack_step
        level += reach * rise
    return np.asarray(weights / weights.sum())


class _Newton:
    """Steps towards a point where each weight times its slack is what is wanted."""

    def __init__(self, factor: Any, weights: Array, slack: Array, residual: Array) -> None:
        self._factor, self._weights, self._slack = factor, weights, slack
        self._residual = residual
        self._ones = cho_solve(factor, np.ones(len(weights)), check_finite=False)

    def step(self, products: Array) -> tuple[Array, Array, float]:
        """Return the steps of the weights, of the slacks and of the multiplier of the sum."""
        wanted = products / self._weights - self._slack
        free = cho_solve(self._factor, wanted - self._residual, check_finite=False)
        rise = float((free.sum() - (1 - self._weights.sum())) / self._ones.sum())
        step = free - rise * self._ones
        return step, wanted - self._slack * step / self._weights, rise


def _reach(at: Array, step: Array) -> float:
    """Return the largest part of a step that keeps every entry from being negative."""
    falling = step < 0
    return float(np.min(-at[falling] / step[falling], initial=1 / _TO_BOUNDARY))
