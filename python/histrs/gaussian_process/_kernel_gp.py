"""What Gaussian processes of any kernel share: its matrix is factorised, or kept in few bytes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import Tags
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted

from histrs._solvers.block_cg import Array
from histrs._solvers.preconditioners import Indices
from histrs._validation import count_threads
from histrs.gaussian_process._dense.likelihood import DenseLikelihood
from histrs.gaussian_process._dense.posterior import DensePosterior
from histrs.gaussian_process._dense.stored import StoredSystem, sharing
from histrs.gaussian_process._dense.system import DenseSystem, check_memory
from histrs.gaussian_process._doors import rows_to_fit, rows_to_predict, set_input_tags
from histrs.gaussian_process._hyperparameters import (
    SCALES,
    Hyperparameters,
    SearchSpace,
    check_bounds,
    checked_scales,
)
from histrs.gaussian_process._kernels.base import Kernel
from histrs.gaussian_process._kernels.radial import Radial
from histrs.gaussian_process._online import left_over, stacked
from histrs.gaussian_process._options import LikelihoodSearch, Solver
from histrs.gaussian_process._process import GaussianProcess
from histrs.gaussian_process._row_weights import roots, rows_of, telling

_SOLVERS = ("auto", "cholesky", "cg")
# Parameters of the kernel, each of whose likelihoods takes an inverse, are learned from so many
# rows; noise and amplitude from all.
_LEARNING_ROWS = 2048
# Rows that noise and amplitude are learned from where nothing is factorised.
_SCALE_ROWS = 4096
# Values of each that the search begins with the best of.
_N_TRIED = 9


class KernelGP(GaussianProcess):
    """Exact Gaussian processes of any kernel."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **GaussianProcess._parameter_constraints,
        "solver": [StrOptions(set(_SOLVERS)), Solver],
        "variance": [StrOptions({"auto", "cached", "exact"})],
    }
    _default_kernel: ClassVar[Callable[[], Kernel]] = Radial

    kernel_: Kernel

    # ---- the kernel, and its rows ------------------------------------------------------------

    def _rows_to_fit(
        self, X: Any, y: ArrayLike, *, reset: bool = True, **checks: Any
    ) -> tuple[Any, NDArray[Any]]:
        # Where targets miss different rows, each of their fits has a kernel.
        known = None if reset else self.__dict__.get("kernel_")
        takes = (known or self._asked()[1]).takes
        return rows_to_fit(self, takes, X, y, reset=reset, **checks)

    def _check_test(self, X: Any) -> Any:
        check_is_fitted(self)
        rows = rows_to_predict(self, self.kernel_.takes, X)
        return self.kernel_.view(rows, count_threads(self.n_jobs))

    def _coordinates(self, X: Any, weights: Array | None, *, reset: bool) -> Any:
        n_threads = count_threads(self.n_jobs)
        if reset:
            self.kernel_ = self._asked()[1].taken(X, weights, n_threads)
        return self.kernel_.view(X, n_threads)

    # ---- fit ---------------------------------------------------------------------------------

    def _check_options(self) -> None:
        """Refuse options of what is not done here."""
        search, solver = LikelihoodSearch.of(self.optimizer), Solver.of(self.solver)
        if search.log_det == "bound":
            raise ValueError(
                "log_det='bound' is of the intersection kernel: take IntersectionGPRegressor or "
                "IntersectionGPClassifier, or leave it as it is by default."
            )
        if solver.name not in _SOLVERS or solver.preconditioner != "auto":
            raise ValueError(
                f"{solver} is of the intersection kernel: choose one of the names "
                f"{list(_SOLVERS)}, and leave preconditioner as it is by default."
            )

    def _fit_targets(self, X: Any, Y: Array, *, shared: bool) -> None:
        self._check_options()
        shared = self._shares(shared)
        n, kernel = X.shape[0], self.kernel_
        n_pairs = 1 if shared else Y.shape[1]
        n_threads = count_threads(self.n_jobs)
        many = self._is_many(n, kernel)
        if not many:
            # The matrix and a factor a system, beside what the matrix is made of.
            check_memory(n, kernel.n_parts + 1 + n_pairs)
        self._without_seed()
        # Once for all draws, and not at all where there is none.
        make_random = cache(self._random)
        values = Hyperparameters(*checked_scales(n_pairs, **self._given_scales()), kernel)
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
            kernel,
            seed=lambda: self._seed,
            row_scale=rows_of(scale, some),
            stays=rows_of(self._stays, some),
        )
        values = self._learn(values, likelihood, make_random)
        # Another expression has other parts.
        same = type(values.kernel) is type(kernel) and not many
        scale = roots(self.sample_weight_fit_)
        systems = self._systems(X, values, scale, parts=parts if same else None)
        self._solve_targets(systems, Y, None)

    def _is_many(self, n_rows: int, kernel: Kernel) -> bool:
        """Say whether so many rows are solved for by iterations."""
        solver = Solver.of(self.solver).name
        if solver == "auto":
            return kernel.can_be_stored and n_rows > kernel.most_factorised
        if solver == "cg" and not kernel.can_be_stored:
            raise ValueError(
                f"solver='cg' multiplies what is kept of all pairs of rows in few bytes, and "
                f"{kernel!r} has no such thing: set solver='auto'."
            )
        return solver == "cg"

    def _systems(
        self,
        X: Any,
        values: Hyperparameters,
        scale: Array | None,
        parts: Any = None,
    ) -> tuple[DenseSystem, ...]:
        """Return a system for each pair of noise and amplitude, of which nothing is solved yet."""
        n_threads, n, kernel = count_threads(self.n_jobs), X.shape[0], values.kernel
        if not self._is_many(n, kernel):
            return tuple(
                DenseSystem(X, *scales, kernel, n_threads, parts, scale)
                for scales in values.scales()
            )
        least = kernel.least_ratio(n)
        pairs = [(max(noise, least * amplitude), amplitude) for noise, amplitude in values.scales()]
        options: Any = {"tol": self.tol, "max_iter": Solver.of(self.solver).max_iter}
        return sharing(
            tuple(
                StoredSystem(X, *pair, kernel, n_threads, parts, scale, **options) for pair in pairs
            )
        )

    def _learn(
        self,
        values: Hyperparameters,
        likelihood: DenseLikelihood,
        make_random: Callable[[], np.random.RandomState],
    ) -> Hyperparameters:
        """Return hyper-parameters of largest likelihood, those of the kernel from fewer rows."""
        n = likelihood.shape[0]
        if n <= _LEARNING_ROWS or not values.kernel.free():
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
        self.kernel_ = systems[0].kernel
        self._posterior = replace(posterior, readouts=self._learn_readouts(posterior, Y))

    def _search_space(self, start: Hyperparameters) -> SearchSpace:
        given = {"noise": self.noise_bounds, "amplitude": self._asked()[0].value_bounds}
        bounds = {name: check_bounds(name, pair) for name, pair in given.items()}
        bounds |= start.kernel.free()
        return SearchSpace(start, {name: b for name, b in bounds.items() if b != "fixed"})

    def _kernels_to_try(self, space: SearchSpace) -> list[Kernel]:
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
        return Hyperparameters(noise, amplitude, state["kernel_"])

    def _likelihood_of_fit(self, state: dict[str, Any]) -> DenseLikelihood:
        system = state["_posterior"].system
        Y = state["Y_fit_"] / self._units()
        return DenseLikelihood(
            system.X,
            system.parts,
            Y - self._level(Y),
            system.kernel,
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

    @property
    def std_error_(self) -> float:
        """Mean relative error of standard deviations, as measured; 0 where they are exact."""
        posterior: DensePosterior = self._state()["_posterior"]
        return 0.0 if self.variance == "exact" else posterior.std_error

    def _latent_variance(self, state: dict[str, Any], X: Any) -> Array:
        posterior: DensePosterior = state["_posterior"]
        return posterior.latent_variance(X, exact=self.variance == "exact")

    def __sklearn_tags__(self) -> Tags:
        """Return what scikit-learn may expect of the estimator."""
        tags = super().__sklearn_tags__()
        set_input_tags(tags.input_tags, self._asked()[1].takes)
        return tags
