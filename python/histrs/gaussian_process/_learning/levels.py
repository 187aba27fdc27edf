"""How an additive kernel on levels of columns is learned: on few levels first, then on all."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from histrs.gaussian_process._bound.base import Bound
from histrs.gaussian_process._kernels.levels import N_MEASURES, LevelColumn, LevelKernel
from histrs.gaussian_process._learning.hyperparameters import Bounds, Hyperparameters
from histrs.gaussian_process._learning.learner import Learner
from histrs.gaussian_process._learning.problem import Problem
from histrs.gaussian_process._learning.weights import VAGUE_INTERCEPT

# Levels that weights are learned on first; and weights that all levels of all columns have
# together, if that suits, and levels of a column at most.
_COARSE = 16
_WEIGHTS = 2048
_MOST_LEVELS = 512
# More weights are too many to factorise.
_MOST_WEIGHTS = 10_000
_BOUNDS = (1e-7, 1e5)


def learn(
    problem: Problem, asked: Any, values: Hyperparameters, learner: Learner
) -> tuple[Hyperparameters, Bound]:
    """Return the hyper-parameters, and their kernel on the rows.

    Parameters
    ----------
    problem : Problem
        Rows and targets.
    asked : Intersection
        With levels.
    values : Hyperparameters
        Noise and amplitude that the search starts from, whatever the kernel.
    learner : Learner
        Searches.
    """
    n_features = problem.X.shape[1]
    n_levels = asked.levels
    if n_levels == "auto":
        n_weights = min(_WEIGHTS, len(problem.Y))
        n_levels = int(np.clip(n_weights // n_features, _COARSE, _MOST_LEVELS))
    weights = np.full(N_MEASURES * n_features, 1.0 / n_features)
    bounds: Bounds = "fixed" if learner.search.method is None else _BOUNDS
    given = asked.intercept_variance
    intercept = VAGUE_INTERCEPT if given == "auto" else float(given)
    columns = tuple(LevelColumn.of(x, problem.weights, n_levels) for x in problem.X.T)
    kernel = LevelKernel(columns, weights, intercept, bounds)
    n_weights = sum(column.functions.shape[1] for column in columns)
    if n_weights > _MOST_WEIGHTS:
        raise ValueError(
            f"{n_levels} levels of {n_features} features have {n_weights} weights, too many to "
            f"solve for ({_MOST_WEIGHTS}): set levels=None, which keeps every value."
        )
    bound = problem.bind(kernel)
    for n in sorted({min(_COARSE, n_levels), n_levels}):
        # Of fewer knots on the same codes, which are counted once.
        coarser = tuple(replace(column, n_levels=n) for column in columns)
        kernel = replace(kernel, columns=coarser)
        bound = bound.with_kernel(kernel)
        values = learner.best(replace(values, kernel=kernel), problem.likelihood(bound))
        kernel = values.kernel
    return values, bound.with_kernel(kernel)
