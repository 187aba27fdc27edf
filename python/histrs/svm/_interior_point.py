"""The dual on the simplex by an interior-point method, where exchanges of weights are too slow."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from histrs._threads import blas_threads_at_most
from histrs._typing import Array

_MAX_ITER = 60
# How near to the boundary a step may come.
_TO_BOUNDARY = 0.995


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
