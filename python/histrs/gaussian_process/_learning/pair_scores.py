"""Scores of training rows by fits without them, pairs of features included."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from histrs._typing import Array
from histrs.gaussian_process._bound.pairs import PairKernel
from histrs.gaussian_process._learning.hyperparameters import Hyperparameters
from histrs.gaussian_process._learning.pairs import chosen_pairs
from histrs.gaussian_process._learning.problem import Problem
from histrs.gaussian_process._posterior.posterior import Posterior
from histrs.gaussian_process._systems.rows import left_over

_FOLDS = 5
# Of more rows, one of them has no say in which pairs there are.
MOST_ROWS = 2048


def scores_without_pairs_of(problem: Problem, asked: Any, posterior: Posterior) -> Array:
    """Return posterior means of each row by a fit to four fifths of the others.

    Each fit chooses its own pairs: those of all rows were chosen with the row's own label.
    """
    bound, Y = posterior.bound, problem.Y
    n = len(Y)
    order = problem.rng().permutation(n)
    additive = replace(posterior.system.kernel, pairs=None)
    values = Hyperparameters(posterior.noise, posterior.amplitude, additive)
    scores = np.empty_like(Y)
    for fold in range(_FOLDS):
        held = np.sort(order[fold::_FOLDS])
        part = problem.of_rows(left_over(n, held))
        likelihood = part.likelihood(part.bind(additive))
        chosen = chosen_pairs(part, asked, likelihood, values)
        pairs = PairKernel.of(part.X, chosen, asked.n_knots)
        kernel = replace(additive, pairs=pairs if len(chosen) > 0 else None)
        of_part = likelihood.bound(kernel)
        rows = of_part.rows_of(bound.X[held])
        for scales, outputs in zip(values.scales(), values.outputs(Y.shape[1]), strict=True):
            B = np.ascontiguousarray(part.Y[:, outputs])
            system = part.system(of_part, scales)
            weights = system.solve_targets(B, np.full(B.shape[1], posterior.tol)).X
            scores[held, outputs] = of_part.cross_product(rows, weights)
    return scores
