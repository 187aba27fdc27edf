"""Scores of training rows by fits without them, pairs of features included."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from histrs import _histrs
from histrs._solvers.block_cg import Array
from histrs._validation import count_threads, to_core
from histrs.gaussian_process._hyperparameters import Hyperparameters
from histrs.gaussian_process._interactions.choice import chosen_pairs, of_rows
from histrs.gaussian_process._interactions.kernel import PairKernel
from histrs.gaussian_process._online import left_over
from histrs.gaussian_process._posterior import Posterior

_FOLDS = 5
# Of more rows, one of them has no say in which pairs there are.
MOST_ROWS = 2048


def scores_without_pairs_of(model: Any, posterior: Posterior, Y: Array) -> Array:
    """Return posterior means of each row by a fit to four fifths of the others.

    Each fit chooses its own pairs: those of all rows were chosen with the row's own label.
    """
    system, n_threads = posterior.system, count_threads(model.n_jobs)
    n = len(Y)
    order = np.random.default_rng(model._seed).permutation(n)
    noise, amplitude = posterior.noise, posterior.amplitude
    values = Hyperparameters(noise, amplitude, replace(system.kernel, pairs=None))
    scores = np.empty_like(Y)
    for fold in range(_FOLDS):
        held = np.sort(order[fold::_FOLDS])
        kept = left_over(n, held)
        X = system.X[kept]
        columns = _histrs.SortedColumns(to_core(X), n_threads)
        part_of_model = of_rows(model, kept)
        make_system = partial(part_of_model._make_system, X)
        likelihood = part_of_model._make_likelihood(make_system, columns, Y[kept])
        chosen = chosen_pairs(model, X, likelihood, values)
        pairs = PairKernel.of(X, chosen, model._terms().pairs.n_knots)
        kernel = replace(system.kernel, pairs=pairs if len(pairs.pairs) > 0 else None)
        rows = kernel.rows(system.X[held], n_threads)
        for scales, outputs in zip(values.scales(), values.outputs(Y.shape[1]), strict=True):
            part = make_system(kernel, scales, columns)
            B = np.ascontiguousarray(Y[kept][:, outputs])
            weights = part.solve_targets(B, np.full(B.shape[1], posterior.tol)).X
            scores[held, outputs] = part.cross_product(rows, weights)
    return scores
