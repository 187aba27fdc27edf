"""Adaptive gradient descent that keeps the best iterate."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from histrs._progress import TrainingProgress
from histrs._typing import Array

# Rows, or None for all, to the mean loss over them and its gradient.
Loss = Callable[[Array, NDArray[np.intp] | None], tuple[float, Array]]

# Passes without a better loss after which the rate is halved.
_PATIENCE = 5
# Passes over which the loss must have fallen.
_WINDOW = 10
# Halvings after which a loss that no longer falls is taken for the least.
_HALVINGS = 20


class Descended(NamedTuple):
    """The best iterate, and the way there."""

    weights: Array
    curve: list[float]
    converged: bool


class _Moments:
    """The steps of Adam (D. P. Kingma and J. Ba, ICLR 2015)."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self._first, self._second, self._count = np.zeros(shape), np.zeros(shape), 0

    def step(self, gradient: Array) -> Array:
        """Return the step for a rate of 1."""
        self._count += 1
        self._first += 0.1 * (gradient - self._first)
        self._second += 0.01 * (gradient**2 - self._second)
        mean = self._first / (1 - 0.9**self._count)
        spread = np.sqrt(self._second / (1 - 0.99**self._count))
        # Where there is no slope there is no step.
        return np.asarray(mean / np.maximum(spread, np.finfo(np.float64).tiny))


def descend(
    loss: Loss,
    start: Array,
    *,
    rate: float,
    max_iter: int,
    tol: float,
    batches: Callable[[], Iterable[NDArray[np.intp]]] | None,
    progress: TrainingProgress,
) -> Descended:
    """Minimise the mean that `loss` is over rows (None is all), which returns its gradient too.

    A pass evaluates all rows and takes a step, or one for each of `batches`. `rate` is about the
    size of the first steps. After passes that bring nothing, it is halved and the descent goes on
    from the best iterate. It has converged when ten passes lower the best loss, but by no more than
    `tol` of it; or when there is no slope.
    """
    weights = best = start
    moments, curve, lowest = _Moments(start.shape), list[float](), list[float]()
    idle = halvings = 0
    for _ in range(max_iter):
        value, gradient = loss(weights, None)
        curve.append(value)
        progress(value)
        if not lowest or value < lowest[-1]:
            best, idle = weights, 0
        else:
            idle += 1
        lowest.append(min(value, lowest[-1]) if lowest else value)
        before = lowest[-1 - _WINDOW] if len(lowest) > _WINDOW else np.inf
        is_flat = before > lowest[-1] >= (1 - tol) * before
        if is_flat or halvings == _HALVINGS or not np.any(gradient):
            return Descended(best, curve, True)
        if idle >= _PATIENCE:
            rate, idle, halvings = rate / 2, 0, halvings + 1
            weights, moments = best, _Moments(start.shape)
            _, gradient = loss(weights, None)
        for rows in [None] if batches is None else batches():
            if rows is not None:
                _, gradient = loss(weights, rows)
            weights = weights - rate * moments.step(gradient)
    return Descended(best, curve, False)
