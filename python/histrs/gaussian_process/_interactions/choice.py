"""Which pairs of features a model has."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from histrs import _histrs
from histrs._dask import in_memory
from histrs._solvers.block_cg import Array, largest_entries
from histrs._solvers.row_scale import scaled
from histrs._validation import Matrix, count_threads, to_core
from histrs.gaussian_process._hyperparameters import Hyperparameters
from histrs.gaussian_process._interactions.halves import HalvesLikelihood
from histrs.gaussian_process._interactions.kernel import PairKernel
from histrs.gaussian_process._interactions.search import (
    Interactions,
    check_pairs,
    strongest_pairs,
)
from histrs.gaussian_process._likelihood import BaseLikelihood, Likelihood
from histrs.gaussian_process._row_weights import rows_of
from histrs.gaussian_process._state import copied
from histrs.gaussian_process._system import KernelSystem

__all__ = [
    "Interactions",
    "chosen_pairs",
    "exact_likelihood",
    "likelihood_of_pairs",
]

# Rows of a likelihood that the weight of pairs is learned by: more take long, fewer tell nothing.
_MOST_ROWS = 1024
_MIN_HALF = 16
# Of what the additive fit leaves, more digits do not matter.
_TOLERANCE = 1e-2


def chosen_pairs(
    model: Any, X: Matrix, likelihood: Likelihood, values: Hyperparameters
) -> NDArray[np.intp]:
    """Return the pairs that are given, or those that the residuals of the additive fit show."""
    asked = model._terms().pairs
    if asked is None or asked.has_none:
        return np.empty((0, 2), dtype=np.intp)
    if not asked.are_found:
        names = getattr(model, "feature_names_in_", None)
        return check_pairs(asked.pairs, X.shape[1], names)
    if X.shape[1] < 2:
        raise ValueError(
            f"{asked!r} is of pairs of features, and X has n_features = 1: leave it out."
        )
    alpha, strength = _additive_fit(likelihood, values)
    return strongest_pairs(
        X,
        alpha,
        strength,
        asked.pairs,
        asked.n_knots,
        lambda: np.random.default_rng(model._seed),
    )


def likelihood_of_pairs(model: Any, X: Matrix, Y: Array, values: Hyperparameters) -> BaseLikelihood:
    """Return the likelihood that the weight of pairs is learned by, at `values` with these pairs.

    Of few rows it is that of halves, each with the other's choice of pairs, unless pairs are given;
    of many, that of some rows, which hardly had a say in which pairs there are.
    """
    n = len(Y)
    few = n <= 2 * _MOST_ROWS
    asked = model._terms().pairs
    if few and (not asked.are_found or n < 2 * _MIN_HALF):
        return exact_likelihood(model, X, Y, np.arange(n))
    order = np.random.default_rng(model._seed).permutation(n)
    if not few:
        return exact_likelihood(model, X, Y, np.sort(order[:_MOST_ROWS]))
    additive = replace(values, kernel=replace(values.kernel, pairs=None))
    likelihoods, kernels = [], []
    for rows in (np.sort(order[: n // 2]), np.sort(order[n // 2 :])):
        likelihood = exact_likelihood(model, X, Y, rows)
        pairs = chosen_pairs(model, X[rows], likelihood, additive)
        likelihoods.append(exact_likelihood(model, X, Y, rows))
        kernels.append(PairKernel.of(X, pairs, asked.n_knots))
    return HalvesLikelihood(Y, list(zip(likelihoods, kernels[::-1], strict=True)))


def exact_likelihood(model: Any, X: Matrix, Y: Array, rows: NDArray[np.intp]) -> Likelihood:
    """Return the likelihood of few rows, whatever solves for all of them."""
    X, part = in_memory(X[rows]), of_rows(model, rows)
    columns = _histrs.SortedColumns(to_core(X), count_threads(model.n_jobs))

    def make_system(*arguments: Any) -> KernelSystem:
        system: KernelSystem = part._make_system(X, *arguments)
        return replace(system, solver="cholesky")

    likelihood: Likelihood = part._make_likelihood(make_system, columns, Y[rows])
    return likelihood


def of_rows(model: Any, rows: NDArray[np.intp]) -> Any:
    """Return a copy of a model that knows the weights of some of its rows alone."""
    part = copied(model)
    part.sample_weight_fit_ = rows_of(model.sample_weight_fit_, rows)
    part._stays = rows_of(model._stays, rows)
    return part


def _additive_fit(likelihood: Likelihood, values: Hyperparameters) -> tuple[Array, Array]:
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
    forms = system.columns.quadratic_forms(np.ascontiguousarray(alpha), system.n_threads)
    return alpha, forms.sum(axis=1)
