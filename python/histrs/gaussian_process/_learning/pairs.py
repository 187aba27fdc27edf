"""Which pairs of features a model has."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from histrs._solvers.block_cg import largest_entries
from histrs._solvers.row_scale import scaled
from histrs._typing import Array
from histrs.gaussian_process._bound.pairs import PairKernel
from histrs.gaussian_process._learning.halves import HalvesLikelihood
from histrs.gaussian_process._learning.hyperparameters import Hyperparameters
from histrs.gaussian_process._learning.level_likelihood import LevelLikelihood
from histrs.gaussian_process._learning.likelihood import BaseLikelihood, Likelihood
from histrs.gaussian_process._learning.pair_search import check_pairs, strongest_pairs
from histrs.gaussian_process._learning.problem import Problem

# Rows of a likelihood that the weight of pairs is learned by: more take long, fewer tell nothing.
_MOST_ROWS = 1024
_MIN_HALF = 16
# Of what the additive fit leaves, more digits do not matter.
_TOLERANCE = 1e-2


def chosen_pairs(
    problem: Problem,
    asked: Any,
    likelihood: Likelihood | LevelLikelihood,
    values: Hyperparameters,
) -> NDArray[np.intp]:
    """Return the pairs that are given, or those that the residuals of the additive fit show."""
    X = problem.X
    if asked is None or asked.has_none:
        return np.empty((0, 2), dtype=np.intp)
    if not asked.are_found:
        return check_pairs(asked.pairs, X.shape[1], problem.feature_names)
    if X.shape[1] < 2:
        raise ValueError(
            f"{asked!r} is of pairs of features, and X has n_features = 1: leave it out."
        )
    alpha, strength = _additive_fit(likelihood, values)
    return strongest_pairs(X, alpha, strength, asked.pairs, asked.n_knots, problem.rng)


def likelihood_of_pairs(problem: Problem, asked: Any, values: Hyperparameters) -> BaseLikelihood:
    """Return the likelihood that the weight of pairs is learned by, at `values` with these pairs.

    Of few rows it is that of halves, each with the other's choice of pairs, unless pairs are given;
    of many, that of some rows, which hardly had a say in which pairs there are.
    """
    n = len(problem.Y)
    few = n <= 2 * _MOST_ROWS
    if few and (not asked.are_found or n < 2 * _MIN_HALF):
        return _exact(problem, np.arange(n), values.kernel)
    order = problem.rng().permutation(n)
    if not few:
        return _exact(problem, np.sort(order[:_MOST_ROWS]), values.kernel)
    additive = replace(values, kernel=replace(values.kernel, pairs=None))
    likelihoods, kernels = [], []
    for rows in (np.sort(order[: n // 2]), np.sort(order[n // 2 :])):
        half = problem.of_rows(rows, exact=True)
        likelihood = half.likelihood(half.bind(additive.kernel))
        pairs = chosen_pairs(half, asked, likelihood, additive)
        likelihoods.append(half.likelihood(likelihood.bound(additive.kernel)))
        kernels.append(PairKernel.of(problem.X, pairs, asked.n_knots))
    return HalvesLikelihood(problem.Y, list(zip(likelihoods, kernels[::-1], strict=True)))


def _exact(problem: Problem, rows: NDArray[np.intp], kernel: Any) -> Likelihood:
    """Return the likelihood of few rows, whatever solves for all of them."""
    few = problem.of_rows(rows, exact=True)
    likelihood: Likelihood = few.likelihood(few.bind(kernel))
    return likelihood


def _additive_fit(
    likelihood: Likelihood | LevelLikelihood, values: Hyperparameters
) -> tuple[Array, Array]:
    """Return the weights of the fit, of unit length per output, and how much features vary."""
    Y = likelihood.targets
    parts = []
    for scales, outputs in zip(values.scales(), values.outputs(Y.shape[1]), strict=True):
        system = likelihood.system(values.kernel, scales)
        B = np.ascontiguousarray(Y[:, outputs])
        solution = system.solve(B, _TOLERANCE * largest_entries(B)).X
        parts.append(scaled(system.row_scale, solution))
    alpha = np.hstack(parts)
    length = np.sqrt(np.sum(alpha**2, axis=0))
    alpha /= np.where(length > 0.0, length, 1.0)
    system = likelihood.system(values.kernel, values.scales()[0])
    return alpha, system.bound.forms_by_feature(np.ascontiguousarray(alpha)).sum(axis=1)
