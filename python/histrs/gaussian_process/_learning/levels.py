"""How an additive kernel on levels of columns is learned: on few levels first, then on all."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from histrs.gaussian_process._bound.base import Bound
from histrs.gaussian_process._kernels.additive import AdditiveTerms, signs_of
from histrs.gaussian_process._kernels.levels import (
    LevelCategories,
    LevelColumn,
    LevelKernel,
    LevelPair,
)
from histrs.gaussian_process._learning.feature_weights import VAGUE_INTERCEPT
from histrs.gaussian_process._learning.hyperparameters import Bounds, Hyperparameters
from histrs.gaussian_process._learning.learner import Learner
from histrs.gaussian_process._learning.likelihood import Likelihood
from histrs.gaussian_process._learning.pairs import chosen_pairs
from histrs.gaussian_process._learning.problem import Problem

# Levels of a column, alone and in pairs, that weights are learned on; and weights that all levels
# of all columns have together, if that suits, and levels of a column at most.
_COARSE = 32, 6
_WEIGHTS = 2048
_MOST_LEVELS = 512
_FEWEST_LEVELS = 16
# More weights are too many to factorise.
_MOST_WEIGHTS = 10_000
_BOUNDS = (1e-7, 1e5)
# Codes of a column in a pair, unless it has more knots.
_CELLS = 16


def learn(
    problem: Problem,
    asked: AdditiveTerms,
    values: Hyperparameters,
    learner: Learner,
    n_categories: int = 0,
) -> tuple[Hyperparameters, Bound]:
    """Return the hyper-parameters, and their kernel on the rows.

    The search starts from the noise and amplitude of `values`. The last `n_categories` columns are
    categories.
    """
    n_levels = _n_levels(asked.levels, problem)
    kernel = _start(problem, asked, n_levels, learner, n_categories)
    kernel, values, bound = _searched(problem, kernel, values, learner)
    if asked.has_pairs:
        likelihood = problem.likelihood(bound.with_kernel(values.kernel))
        kernel = _with_pairs(problem, asked.pairs, kernel, values, likelihood, n_categories)
        kernel, values, bound = _searched(problem, kernel, values, learner)
    return replace(values, kernel=kernel), bound.with_kernel(kernel)


def _searched(
    problem: Problem, kernel: LevelKernel, values: Hyperparameters, learner: Learner
) -> tuple[LevelKernel, Hyperparameters, Bound]:
    """Return the kernel with weights learned on few of its levels, what was learned, and these.

    The last is the kernel of few levels on the rows.
    """
    on_rows: Any = problem.bind(kernel)
    on_rows = on_rows.counted(problem.weights)
    kernel = on_rows.kernel
    # Of fewer knots on the same codes, which are counted once.
    bound = on_rows.with_kernel(kernel.with_levels(*_COARSE))
    values = learner.best(replace(values, kernel=bound.kernel), problem.likelihood(bound))
    learned = {"level_weights": values.kernel.level_weights}
    return kernel.with_parameters(learned), values, bound


def _n_levels(asked: Any, problem: Problem) -> int:
    if asked != "auto":
        return int(asked)
    n_weights = min(_WEIGHTS, len(problem.Y) // 2)
    return int(np.clip(n_weights // problem.X.shape[1], _FEWEST_LEVELS, _MOST_LEVELS))


def _start(
    problem: Problem, asked: AdditiveTerms, n_levels: int, learner: Learner, n_categories: int
) -> LevelKernel:
    """Return the kernel that a search starts from, with all columns alike."""
    n_features = problem.X.shape[1]
    columns: list[Any] = [
        _column(problem, d, n_levels, 2 * n_levels, n_categories) for d in range(n_features)
    ]
    for d, sign in signs_of(asked.monotonic_cst, n_features, problem.feature_names).items():
        columns[d] = replace(columns[d], sign=sign)
    weights = np.full(sum(len(column.shares) for column in columns), 1.0 / n_features)
    bounds: Bounds = "fixed" if learner.search.method is None else _BOUNDS
    given = asked.intercept_variance
    intercept = VAGUE_INTERCEPT if given == "auto" else float(given)
    return _checked(LevelKernel(tuple(columns), weights, intercept, bounds))


def _column(
    problem: Problem, feature: int, n_levels: int, n_codes: int, n_categories: int
) -> LevelColumn | LevelCategories:
    X, weights = problem.X, problem.weights
    if feature < X.shape[1] - n_categories:
        return LevelColumn.of(X, feature, weights, n_levels, n_codes)
    return LevelCategories.of(X, feature, weights, n_levels)


def _checked(kernel: LevelKernel) -> LevelKernel:
    n_weights = sum(term.functions.shape[1] for term in kernel.terms)
    if n_weights > _MOST_WEIGHTS:
        raise ValueError(
            f"Functions on levels have {n_weights} weights, too many to solve for "
            f"({_MOST_WEIGHTS}): ask for fewer levels, or set levels=None, which keeps every value."
        )
    return kernel


def _with_pairs(
    problem: Problem,
    asked: Any,
    kernel: LevelKernel,
    values: Hyperparameters,
    likelihood: Likelihood,
    n_categories: int,
) -> LevelKernel:
    """Return the kernel with pairs that are given, or that tell most of what it leaves."""
    monotone = dict(kernel.signs)
    pairs = chosen_pairs(problem, asked, likelihood, values, but=monotone)
    if np.isin(pairs, list(monotone)).any():
        raise ValueError(
            f"Interactions(pairs={asked.pairs!r}) has a column of monotonic_cst, which no pair may "
            "have: leave it out of one of them."
        )
    of_column = asked.n_knots, max(_CELLS, asked.n_knots), n_categories
    columns = {int(d): _column(problem, int(d), *of_column) for d in np.unique(pairs)}
    found = [LevelPair(columns[int(i)], columns[int(j)]) for i, j in pairs]
    weight = asked.weight * float(np.mean(kernel.level_weights))
    return _checked(kernel.with_pairs(found, float(np.clip(weight, *_BOUNDS))))
