"""Stochastic steps on weights in input space, and their schedule."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from histrs import _histrs
from histrs._checks.validation import to_core
from histrs._progress import TrainingProgress
from histrs._typing import Array, Matrix
from histrs._warnings import warn

# `early_stopping` asks for this relative decrease of the objective, once in so many passes.
_DECREASE = 1e-3
_PATIENCE = 5


@dataclass(frozen=True)
class Steps:
    """Weights after each pass so far, of shape (n_problems, n_columns)."""

    last: Array
    total: Array
    """The sum of those that are averaged."""
    n_averaged: int = 0
    n_iter: int = 0

    def then(self, last: Array, *, averaged: bool) -> Self:
        """Return these and the weights after one more pass."""
        total = self.total + last if averaged else self.total
        return type(self)(last, total, self.n_averaged + averaged, self.n_iter + 1)

    def without(self, columns: NDArray[np.bool_]) -> Self:
        """Return weights of 0 in some columns: what rounding has made of constants."""
        last, total = self.last.copy(), self.total.copy()
        last[:, : len(columns)][:, columns] = total[:, : len(columns)][:, columns] = 0.0
        return replace(self, last=last, total=total)

    def learned(self, average: bool) -> Array:
        """Return the last weights, or the mean of those that are averaged."""
        return self.total / self.n_averaged if average and self.n_averaged else self.last


@dataclass(frozen=True)
class Problem:
    """Rows in units, their signs and weights, of shape (n_problems, n_samples), and a penalty."""

    X: Matrix
    signs: Array
    weights: Array
    margin: float
    alpha: float
    n_threads: int

    def begin(self) -> Steps:
        """Return what there is before the first pass."""
        nothing = np.zeros((len(self.signs), self.X.shape[1]))
        return Steps(nothing, nothing)

    def in_mean_weights(self) -> tuple[Self, float]:
        """Return the problem divided by its mean weight, so that steps have the length asked for.

        The largest weight comes first, since the mean may be below the least number.
        """
        largest = float(self.weights.max())
        weights = self.weights / largest
        part = float(np.mean(weights))
        alpha = min(self.alpha / largest / part, float(np.finfo(np.float64).max))
        return replace(self, weights=weights / part, alpha=alpha), largest * part

    def after_pass(self, w: Array, eta: float, t: float, rng: np.random.RandomState) -> Array:
        """Return weights after a step of length `eta` for every row, smoothed by `t`."""
        order = rng.permutation(self.X.shape[0]).astype(np.int64)
        steps = self.margin, eta, float(self.alpha), t
        return _histrs.svm_epoch(
            to_core(self.X), self.signs, self.weights, order, w, steps, self.n_threads
        )

    def objective(self, w: Array) -> float:
        """Return the sum over the problems of equation 7a, with weighted losses."""
        scores = _histrs.svm_scores(to_core(self.X), w, None, self.n_threads).T
        losses = self.weights * np.maximum(0.0, self.margin - self.signs * scores)
        return float(self.alpha * np.abs(w).sum() + losses.mean(axis=1).sum())


def signs_of(y: NDArray[Any], classes: NDArray[Any]) -> Array:
    """Return 1 and -1 of shape (n_problems, n_samples); two classes are one problem."""
    positive = classes[1:] if len(classes) == 2 else classes
    return np.where(y[None] == positive[:, None], 1.0, -1.0)


def train(
    problem: Problem, model: Any, eta: float, largest: float, rng: np.random.RandomState
) -> Steps:
    """Make the passes of a fit: of a model's parameters, from steps of length `eta`."""
    problem, mean = problem.in_mean_weights()
    steps, half = problem.begin(), model.max_iter // 2
    smooths = model.smoothing == "continuation" and half > 0
    dropped, stopped, best, stale = False, False, np.inf, 0
    with TrainingProgress(type(model).__name__, model.verbose) as progress:
        while steps.n_iter < model.max_iter and not stopped:
            if steps.n_iter == half and not dropped:
                eta, dropped = eta / 10, True
            t = largest * max(0.0, 1 - steps.n_iter / half) if smooths else 0.0
            last = problem.after_pass(steps.last, eta, t, rng)
            steps = steps.then(last, averaged=model.average and dropped)
            stops = model.early_stopping and t == 0.0
            if not (stops or model.verbose):
                continue
            value = problem.objective(last)
            progress(value * mean)
            if not stops:
                continue
            stale = 0 if value < best * (1 - _DECREASE) else stale + 1
            best = min(best, value)
            stopped = stale >= _PATIENCE and dropped
            if stale >= _PATIENCE and not dropped:
                eta, dropped, stale = eta / 10, True, 0
    if model.early_stopping and not stopped:
        warn(
            f"The objective, {best * mean:.3g}, was still falling after "
            f"max_iter = {model.max_iter} passes; raise max_iter or eta0.",
            ConvergenceWarning,
        )
    return steps
