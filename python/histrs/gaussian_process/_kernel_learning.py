"""What is learned of the kernel from rows and targets, and the systems that are solved."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from histrs import _histrs
from histrs._dask import is_dask
from histrs._solvers.block_cg import Array
from histrs._validation import Matrix, count_threads, to_core
from histrs._warnings import warn
from histrs.gaussian_process._distributed.system import sorted_columns
from histrs.gaussian_process._hyperparameters import (
    SCALES,
    Hyperparameters,
    SearchSpace,
    check_bounds,
    given_hyperparameters,
)
from histrs.gaussian_process._interactions.choice import (
    chosen_pairs,
    exact_likelihood,
    likelihood_of_pairs,
)
from histrs.gaussian_process._interactions.kernel import PairKernel
from histrs.gaussian_process._kernel import (
    GeneralizedKernel,
)
from histrs.gaussian_process._kernel_systems import SolvedKernel
from histrs.gaussian_process._kernels.additive import AdditiveTerms
from histrs.gaussian_process._kernels.splines import Splines
from histrs.gaussian_process._likelihood import Likelihood
from histrs.gaussian_process._options import LikelihoodSearch
from histrs.gaussian_process._relevance import relevant_weights
from histrs.gaussian_process._row_weights import roots, telling
from histrs.gaussian_process._smooth import choice as smooth_choice
from histrs.gaussian_process._state import copied
from histrs.gaussian_process._support import check_supported
from histrs.gaussian_process._system import KernelSystem
from histrs.gaussian_process._weights import likelier_weights

# Part of the spread of the largest column, below which all others together hardly count; and rows,
# fewer of which do not tell it.
_CARRIED = 1e-3
_MIN_ROWS_OF_SPREADS = 50
# How often the weight of pairs, and noise and amplitude, are learned in turn.
_ROUNDS = 2


class LearnedKernel(SolvedKernel):
    """A fit: weights of features, pairs, noise and amplitude by likelihood; then a solve."""

    def _fit_targets(self, X: Matrix, Y: Array, *, shared: bool) -> None:
        check_supported(self, X)
        shared = self._shares(shared)
        n_threads = count_threads(self.n_jobs)
        # Sorting reads every value, names the first bad one, and refuses data of a shape that
        # nothing else here could hold.
        columns = self._sorted_columns(X, n_threads)
        with self._telling_weights():
            values, likelihood = self._learned(X, Y, columns, n_threads, shared=shared)
        first, *others = values.scales()
        system = likelihood.with_columns(self._make_system(X, values.kernel, first, columns))
        systems = [system, *(system.with_scales(scales) for scales in others)]
        self._solve_targets(self._systems_to_solve(systems, Y), Y, None)

    def _learned(
        self,
        X: Matrix,
        Y: Array,
        columns: _histrs.SortedColumns,
        n_threads: int,
        *,
        shared: bool,
    ) -> tuple[Hyperparameters, Likelihood]:
        """Return the hyper-parameters, and the likelihood by which they are the best."""
        terms = self._terms()
        start = given_hyperparameters(
            **self._given_scales(),
            transform=terms.transform,
            exponent=terms.exponent,
            feature_weights=terms.feature_weights,
            columns=columns,
            n_pairs=1 if shared else Y.shape[1],
            n_threads=n_threads,
        )
        if terms.feature_weights is None and X.shape[0] >= _MIN_ROWS_OF_SPREADS:
            self._warn_of_units(start.kernel.columns(columns, n_threads).spreads(n_threads))
        self._without_seed()
        centred = Y - self._level_of_regression(Y)
        start = self._with_chosen_weights(X, centred, start)
        start = replace(start, kernel=_with_smoothness(start.kernel, terms))
        make_system = partial(self._make_system, X)
        system = make_system(start.kernel, start.scales()[0], columns)
        system.check()
        intercept = self._variance_of_intercept(system)
        start = replace(start, kernel=replace(start.kernel, intercept_variance=intercept))
        likelihood = self._make_likelihood(make_system, columns, centred)
        likelihood.with_columns(system)
        if start.kernel.is_smooth:
            values = self._learn_smoothly(X, centred, start, likelihood)
        else:
            values = self._learn_hyperparameters(start, likelihood)
        values = self._with_interactions(X, centred, values, likelihood, make_system)
        return values, likelihood

    def _sorted_columns(self, X: Matrix, n_threads: int) -> _histrs.SortedColumns:
        if is_dask(X):
            return sorted_columns(X, self.n_jobs)
        return _histrs.SortedColumns(to_core(X), n_threads)

    def _variance_of_intercept(self, system: KernelSystem) -> float:
        """Return the variance of a constant beside the functions of the features."""
        given = self._terms().intercept_variance
        if given != "auto":
            return float(given)
        if system.kernel.is_smooth or system.solver == "coordinate-descent":
            return 0.0
        return system.vague_intercept

    def _systems_to_solve(self, systems: list[KernelSystem], Y: Array) -> list[KernelSystem]:
        """Return the systems of a fit, from those of the hyper-parameters that were learned."""
        return systems

    # ---- the kernel --------------------------------------------------------------------------

    def _learn_smoothly(
        self, X: Matrix, Y: Array, start: Hyperparameters, likelihood: Likelihood
    ) -> Hyperparameters:
        """Return the hyper-parameters with the weights of a smooth kernel's parts.

        Of many rows, some tell these weights, and all tell noise and amplitude: each weight that a
        search tries is another matrix, and each noise and amplitude is not.
        """
        if likelihood.is_exact(likelihood.system(start.kernel, start.scales()[0])):
            return self._learn_hyperparameters(start, likelihood)
        some = smooth_choice.some_rows(self, len(Y))
        start = self._learn_hyperparameters(start, exact_likelihood(self, X, Y, some))
        start = self._learn_hyperparameters(start, likelihood, SCALES)
        self.theta_ = self._search_space(start).pack(start)
        return start

    def _warn_of_units(self, spreads: Array) -> None:
        """Say where one column is nearly all of the kernel, though others vary."""
        if len(spreads) == 0:
            return
        largest = int(np.argmax(spreads))
        others = float(np.sum(np.delete(spreads, largest)))
        if 0.0 < others < _CARRIED * float(spreads[largest]):
            warn(
                f"{type(self).__name__}: the values of feature {largest} spread over "
                f"{spreads[largest] / others:.1e} times what all others do together, so that "
                'predictions are of it alone. feature_weights="scale" divides features by their '
                "spread."
            )

    def _with_chosen_weights(self, X: Matrix, Y: Array, start: Hyperparameters) -> Hyperparameters:
        """Return the start with the weights of features that the rows tell, if they are asked."""
        terms = self._terms()
        if not isinstance(terms.feature_weights, str):
            return start
        fixed = (self.noise_bounds, terms.scale.value_bounds)
        learned = not self._keeps_hyperparameters() and not any(isinstance(b, str) for b in fixed)
        if learned and terms.feature_weights in ("auto", "relevance"):
            start = likelier_weights(self, X, Y, start)
        if terms.feature_weights == "relevance":
            return self._with_relevant_weights(X, Y, start, terms.intercept_variance)
        return start

    def _with_relevant_weights(
        self, X: Matrix, Y: Array, start: Hyperparameters, intercept: Any
    ) -> Hyperparameters:
        """Return the start with weights of features that held-out rows are predicted best by."""
        n_threads = count_threads(self.n_jobs)
        kernel = start.kernel
        weights = relevant_weights(
            replace(kernel, weights=None).rows(X, n_threads),
            Y,
            np.ones(X.shape[1]) if kernel.weights is None else kernel.weights,
            None if intercept == "auto" else float(intercept),
            np.random.default_rng(self._seed),
            n_threads,
            are_classes=is_classifier(self),
        )
        return start.with_values({"feature_weights": weights})

    def _with_interactions(
        self,
        X: Matrix,
        Y: Array,
        values: Hyperparameters,
        likelihood: Likelihood,
        make_system: Callable[..., KernelSystem],
    ) -> Hyperparameters:
        """Return the hyper-parameters with pairs of features, found in what is left without."""
        pairs = chosen_pairs(self, X, likelihood, values)
        if len(pairs) == 0:
            return values
        asked: Any = self._terms().pairs
        kernel = replace(
            values.kernel,
            pairs=PairKernel.of(X, pairs, asked.n_knots),
            interaction_weight=float(asked.weight),
        )
        start = replace(values, kernel=kernel)
        of_weight = likelihood_of_pairs(self, X, Y, start)
        if not asked.are_found and of_weight.shape[0] == len(Y):
            return self._learn_hyperparameters(start, of_weight)
        of_all = self._make_likelihood(make_system, likelihood.base, Y)
        # All rows tell noise and amplitude, but pairs weigh what rows say that did not choose them.
        for _ in range(_ROUNDS):
            start = self._learn_hyperparameters(start, of_weight, ["interaction_weight"])
            start = self._learn_hyperparameters(start, of_all, SCALES)
        self.theta_ = self._search_space(start).pack(start)
        return start

    # ---- hyper-parameters --------------------------------------------------------------------

    def _search_space(self, start: Hyperparameters) -> SearchSpace:
        """Return the space of the hyper-parameters that are learned."""
        terms, free = self._terms(), ["amplitude"]
        if terms.transform != "identity":
            free.append("exponent")
        if isinstance(terms.feature_weights, str) and terms.feature_weights == "ard":
            free.append("feature_weights")
        if start.kernel.pairs is not None:
            free.append("interaction_weight")
        if start.kernel.is_smooth:
            free.append("slope_weight")
        if start.kernel.smoothness == "both":
            free.append("rough_weight")
        given = {"noise": self.noise_bounds, **{name: terms.bounds_of(name) for name in free}}
        bounds = {name: check_bounds(name, pair) for name, pair in given.items()}
        if "feature_weights" in free:
            if bounds["feature_weights"] == "fixed" or self._keeps_hyperparameters():
                raise ValueError(
                    "feature_weights='ard' learns them: give an optimizer and "
                    "feature_weights_bounds."
                )
            weights = start.kernel.weights
            if weights is None:
                weights = np.ones(self.n_features_in_)
            # Columns of hardly any spread would start at the largest numbers.
            low, high = bounds["feature_weights"]
            start = start.with_values({"feature_weights": np.clip(weights, low, high)})
        return SearchSpace(start, {name: b for name, b in bounds.items() if b != "fixed"})

    def _kernels_to_try(self, space: SearchSpace) -> list[Any]:
        return smooth_choice.kernels_to_try(space)

    def _likelihood_of_fit(self, state: dict[str, Any]) -> Likelihood:
        system = state["_posterior"].system
        columns = system.sorted_base()
        Y = state["Y_fit_"] / self._units()
        learner = copied(self)
        learner.sample_weight_fit_ = telling(state["sample_weight_fit_"], state["_stays"])
        make_system = partial(learner._make_system, system.X)
        return learner._make_likelihood(make_system, columns, Y - self._level_of_regression(Y))

    def _make_likelihood(
        self,
        make_system: Callable[..., KernelSystem],
        columns: _histrs.SortedColumns,
        Y: Array,
    ) -> Likelihood:
        return Likelihood(
            make_system,
            columns,
            Y,
            tol=self.tol,
            log_det=LikelihoodSearch.of(self.optimizer).log_det,
            seed=lambda: self._seed,
            row_scale=roots(self.sample_weight_fit_),
            stays=self._stays,
        )


def _with_smoothness(kernel: GeneralizedKernel, terms: AdditiveTerms) -> GeneralizedKernel:
    asked = terms.functions
    if not isinstance(asked, Splines):
        return kernel
    return replace(
        kernel,
        smoothness=terms.smoothness,
        slope_weight=float(asked.slope_weight),
        rough_weight=float(asked.rough_weight),
    )
