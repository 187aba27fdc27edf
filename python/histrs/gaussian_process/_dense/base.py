"""What Gaussian processes with a stored kernel matrix share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils._param_validation import Interval, StrOptions

from histrs._solvers.block_cg import Array
from histrs._solvers.preconditioners import Indices
from histrs._validation import count_threads
from histrs.gaussian_process._dense.kernel import DenseKernel
from histrs.gaussian_process._dense.likelihood import DenseLikelihood
from histrs.gaussian_process._dense.posterior import DensePosterior
from histrs.gaussian_process._dense.stored import StoredSystem, sharing
from histrs.gaussian_process._dense.system import DenseSystem, check_memory
from histrs.gaussian_process._hyperparameters import (
    SCALES,
    Bounds,
    Hyperparameters,
    SearchSpace,
    check_bounds,
    check_variances,
)
from histrs.gaussian_process._online import left_over, stacked
from histrs.gaussian_process._optimizer import OptimizerName
from histrs.gaussian_process._process import GaussianProcess
from histrs.gaussian_process._row_weights import roots, rows_of, telling

# Parameters of the kernel, each of whose likelihoods takes an inverse, are learned from so many
# rows; noise and amplitude from all.
_LEARNING_ROWS = 2048
# Rows that noise and amplitude are learned from where nothing is factorised.
_SCALE_ROWS = 4096
# Values of each that the search begins with the best of.
_N_TRIED = 9


class BaseDenseGP(GaussianProcess):
    """Exact Gaussian processes of any kernel, by Cholesky factors of its matrix.

    A subclass says which rows there are (`_rows_to_fit`, `_check_test`), which kernel the search
    starts from (`_start_kernel`), which of its parameters are learned (`_kernel_bounds`), and how
    the kernel is kept in fitted attributes (`_keep_kernel`) and made of these (`_kernel`). Rows are
    a matrix, dense or CSR, or a stack of matrices.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "noise": [Interval(Real, 0, None, closed="neither"), "array-like"],
        "amplitude": [Interval(Real, 0, None, closed="neither"), "array-like"],
        "optimizer": [StrOptions({"l-bfgs-b", "nelder-mead"}), None],
        "shared_hyperparameters": ["boolean", None],
        "noise_bounds": [StrOptions({"fixed"}), "array-like"],
        "amplitude_bounds": [StrOptions({"fixed"}), "array-like"],
        "n_restarts_optimizer": [Interval(Integral, 0, 10_000, closed="both")],
        "random_state": ["random_state"],
        "n_jobs": [Integral, None],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        *,
        noise: float | ArrayLike = 0.1,
        amplitude: float | ArrayLike = 1.0,
        optimizer: OptimizerName | None = "l-bfgs-b",
        shared_hyperparameters: bool | None = None,
        noise_bounds: Bounds = (1e-6, 1e12),
        amplitude_bounds: Bounds = (1e-12, 1e12),
        n_restarts_optimizer: int = 0,
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.noise = noise
        self.amplitude = amplitude
        self.optimizer = optimizer
        self.shared_hyperparameters = shared_hyperparameters
        self.noise_bounds = noise_bounds
        self.amplitude_bounds = amplitude_bounds
        self.n_restarts_optimizer = n_restarts_optimizer
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    _most_factorised: ClassVar[int | None] = None
    """Rows above which nothing is factorised, of kernels that are stored in few bytes."""

    # ---- what a subclass says ----------------------------------------------------------------

    def _start_kernel(self, X: Any) -> DenseKernel:
        """Return the kernel of the given parameters, with what it takes from training rows."""
        raise NotImplementedError

    def _kernel_bounds(self) -> dict[str, Bounds]:
        """Return bounds of the parameters of the kernel that are learned."""
        raise NotImplementedError

    def _keep_kernel(self, kernel: Any) -> None:
        """Keep the kernel in fitted attributes."""
        raise NotImplementedError

    def _kernel(self, state: dict[str, Any]) -> DenseKernel:
        """Return the kernel of a fit."""
        raise NotImplementedError

    # ---- fit ---------------------------------------------------------------------------------

    def _fit_targets(self, X: Any, Y: Array, *, shared: bool) -> None:
        if self.shared_hyperparameters is not None:
            shared = self.shared_hyperparameters
        n = X.shape[0]
        n_pairs = 1 if shared else Y.shape[1]
        n_threads = count_threads(self.n_jobs)
        kernel = self._start_kernel(X)
        many = self._is_many(n)
        if not many:
            # The matrix and a factor a system, beside what the matrix is made of.
            check_memory(n, kernel.n_parts + 1 + n_pairs)
        noise, amplitude = (
            check_variances(name, np.array(getattr(self, name), dtype=np.float64), n_pairs)
            for name in SCALES
        )
        self._without_seed()
        # Once for all draws, and not at all where there is none.
        make_random = cache(self._random)
        values = Hyperparameters(noise, amplitude, kernel)
        centred = Y - self._level(Y)
        scale = roots(telling(self.sample_weight_fit_, self._stays))
        some = np.arange(n)
        if many:
            some = np.sort(make_random().choice(n, min(n, _SCALE_ROWS), replace=False))
        parts = kernel.parts(X[some] if many else X, None, n_threads)
        likelihood = DenseLikelihood(
            X[some] if many else X,
            parts,
            centred[some],
            seed=lambda: self._seed,
            row_scale=rows_of(scale, some),
            stays=rows_of(self._stays, some),
        )
        values = self._learn(values, likelihood, make_random)
        scale = roots(self.sample_weight_fit_)
        systems = self._systems(X, values, scale, parts=None if many else parts)
        self._solve_targets(systems, Y, None)

    def _is_many(self, n_rows: int) -> bool:
        """Say whether so many rows are solved for by iterations."""
        return self._most_factorised is not None and n_rows > self._most_factorised

    def _systems(
        self,
        X: Any,
        values: Hyperparameters,
        scale: Array | None,
        parts: tuple[Array, ...] | None = None,
    ) -> tuple[DenseSystem, ...]:
        """Return a system for each pair of noise and amplitude, of which nothing is solved yet."""
        n_threads, n, kernel = count_threads(self.n_jobs), X.shape[0], values.kernel
        if not self._is_many(n):
            return tuple(
                DenseSystem(X, *scales, kernel, n_threads, parts, scale)
                for scales in values.scales()
            )
        least = kernel.least_ratio(n)
        pairs = [(max(noise, least * amplitude), amplitude) for noise, amplitude in values.scales()]
        options = self._iterations()
        return sharing(
            tuple(
                StoredSystem(X, *pair, kernel, n_threads, parts, scale, **options) for pair in pairs
            )
        )

    def _iterations(self) -> dict[str, Any]:
        """Return what a user says of iterations."""
        return {}

    def _learn(
        self,
        values: Hyperparameters,
        likelihood: DenseLikelihood,
        make_random: Callable[[], np.random.RandomState],
    ) -> Hyperparameters:
        """Return hyper-parameters of largest likelihood, those of the kernel from fewer rows."""
        n = likelihood.shape[0]
        if n <= _LEARNING_ROWS or not self._kernel_bounds():
            return self._learn_hyperparameters(values, likelihood)
        some = np.sort(make_random().choice(n, _LEARNING_ROWS, replace=False))
        values = self._learn_hyperparameters(values, likelihood.of_some(some))
        values = self._learn_hyperparameters(values, likelihood, SCALES)
        self.theta_ = self._search_space(values).pack(values)
        return values

    def _solve_targets(
        self, systems: tuple[DenseSystem, ...], Y: Array, weights: Array | None
    ) -> None:
        """Solve for standardised targets, and keep what was learned: arrays, and a posterior."""
        found = np.empty_like(Y)
        n_iter = np.empty(Y.shape[1], dtype=np.intp)
        centred = Y - self._level(Y)
        for k, system in enumerate(systems):
            part = slice(None) if len(systems) == 1 else slice(k, k + 1)
            start = None if weights is None else np.ascontiguousarray(weights[:, part])
            solution = system.solve_targets(centred[:, part], start)
            found[:, part], n_iter[part] = solution.X, solution.n_iter
        systems = tuple(system.factorised() for system in systems)
        posterior = DensePosterior(systems, found, {})
        noise, amplitude = posterior.noise, posterior.amplitude
        self.X_fit_, self.Y_fit_ = systems[0].X, Y * self._units()
        self._keep_weights(found, amplitude)
        shared = len(systems) == 1
        self.noise_ = float(noise[0]) if shared else noise
        self.amplitude_ = float(amplitude[0]) if shared else amplitude
        self.n_iter_ = n_iter
        self._keep_kernel(systems[0].kernel)
        self._posterior = replace(posterior, readouts=self._learn_readouts(posterior, Y))

    def _search_space(self, start: Hyperparameters) -> SearchSpace:
        given = {name: getattr(self, f"{name}_bounds") for name in SCALES} | self._kernel_bounds()
        bounds = {name: check_bounds(name, pair) for name, pair in given.items()}
        return SearchSpace(start, {name: b for name, b in bounds.items() if b != "fixed"})

    def _kernels_to_try(self, space: SearchSpace) -> list[DenseKernel]:
        """Return the kernel that is given, and with each parameter all over its bounds.

        Where no two rows have anything in common, noise is as good a model, from which no gradient
        leads away.
        """
        kernel = space.start.kernel
        kernels = [kernel]
        for name in space.names:
            if name not in SCALES:
                values = np.geomspace(*space.bounds_of(name), _N_TRIED).tolist()
                kernels += [kernel.with_parameters({name: value}) for value in values]
        return kernels if len(kernels) > 1 else []

    def _hyperparameters(self, state: dict[str, Any]) -> Hyperparameters:
        noise, amplitude = (np.atleast_1d(state[f"{name}_"]) for name in SCALES)
        return Hyperparameters(noise, amplitude, self._kernel(state))

    def _likelihood_of_fit(self, state: dict[str, Any]) -> DenseLikelihood:
        system = state["_posterior"].system
        Y = state["Y_fit_"] / self._units()
        return DenseLikelihood(
            system.X,
            system.parts,
            Y - self._level(Y),
            seed=lambda: self._seed,
            row_scale=roots(telling(state["sample_weight_fit_"], state["_stays"])),
            stays=state["_stays"],
        )

    # ---- online updates ----------------------------------------------------------------------

    def _systems_with(
        self, X: Any, n_outputs: int, row_scale: Array | None
    ) -> tuple[DenseSystem, ...]:
        systems = self._state()["_posterior"].systems
        first: DenseSystem = systems[0]
        n_threads = count_threads(self.n_jobs)
        rows = stacked(first.X, X)
        if not isinstance(first, StoredSystem):
            check_memory(rows.shape[0], len(systems) + 1)
        B, C = (first.kernel.between(X, other, n_threads) for other in (first.X, None))
        return sharing(tuple(system.insert(rows, B, C, row_scale) for system in systems))

    def _systems_without(self, removed: Indices, n_outputs: int) -> tuple[DenseSystem, ...]:
        systems = self._state()["_posterior"].systems
        kept = left_over(systems[0].X.shape[0], removed)
        rows = systems[0].X[kept]
        return sharing(tuple(system.remove(rows, kept, removed) for system in systems))

    # ---- prediction --------------------------------------------------------------------------

    def _posterior_of(self, state: dict[str, Any]) -> DensePosterior:
        values = self._hyperparameters(state)
        scale = roots(state.get("sample_weight_fit_"))
        systems = self._systems(state["X_fit_"], values, scale)
        return DensePosterior(systems, state["_standard_weights"], self._readouts(state))

    def _read(self, state: dict[str, Any], name: str, X: Any) -> Array:
        posterior: DensePosterior = state["_posterior"]
        return posterior.read(name, X, count_threads(self.n_jobs))

    def _measured_std_error(self) -> float:
        """Return the mean relative error of standard deviations; 0 where they are exact."""
        posterior: DensePosterior = self._state()["_posterior"]
        return posterior.std_error

    def _latent_variance(self, state: dict[str, Any], X: Any) -> Array:
        posterior: DensePosterior = state["_posterior"]
        return posterior.latent_variance(X)
