"""How hyper-parameters of an additive kernel are learned, which is never formed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from histrs import _histrs
from histrs._checks.validation import to_core
from histrs._distributed.rows import is_dask
from histrs._warnings import warn
from histrs.gaussian_process._bound.base import Bound
from histrs.gaussian_process._bound.pairs import PairKernel
from histrs.gaussian_process._distributed.bound import sorted_columns
from histrs.gaussian_process._kernels.additive import AdditiveTerms
from histrs.gaussian_process._kernels.intersection import Splines
from histrs.gaussian_process._learning.feature_weights import (
    VAGUE_INTERCEPT,
    likelier_weights,
    relevant_weights,
)
from histrs.gaussian_process._learning.hyperparameters import SCALES, Hyperparameters
from histrs.gaussian_process._learning.learner import Learner
from histrs.gaussian_process._learning.likelihood import Likelihood
from histrs.gaussian_process._learning.pairs import chosen_pairs, likelihood_of_pairs
from histrs.gaussian_process._learning.problem import Problem
from histrs.gaussian_process._systems.system import System

# Part of the spread of the largest column, below which all others together hardly count; and rows,
# fewer of which do not tell it.
_CARRIED = 1e-3
_MIN_ROWS_OF_SPREADS = 50
# How often the weight of pairs, and noise and amplitude, are learned in turn.
_ROUNDS = 2
# Rows that weights of smooth functions are learned by where all would take long.
_SMOOTH_ROWS = 1024


def sorted_base(X: Any, n_threads: int, n_jobs: int | None) -> _histrs.SortedColumns:
    """Return the columns of training rows, sorted.

    Sorting reads every value, names the first bad one, and refuses data of a shape that nothing
    else here could hold.
    """
    return sorted_columns(X, n_jobs) if is_dask(X) else _histrs.SortedColumns(to_core(X), n_threads)


def learn(
    problem: Problem,
    terms: AdditiveTerms,
    values: Hyperparameters,
    base: _histrs.SortedColumns,
    learner: Learner,
    *,
    has_intercept: bool,
) -> tuple[Hyperparameters, Bound]:
    """Return the hyper-parameters, and their kernel on the rows.

    The search starts from `values`, with the kernel of `terms.start`; `base` are the columns of the
    rows. With `has_intercept`, a constant beside the kernel may be part of it.
    """
    if terms.feature_weights is None and len(problem.Y) >= _MIN_ROWS_OF_SPREADS:
        _warn_of_units(values.kernel.columns(base, problem.n_threads), problem.n_threads, learner)
    values = _with_chosen_weights(problem, terms, values, learner)
    splines = terms.functions
    if isinstance(splines, Splines):
        slope, rough = float(splines.slope_weight), float(splines.rough_weight)
        parts: dict[str, Any] = {"slope_weight": slope, "rough_weight": rough}
        kernel = replace(values.kernel, smoothness=terms.smoothness, **parts)
        values = replace(values, kernel=kernel)
    bound = problem.bind(values.kernel, base)
    system = problem.system(bound, values.scales()[0])
    system.check()
    intercept = _variance_of_intercept(system, terms) if has_intercept else 0.0
    kernel = replace(values.kernel, intercept_variance=intercept)
    bounds = kernel.free().get("feature_weights")
    if bounds is not None and not isinstance(bounds, str):
        # Columns of hardly any spread would start at the largest numbers.
        weights = np.ones(problem.X.shape[1]) if kernel.weights is None else kernel.weights
        kernel = replace(kernel, weights=np.clip(weights, *bounds))
    values = replace(values, kernel=kernel)
    likelihood = problem.likelihood(bound.with_kernel(values.kernel))
    if not kernel.is_smooth or likelihood.is_exact:
        values = learner.best(values, likelihood)
    else:
        # Each weight of a part is another matrix: some rows tell it, all tell noise and amplitude.
        of_some = problem.exact_likelihood(problem.some_rows(_SMOOTH_ROWS), kernel)
        values = learner.best(learner.best(values, of_some), likelihood, SCALES)
    values, likelihood = _with_interactions(problem, terms, values, likelihood, learner)
    return values, likelihood.bound(values.kernel)


def _warn_of_units(columns: _histrs.SortedColumns, n_threads: int, learner: Learner) -> None:
    """Say where one column is nearly all of the kernel, though others vary."""
    spreads = columns.spreads(n_threads)
    largest = int(np.argmax(spreads))
    others = float(np.sum(np.delete(spreads, largest)))
    if 0.0 < others < _CARRIED * float(spreads[largest]):
        warn(
            f"{learner.name}: feature {largest} has a spread {spreads[largest] / others:.1e} times "
            "that of all others together, and dominates the kernel; set feature_weights="
            '"scale", which divides features by their spread.'
        )


def _with_chosen_weights(
    problem: Problem, terms: AdditiveTerms, start: Hyperparameters, learner: Learner
) -> Hyperparameters:
    """Return the start with the weights of features that the rows tell, if they are asked."""
    asked = terms.feature_weights
    if not isinstance(asked, str):
        return start
    fixed = any(isinstance(bounds, str) for bounds in learner.bounds.values())
    if learner.search.method is not None and not fixed and asked in ("auto", "relevance"):
        start = likelier_weights(problem, start, terms.intercept_variance)
    if asked != "relevance":
        return start
    kernel, given = start.kernel, terms.intercept_variance
    weights = relevant_weights(
        replace(kernel, weights=None).rows(problem.X, problem.n_threads),
        problem.Y,
        np.ones(problem.X.shape[1]) if kernel.weights is None else kernel.weights,
        None if given == "auto" else float(given),
        problem.rng(),
        problem.n_threads,
        are_classes=problem.are_classes,
    )
    return start.with_values({"feature_weights": weights})


def _variance_of_intercept(system: System, terms: AdditiveTerms) -> float:
    """Return the variance of a constant beside the functions of the features."""
    if terms.intercept_variance != "auto":
        return float(terms.intercept_variance)
    if system.kernel.is_smooth or system.solver.name == "coordinate-descent":
        return 0.0
    return VAGUE_INTERCEPT * system.mean_variance


def _with_interactions(
    problem: Problem,
    terms: AdditiveTerms,
    values: Hyperparameters,
    likelihood: Likelihood,
    learner: Learner,
) -> tuple[Hyperparameters, Likelihood]:
    """Return the hyper-parameters with pairs of features, found in what is left without."""
    pairs = chosen_pairs(problem, terms.pairs, likelihood, values)
    if len(pairs) == 0:
        return values, likelihood
    asked: Any = terms.pairs
    kernel = replace(
        values.kernel,
        pairs=PairKernel.of(problem.X, pairs, asked.n_knots),
        interaction_weight=float(asked.weight),
    )
    start = replace(values, kernel=kernel)
    of_weight = likelihood_of_pairs(problem, asked, start)
    of_all = problem.likelihood(likelihood.bound(start.kernel))
    if not asked.are_found and of_weight.shape[0] == len(problem.Y):
        return learner.best(start, of_weight), of_all
    # All rows tell noise and amplitude, but pairs weigh what rows say that did not choose them.
    for _ in range(_ROUNDS):
        start = learner.best(start, of_weight, ["interaction_weight"])
        start = learner.best(start, of_all, SCALES)
    return start, of_all
