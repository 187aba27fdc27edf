"""Classification by latent functions that the classes follow with a probability."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, Literal, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_expit, softmax

from histrs._labels import index_of_best
from histrs._repeats import equal_rows
from histrs._solvers.block_cg import Array
from histrs._threads import blas_threads_at_most
from histrs._validation import Matrix
from histrs.gaussian_process._base import BaseIntersectionGP
from histrs.gaussian_process._bias import BiasSolution
from histrs.gaussian_process._classification import ClassTargets
from histrs.gaussian_process._distributed.arrays import refuse_distributed
from histrs.gaussian_process._hyperparameters import Hyperparameters, Scales, check_bounds
from histrs.gaussian_process._laplace import (
    LEAST_CURVATURE,
    LaplaceLikelihood,
    Mode,
    at_curvature,
    best_amplitude,
    find_mode,
    left_out,
    loss_by_left_out,
)
from histrs.gaussian_process._leave_one_out import folds_of, means_held_out
from histrs.gaussian_process._online import left_over, remove_rows
from histrs.gaussian_process._options import LikelihoodSearch, Solver
from histrs.gaussian_process._posterior import Posterior
from histrs.gaussian_process._process import AnyPosterior
from histrs.gaussian_process._row_weights import roots, rows_of
from histrs.gaussian_process._softmax import (
    SoftmaxLikelihood,
    SoftmaxPrior,
    loss_by_evidence,
    softmax_modes,
)
from histrs.gaussian_process._system import KernelSystem

LikelihoodName: TypeAlias = Literal["auto", "gaussian", "bernoulli", "softmax"]
ChosenName: TypeAlias = Literal["gaussian", "bernoulli", "softmax"]

# Rows up to which "auto" solves for modes of two classes: of more, probabilities hardly differ.
_MAX_ROWS = 4096
# Of several classes: fewer rows are predicted as well by regression, whose calibration has a
# matrix, and cubes of more rows, times classes, take more than some seconds of a core.
_MIN_ROWS = 400
_MAX_CLASSES = 64
_MAX_CUBES = 4e10
# Rows that the variance of the logit is chosen on, at most.
_CHOSEN_ON = 1024


class LatentClasses(ClassTargets, BaseIntersectionGP):
    """Classes by regression of targets -1 and +1, or by a likelihood of classes."""

    likelihood: LikelihoodName
    likelihood_: ChosenName
    _working_targets: Array
    """Of the regressions like the likelihood at the mode, of shape (n_rows, n_outputs)."""
    _curvature: Array
    """Weights of rows in them, likewise."""
    _bias: Array
    _bias_solutions: list[BiasSolution]

    @property
    def _is_gaussian(self) -> bool:
        return self.likelihood_ == "gaussian"

    def _fit_targets(self, X: Matrix, Y: Array, *, shared: bool) -> None:
        self.likelihood_ = self._likelihood_for(Y)
        self.smoothness_ = self._terms().smoothness
        for name in ("_working_targets", "_curvature", "_bias", "_bias_solutions"):
            self.__dict__.pop(name, None)
        super()._fit_targets(X, Y, shared=shared)

    def _likelihood_for(self, Y: Array) -> ChosenName:
        """Return the likelihood that is asked for, or suits."""
        foreign, n_outputs = self._what_asks_for_gaussian(), Y.shape[1]
        # The difference of two functions is the function of two classes.
        of_classes: ChosenName = "bernoulli" if n_outputs == 1 else "softmax"
        if self.likelihood in ("bernoulli", "softmax"):
            if foreign:
                raise ValueError(
                    f"likelihood={self.likelihood!r} cannot be combined with {foreign}: choose "
                    "likelihood='gaussian', or leave that out."
                )
            return "bernoulli" if self.likelihood == "bernoulli" else of_classes
        n = len(Y)
        of_many = n >= _MIN_ROWS and n_outputs <= _MAX_CLASSES and n**3 * n_outputs <= _MAX_CUBES
        few = n <= _MAX_ROWS if n_outputs == 1 else of_many
        suits = (
            self.likelihood == "auto"
            and not foreign
            and few
            and self.calibration is not None
            and not self._keeps_hyperparameters()
            and "fixed" not in (self.noise_bounds, self._terms().scale.value_bounds)
            and Solver.of(self.solver).name in ("auto", "cholesky")
        )
        return of_classes if suits else "gaussian"

    def _variance_of_intercept(self, system: KernelSystem) -> float:
        # The other likelihoods have a bias of their own.
        return super()._variance_of_intercept(system) if self._is_gaussian else 0.0

    def _what_asks_for_gaussian(self) -> str:
        """Name the parameter that only regression of targets knows."""
        terms, search = self._terms(), LikelihoodSearch.of(self.optimizer)
        if terms.intercept_variance != "auto":
            return f"intercept_variance={terms.intercept_variance!r}"
        if terms.has_pairs:
            return "Interactions"
        if search.shared is False:
            return "a LikelihoodSearch of shared=False"
        if Solver.of(self.solver).name == "coordinate-descent":
            return "solver='coordinate-descent'"
        return ""

    # ---- modes -------------------------------------------------------------------------------

    def _systems_to_solve(self, systems: list[KernelSystem], Y: Array) -> list[KernelSystem]:
        if self._is_gaussian:
            return systems
        amplitude = systems[0].amplitude
        if not self._keeps_hyperparameters() and self._terms().scale.value_bounds != "fixed":
            amplitude = self._chosen_amplitude(systems[0], Y)
        return [_base_of(systems[0], amplitude)]

    def _chosen_amplitude(self, system: KernelSystem, Y: Array) -> float:
        """Return the variance of the logit that some of the rows tell."""
        # Several classes have a factor each.
        rows = _some_of_each_class(Y, int(_CHOSEN_ON / Y.shape[1] ** 0.5))
        weights = self.sample_weight_fit_
        weights, stays = rows_of(weights, rows), rows_of(self._stays, rows)
        some = self._make_system(system.X[rows], system.kernel, Scales(1.0, 1.0), None)
        some = _without_scale(some, weights)
        K = some.kernel_matrix()
        if self.likelihood_ == "softmax":
            loss = loss_by_evidence(K, Y[rows], weights, self.tol)
        else:
            of_rows = K, Y[rows], weights, self.tol, stays
            loss = loss_by_left_out(lambda a: _base_of(some, a), *of_rows)
        given = check_bounds("amplitude", self._terms().scale.value_bounds)
        bounds = cast(tuple[float, float], given)
        # On matrices of this size, BLAS's threads mostly wait for one another.
        with blas_threads_at_most(1):
            return best_amplitude(loss, K, bounds)

    def _solve_targets(
        self, systems: Sequence[KernelSystem], Y: Array, weights: Array | None
    ) -> None:
        if self._is_gaussian:
            super()._solve_targets(systems, Y, weights)
            return
        base = systems[0]
        base.check()
        modes = self._modes(base, Y, self.sample_weight_fit_, weights)
        self._working_targets = np.column_stack([mode.targets for mode in modes])
        scales = [cast(Array, mode.system.row_scale) for mode in modes]
        self._curvature = np.column_stack(scales) ** 2
        self._bias = np.array([mode.bias for mode in modes])
        self._bias_solutions = [mode.of_bias for mode in modes]
        found = np.column_stack([mode.weights for mode in modes])
        self._keep(tuple(mode.system for mode in modes), Y, found)
        self._posterior = replace(self._posterior, of_bias=tuple(self._bias_solutions))
        # Systems differ in the curvatures alone.
        self.noise_, self.amplitude_ = base.noise, base.amplitude
        space = self._search_space(self._hyperparameters(self.__dict__))
        self.theta_ = space.pack(space.start)
        self.residual_ = np.array([mode.residual for mode in modes])
        self.n_iter_ = np.array([mode.n_steps for mode in modes], dtype=np.intp)
        if not np.all(self.residual_ <= self.tol):
            worst = int(np.argmax(self.residual_))
            self._warn(
                f"Newton's method stopped after {self.n_iter_[worst]} steps with a gradient of "
                f"{self.residual_[worst]:.2e} in output {worst}, above the tolerance {self.tol}. "
                "Raise tol, or lower the bounds of the constant that multiplies the kernel."
            )

    def _modes(
        self, base: KernelSystem, Y: Array, sample_weight: Array | None, weights: Array | None
    ) -> list[Mode]:
        K = base.kernel_matrix() if base.uses_cholesky(Y.shape[1]) else None
        with blas_threads_at_most(1) if len(Y) <= _CHOSEN_ON else nullcontext():
            if self.likelihood_ == "softmax":
                return softmax_modes(base, Y, sample_weight, self.tol, weights, K)
            return [
                find_mode(
                    base,
                    Y[:, k] > 0,
                    sample_weight,
                    self.tol,
                    None if weights is None else weights[:, k],
                    K,
                )
                for k in range(Y.shape[1])
            ]

    def _changed_systems(
        self, change: Callable[[KernelSystem], KernelSystem]
    ) -> tuple[KernelSystem, ...]:
        if self._is_gaussian:
            return super()._changed_systems(change)
        refuse_distributed(self, "A change of rows")
        first = self._state()["_posterior"].systems[0]
        fresh = self._make_system(first.X, first.kernel, Scales(1.0, 1.0), first.base_columns)
        # Weights of rows are those after the change already.
        changed = change(_base_of(replace(fresh, row_scale=None), first.amplitude))
        return (_without_scale(changed, self.sample_weight_fit_),)

    # ---- what is made of them ----------------------------------------------------------------

    def _level(self, Y: Array) -> Array:
        return self._level_of_regression(Y) if self._is_gaussian else self._bias

    def _level_of_regression(self, Y: Array) -> Array:
        if self.smoothness_ == "linear":
            return super()._level_of_regression(Y)
        # Smooth functions have a mean of 0 over the rows.
        return self._means(Y)

    def _posterior_of(self, state: dict[str, Any]) -> Posterior:
        if state["likelihood_"] == "gaussian":
            return super()._posterior_of(state)
        values = self._hyperparameters(state)
        first = self._make_system(state["X_fit_"], values.kernel, values.scales()[0], None)
        base = first.with_row_scale(None)
        systems = tuple(at_curvature(base, column) for column in state["_curvature"].T)
        weights, of_bias = state["_standard_weights"], tuple(state["_bias_solutions"])
        return Posterior(systems, weights, self._readouts(state), self.tol, of_bias)

    def _scores_left_out(self, posterior: Any, Y: Array) -> Array:
        if self._is_gaussian:
            return super()._scores_left_out(posterior, Y)
        if self.likelihood_ == "softmax":
            base = posterior.system.with_row_scale(None)
            prior = SoftmaxPrior(base.kernel_matrix(), base.amplitude)
            mode = prior.mode_at(posterior.weights / base.amplitude)
            return prior.left_out(mode, self.sample_weight_fit_, self._stays) - self._bias
        targets = self._working_targets - self._bias
        parts = zip(
            posterior.systems, targets.T, posterior.weights.T, self._bias_solutions, strict=True
        )
        return np.column_stack([left_out(*part, self._stays) for part in parts])

    def _scores_held_out(
        self, posterior: AnyPosterior, Y: Array, labels: NDArray[np.intp]
    ) -> tuple[Array, NDArray[np.int64]]:
        if self._is_gaussian or not isinstance(posterior, Posterior):
            return super()._scores_held_out(posterior, Y, labels)
        base = posterior.system.with_row_scale(None)
        folds = folds_of(equal_rows(base.X), labels, self._seed)
        scores = []
        for held in folds:
            kept = left_over(len(Y), held)
            weights = self.sample_weight_fit_
            of_kept = None if weights is None else weights[kept]
            without = _without_scale(remove_rows(base, held, Y.shape[1]), of_kept)
            modes = self._modes(without, Y[kept], of_kept, posterior.weights[kept])
            found = np.column_stack([mode.weights for mode in modes])
            shift = np.array([mode.bias for mode in modes]) - self._bias
            scores.append(means_held_out(base, without, held, found) + shift)
        return np.vstack(scores), np.concatenate(folds)

    def _offsets(self) -> dict[str, Any]:
        known = super()._offsets()
        return {**known, "matrix_scaling": False} if self.likelihood_ == "softmax" else known

    def _predictive_variance(self, state: dict[str, Any], X: Matrix) -> Array:
        if state["likelihood_"] == "gaussian":
            return super()._predictive_variance(state, X)
        return self._latent_variance(state, X)

    def _noise_of_labels(self, state: dict[str, Any], X: Matrix) -> Array:
        if state["likelihood_"] == "gaussian":
            return super()._noise_of_labels(state, X)
        f = self._read(state, "mean", X).T
        if state["likelihood_"] == "softmax":
            P = softmax(f, axis=0)
            curvature = P * (P.sum(axis=0) - P)
        else:
            curvature = expit(f) * expit(-f)
        noise: Array = 1.0 / np.maximum(curvature, LEAST_CURVATURE)
        return noise

    def _uncalibrated(self, state: dict[str, Any], X: Matrix, means: Array) -> Array:
        if state["likelihood_"] == "gaussian":
            return super()._uncalibrated(state, X, means)
        # The mean of a logistic function of a normal variable (MacKay, 1992).
        variance = self._latent_variance(state, X)
        z = means / np.sqrt(1.0 + np.pi / 8.0 * variance)
        if state["likelihood_"] == "softmax":
            logs = z
        else:
            logs = np.hstack([log_expit(-z), log_expit(z)]) if z.shape[1] == 1 else log_expit(z)
        probabilities: Array = softmax(logs, axis=1)
        return probabilities

    def _likelihood_of_fit(self, state: dict[str, Any]) -> Any:
        if state["likelihood_"] == "gaussian":
            return super()._likelihood_of_fit(state)
        system = state["_posterior"].system
        of_classes = SoftmaxLikelihood if state["likelihood_"] == "softmax" else LaplaceLikelihood
        return of_classes(
            lambda values: self._base_with(system, values),
            state["Y_fit_"],
            state["sample_weight_fit_"],
            self.tol,
        )

    def _base_with(self, system: KernelSystem, values: Hyperparameters) -> KernelSystem:
        made = self._make_system(system.X, values.kernel, Scales(1.0, 1.0), system.base_columns)
        return _base_of(made, float(values.amplitude[0]))


def _base_of(system: KernelSystem, amplitude: float) -> KernelSystem:
    """Return the system of a variance of the logit, without weights of rows."""
    return system.with_scales(Scales(1.0, amplitude)).with_row_scale(None)


def _without_scale(system: KernelSystem, weights: Array | None) -> KernelSystem:
    """Return the system without a scale of rows; smooth functions are centred by their weights."""
    if system.kernel.is_smooth:
        system = replace(system, row_scale=roots(weights), smooth_rows=None)
    return system.with_row_scale(None)


def _some_of_each_class(Y: Array, most: int) -> NDArray[np.intp]:
    """Return so many rows, evenly from each class, or a few more."""
    n = len(Y)
    if n <= most:
        return np.arange(n)
    labels = index_of_best(Y)
    order = np.argsort(labels, kind="stable")
    counts = np.bincount(labels)
    indices = np.arange(n) - np.repeat(np.cumsum(counts) - counts, counts)
    stride = n / most
    # The first of each class, and then one in so many.
    taken = np.floor(indices / stride) != np.floor((indices - 1) / stride)
    return np.sort(order[taken])
