"""What the classifier and the regressor share."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags, check_scalar
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from histrs import _histrs
from histrs._dask import is_dask
from histrs._progress import SolverProgress
from histrs._solvers.block_cg import Array, Solution
from histrs._solvers.preconditioners import Indices
from histrs._validation import (
    HISTOGRAM_CHECKS,
    Matrix,
    canonical,
    check_random_state,
    count_threads,
    to_core,
    validate_data,
    validate_fit,
)
from histrs._warnings import warn
from histrs.gaussian_process._distributed.arrays import (
    check_supported as check_supported_of_dask,
)
from histrs.gaussian_process._distributed.arrays import (
    refuse_distributed,
    rows_to_fit,
    rows_to_predict,
)
from histrs.gaussian_process._distributed.system import DistributedSystem, sorted_columns
from histrs.gaussian_process._explanation import Explanation, explain
from histrs.gaussian_process._hyperparameters import (
    NAMES,
    OF_SMOOTH,
    SCALES,
    Bounds,
    Hyperparameters,
    Scales,
    SearchSpace,
    WeightsName,
    check_bounds,
    given_hyperparameters,
)
from histrs.gaussian_process._interactions.choice import (
    Interactions,
    check_supported,
    chosen_pairs,
    exact_likelihood,
    likelihood_of_pairs,
)
from histrs.gaussian_process._interactions.functions import PairFunction, pair_functions
from histrs.gaussian_process._interactions.kernel import PairKernel
from histrs.gaussian_process._kernel import (
    GeneralizedKernel,
    SmoothnessName,
    TransformName,
)
from histrs.gaussian_process._likelihood import Likelihood, LogDetName
from histrs.gaussian_process._online import insert_rows, remove_rows
from histrs.gaussian_process._optimizer import OptimizerName
from histrs.gaussian_process._posterior import Posterior
from histrs.gaussian_process._process import GaussianProcess
from histrs.gaussian_process._relevance import relevant_weights
from histrs.gaussian_process._row_weights import roots
from histrs.gaussian_process._shape_functions import (
    ShapeFunction,
    rows_of_one_feature,
    training_values,
)
from histrs.gaussian_process._smooth import choice as smooth_choice
from histrs.gaussian_process._smooth.functions import (
    feature_function,
    feature_variance,
    points_of,
)
from histrs.gaussian_process._system import KernelSystem, PreconditionerName, SolverName
from histrs.gaussian_process._tables import AdditiveTables, tables_of
from histrs.gaussian_process._variance import VarianceName
from histrs.gaussian_process._weights import likelier_weights

# Part of the spread of the largest column, below which all others together hardly count; and rows,
# fewer of which do not tell it.
_CARRIED = 1e-3
_MIN_ROWS_OF_SPREADS = 50
# How often the weight of pairs, and noise and amplitude, are learned in turn.
_ROUNDS = 2


class BaseIntersectionGP(GaussianProcess):
    """Exact Gaussian process regression of one or more targets on shared inputs."""

    _predicted: ClassVar[str]
    """The readout that predictions are made of."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "noise": [Interval(Real, 0, None, closed="neither"), "array-like"],
        "amplitude": [Interval(Real, 0, None, closed="neither"), "array-like"],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "preconditioner": [StrOptions({"auto", "knots", "pivoted-cholesky"}), None],
        "n_bins": [Interval(Integral, 2, 65535, closed="both"), None],
        "interpolation": [StrOptions({"linear", "nearest"})],
        "solver": [StrOptions(set(get_args(SolverName)))],
        "feature_transform": [StrOptions({"identity", "power", "exponential"})],
        "exponent": [Interval(Real, 0, None, closed="neither")],
        "feature_weights": [StrOptions(set(get_args(WeightsName))), "array-like", None],
        "n_interactions": [Interval(Integral, 0, None, closed="left")],
        "interactions": ["array-like", None],
        "n_interaction_knots": [Interval(Integral, 2, 256, closed="both")],
        "interaction_weight": [Interval(Real, 0, None, closed="neither")],
        "intercept_variance": [StrOptions({"auto"}), Interval(Real, 0, None, closed="left")],
        "smoothness": [StrOptions(set(get_args(SmoothnessName)))],
        **{name: [Interval(Real, 0, None, closed="neither")] for name in OF_SMOOTH},
        **{f"{name}_bounds": [StrOptions({"fixed"}), "array-like"] for name in OF_SMOOTH},
        "optimizer": [StrOptions({"l-bfgs-b", "nelder-mead"}), None],
        "log_det": [StrOptions({"lanczos", "bound"})],
        "variance": [StrOptions(set(get_args(VarianceName)))],
        "n_eigenvectors": [Interval(Integral, 1, None, closed="left")],
        "shared_hyperparameters": ["boolean", None],
        **{f"{name}_bounds": [StrOptions({"fixed"}), "array-like"] for name in NAMES},
        "n_restarts_optimizer": [Interval(Integral, 0, 10_000, closed="both")],
        "random_state": ["random_state"],
        "warm_start": ["boolean"],
        "n_jobs": [Integral, None],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        *,
        noise: float | ArrayLike = 0.1,
        amplitude: float | ArrayLike = 1.0,
        tol: float = 1e-4,
        max_iter: int = 1000,
        preconditioner: PreconditionerName = "auto",
        n_bins: int | None = None,
        interpolation: Literal["linear", "nearest"] = "linear",
        solver: SolverName = "auto",
        feature_transform: TransformName = "identity",
        exponent: float = 1.0,
        feature_weights: WeightsName | ArrayLike | None = "auto",
        intercept_variance: float | Literal["auto"] = "auto",
        n_interactions: int = 0,
        interactions: Interactions | None = None,
        n_interaction_knots: int = 12,
        interaction_weight: float = 0.3,
        smoothness: SmoothnessName = "linear",
        slope_weight: float = 1.0,
        rough_weight: float = 1.0,
        optimizer: OptimizerName | None = "l-bfgs-b",
        log_det: LogDetName = "lanczos",
        shared_hyperparameters: bool | None = None,
        noise_bounds: Bounds = (1e-6, 1e12),
        amplitude_bounds: Bounds = (1e-12, 1e12),
        exponent_bounds: Bounds = (0.05, 20.0),
        feature_weights_bounds: Bounds = (1e-6, 1e6),
        interaction_weight_bounds: Bounds = (1e-6, 1e6),
        slope_weight_bounds: Bounds = (1e-6, 1e6),
        rough_weight_bounds: Bounds = (1e-6, 1e6),
        n_restarts_optimizer: int = 0,
        variance: VarianceName = "auto",
        n_eigenvectors: int = 2,
        random_state: int | np.random.RandomState | None = 0,
        warm_start: bool = False,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.noise = noise
        self.amplitude = amplitude
        self.tol = tol
        self.max_iter = max_iter
        self.preconditioner = preconditioner
        self.n_bins = n_bins
        self.interpolation = interpolation
        self.solver = solver
        self.feature_transform = feature_transform
        self.exponent = exponent
        self.feature_weights = feature_weights
        self.intercept_variance = intercept_variance
        self.n_interactions = n_interactions
        self.interactions = interactions
        self.n_interaction_knots = n_interaction_knots
        self.interaction_weight = interaction_weight
        self.smoothness = smoothness
        self.slope_weight = slope_weight
        self.rough_weight = rough_weight
        self.optimizer = optimizer
        self.log_det = log_det
        self.shared_hyperparameters = shared_hyperparameters
        self.noise_bounds = noise_bounds
        self.amplitude_bounds = amplitude_bounds
        self.exponent_bounds = exponent_bounds
        self.feature_weights_bounds = feature_weights_bounds
        self.interaction_weight_bounds = interaction_weight_bounds
        self.slope_weight_bounds = slope_weight_bounds
        self.rough_weight_bounds = rough_weight_bounds
        self.n_restarts_optimizer = n_restarts_optimizer
        self.variance = variance
        self.n_eigenvectors = n_eigenvectors
        self.random_state = random_state
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _rows_to_fit(
        self, X: ArrayLike | Matrix, y: ArrayLike, *, reset: bool = True, **checks: Any
    ) -> tuple[Matrix, NDArray[Any]]:
        if is_dask(X):
            return rows_to_fit(self, X, y, reset=reset, **checks)
        X, y = validate_fit(self, X, y, reset=reset, **checks)
        return canonical(X), y

    def _level_of_regression(self, Y: Array) -> Array:
        """Return what standardised targets are regressed less, a number for each output."""
        return np.zeros(Y.shape[1])

    def _fit_targets(self, X: Matrix, Y: Array, *, shared: bool) -> None:
        if self.shared_hyperparameters is not None:
            shared = self.shared_hyperparameters
        check_supported(self)
        smooth_choice.check_supported(self)
        if is_dask(X):
            check_supported_of_dask(self)
        weights = self._warm_start_weights(Y.shape)
        n_threads = count_threads(self.n_jobs)
        # Sorting reads every value, names the first bad one, and refuses data of a shape that
        # nothing else here could hold.
        columns = self._sorted_columns(X, n_threads)
        start = given_hyperparameters(
            noise=self.noise,
            amplitude=self.amplitude,
            transform=self.feature_transform,
            exponent=self.exponent,
            feature_weights=self.feature_weights,
            columns=columns,
            n_pairs=1 if shared else Y.shape[1],
            n_threads=n_threads,
        )
        if self.feature_weights is None and X.shape[0] >= _MIN_ROWS_OF_SPREADS:
            self._warn_of_units(start.kernel.columns(columns, n_threads).spreads(n_threads))
        self._seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        centred = Y - self._level_of_regression(Y)
        start = self._with_chosen_weights(X, centred, start)
        if self.smoothness != "linear":
            start = replace(start, kernel=self._smooth_kernel(start.kernel))
        make_system = partial(self._make_system, X)
        system = make_system(start.kernel, start.scales()[0], columns)
        system.check()
        intercept = self._variance_of_intercept(system)
        start = replace(start, kernel=replace(start.kernel, intercept_variance=intercept))
        likelihood = self._make_likelihood(make_system, columns, centred)
        if start.kernel.is_smooth:
            values = self._learn_smoothly(X, centred, start, likelihood)
        else:
            values = self._learn_hyperparameters(start, likelihood)
        values = self._with_interactions(X, centred, values, likelihood, make_system)
        first, *others = values.scales()
        system = make_system(values.kernel, first, columns)
        systems = [system, *(system.with_scales(scales) for scales in others)]
        self._solve_targets(self._systems_to_solve(systems, Y), Y, weights)

    def _sorted_columns(self, X: Matrix, n_threads: int) -> _histrs.SortedColumns:
        if is_dask(X):
            return sorted_columns(X, self.n_jobs)
        return _histrs.SortedColumns(to_core(X), n_threads)

    def _variance_of_intercept(self, system: KernelSystem) -> float:
        """Return the variance of a constant beside the functions of the features."""
        if self.intercept_variance != "auto":
            return float(self.intercept_variance)
        if system.kernel.is_smooth or system.solver == "coordinate-descent":
            return 0.0
        return system.vague_intercept

    def _systems_to_solve(self, systems: list[KernelSystem], Y: Array) -> list[KernelSystem]:
        """Return the systems of a fit, from those of the hyper-parameters that were learned."""
        return systems

    def _smooth_kernel(self, kernel: GeneralizedKernel) -> GeneralizedKernel:
        rough = float(self.rough_weight) if self.smoothness == "both" else 0.0
        return replace(
            kernel,
            smoothness=self.smoothness,
            slope_weight=float(self.slope_weight),
            rough_weight=rough,
        )

    def _learn_smoothly(
        self, X: Matrix, Y: Array, start: Hyperparameters, likelihood: Likelihood
    ) -> Hyperparameters:
        """Return the hyper-parameters with the weights of a smooth kernel's parts.

        Of many rows, some tell these weights, and all tell noise and amplitude: each weight that a
        search tries is another matrix, and each noise and amplitude is not.
        """
        if likelihood.is_exact(likelihood.system(start.kernel, start.scales()[0])):
            return self._learn_hyperparameters(start, likelihood)
        some = smooth_choice.some_rows(len(Y), self._seed)
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
        if not isinstance(self.feature_weights, str):
            return start
        fixed = (self.noise_bounds, self.amplitude_bounds)
        learned = self.optimizer is not None and not any(isinstance(b, str) for b in fixed)
        if learned and self.feature_weights in ("auto", "relevance"):
            start = likelier_weights(self, X, Y, start)
        if self.feature_weights == "relevance":
            return self._with_relevant_weights(X, Y, start)
        return start

    def _with_relevant_weights(
        self, X: Matrix, Y: Array, start: Hyperparameters
    ) -> Hyperparameters:
        """Return the start with weights of features that held-out rows are predicted best by."""
        n_threads = count_threads(self.n_jobs)
        kernel = start.kernel
        weights = relevant_weights(
            replace(kernel, weights=None).rows(X, n_threads),
            Y,
            np.ones(X.shape[1]) if kernel.weights is None else kernel.weights,
            None if self.intercept_variance == "auto" else float(self.intercept_variance),
            np.random.default_rng(self._seed),
            n_threads,
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
        kernel = replace(
            values.kernel,
            pairs=PairKernel.of(X, pairs, self.n_interaction_knots),
            interaction_weight=float(self.interaction_weight),
        )
        start = replace(values, kernel=kernel)
        of_weight = likelihood_of_pairs(self, X, Y, start)
        if self.interactions is not None and of_weight.shape[0] == len(Y):
            return self._learn_hyperparameters(start, of_weight)
        of_all = self._make_likelihood(make_system, likelihood.base, Y)
        # All rows tell noise and amplitude, but pairs weigh what rows say that did not choose them.
        for _ in range(_ROUNDS):
            start = self._learn_hyperparameters(start, of_weight, ["interaction_weight"])
            start = self._learn_hyperparameters(start, of_all, SCALES)
        self.theta_ = self._search_space(start).pack(start)
        return start

    def _make_system(
        self,
        X: Matrix,
        kernel: GeneralizedKernel,
        scales: Scales,
        base_columns: _histrs.SortedColumns | None,
    ) -> KernelSystem:
        make = partial(DistributedSystem, n_jobs=self.n_jobs) if is_dask(X) else KernelSystem
        return make(
            X=X,
            noise=scales.noise,
            amplitude=scales.amplitude,
            n_threads=count_threads(self.n_jobs),
            solver=self.solver,
            preconditioner_name=self.preconditioner,
            max_iter=self.max_iter,
            kernel=kernel,
            base_columns=base_columns,
            row_scale=roots(self.sample_weight_fit_),
        )

    def _solve_targets(
        self, systems: Sequence[KernelSystem], Y: Array, weights: Array | None
    ) -> None:
        """Solve for standardised targets, from `weights`, which count the amplitude in."""
        tol = np.full(Y.shape[1], float(self.tol))
        found = Solution(np.empty_like(Y), np.empty(Y.shape[1]), np.empty(Y.shape[1], np.intp))
        # Targets of any size are solved at size 1; those of 0 have weights of 0.
        centred = Y - self._level_of_regression(Y)
        size = np.max(np.abs(centred), axis=0, initial=0.0)
        start = None if weights is None else weights * (size > 0.0)
        size[size == 0.0] = 1.0
        left = np.full(Y.shape[1], np.inf)
        with SolverProgress(type(self).__name__, tol, self.verbose) as progress:
            for k, system in enumerate(systems):
                part = slice(None) if len(systems) == 1 else slice(k, k + 1)
                system.check()
                solution = system.solve_targets(
                    centred[:, part] / size[part],
                    tol[part],
                    None if start is None else start[:, part] / size[part],
                    partial(_report, progress, left, part),
                )
                found.X[:, part] = solution.X * size[part]
                found.residual[part] = solution.residual * size[part]
                found.n_iter[part] = solution.n_iter
        self._keep(tuple(systems), Y, found.X)
        self.residual_ = found.residual * self._units()
        self.n_iter_ = found.n_iter
        if not np.all(found.residual <= tol * size):
            worst = int(np.argmax(found.residual / size))
            limit = self.tol * size[worst] * self._units()[worst]
            warn(
                f"{type(self).__name__} stopped after {self.n_iter_.max()} iterations with a "
                f"residual of {self.residual_[worst]:.2e} in output {worst}, above the tolerance "
                f"{limit:.2e}: predictions may be far off. Raise max_iter, tol "
                "or noise, or scale the features down.",
                ConvergenceWarning,
            )

    def _keep(self, systems: tuple[KernelSystem, ...], Y: Array, weights: Array) -> None:
        """Keep what was learned: arrays, and the posterior that is made of them."""
        kernel = systems[0].kernel
        noise = np.array([system.noise for system in systems])
        amplitude = np.array([system.amplitude for system in systems])
        self.X_fit_, self.Y_fit_ = systems[0].X, Y * self._units()
        self._keep_weights(weights, amplitude)
        shared = len(systems) == 1
        self.noise_ = float(noise[0]) if shared else noise
        self.amplitude_ = float(amplitude[0]) if shared else amplitude
        self.feature_transform_, self.exponent_ = kernel.transform, kernel.exponent
        ones = np.ones(self.n_features_in_)
        self.feature_weights_ = ones if kernel.weights is None else kernel.weights
        self.intercept_variance_ = kernel.intercept_variance
        pairs = kernel.pairs
        self.interactions_ = np.empty((0, 2), np.intp) if pairs is None else pairs.pairs
        self.smoothness_ = kernel.smoothness
        self.slope_weight_ = kernel.slope_weight if kernel.is_smooth else 0.0
        self.rough_weight_ = kernel.rough_weight
        self.interaction_weight_ = 0.0 if pairs is None else kernel.interaction_weight
        self.interaction_knots_ = [] if pairs is None else list(pairs.knots)
        self._knot_covariances = [] if pairs is None else list(pairs.covariances)
        posterior = Posterior(systems, weights, {}, self.tol)
        self._posterior = replace(posterior, readouts=self._learn_readouts(posterior, Y))

    # ---- rows that come and go ---------------------------------------------------------------

    def _systems_with(
        self, X: Matrix, n_outputs: int, row_scale: Array | None
    ) -> tuple[KernelSystem, ...]:
        return self._changed_systems(lambda system: insert_rows(system, X, n_outputs, row_scale))

    def _systems_without(self, removed: Indices, n_outputs: int) -> tuple[KernelSystem, ...]:
        return self._changed_systems(lambda system: remove_rows(system, removed, n_outputs))

    def _changed_systems(
        self, change: Callable[[KernelSystem], KernelSystem]
    ) -> tuple[KernelSystem, ...]:
        """Return the systems after a change of their rows, under what is now set of the solver."""
        refuse_distributed(self, "A change of rows")
        first, *others = self._state()["_posterior"].systems
        fresh = self._make_system(
            first.X, first.kernel, Scales(first.noise, first.amplitude), first.base_columns
        )
        fresh = replace(fresh, row_scale=first.row_scale)
        settings = ("n_threads", "solver", "preconditioner_name", "max_iter")
        same = all(getattr(first, name) == getattr(fresh, name) for name in settings)
        changed = change(first if same else fresh)
        scales = [Scales(system.noise, system.amplitude) for system in others]
        return (changed, *(changed.with_scales(pair) for pair in scales))

    # ---- hyper-parameters --------------------------------------------------------------------

    def _search_space(self, start: Hyperparameters) -> SearchSpace:
        """Return the space of the hyper-parameters that are learned."""
        free = ["noise", "amplitude"]
        if self.feature_transform != "identity":
            free.append("exponent")
        if isinstance(self.feature_weights, str) and self.feature_weights == "ard":
            free.append("feature_weights")
        if start.kernel.pairs is not None:
            free.append("interaction_weight")
        if start.kernel.is_smooth:
            free.append("slope_weight")
        if start.kernel.smoothness == "both":
            free.append("rough_weight")
        bounds = {name: check_bounds(name, getattr(self, f"{name}_bounds")) for name in free}
        if "feature_weights" in free:
            if bounds["feature_weights"] == "fixed" or self.optimizer is None:
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
        make_system = partial(self._make_system, system.X)
        Y = state["Y_fit_"] / self._units()
        return self._make_likelihood(make_system, columns, Y - self._level_of_regression(Y))

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
            log_det=self.log_det,
            seed=self._seed,
            row_scale=roots(self.sample_weight_fit_),
        )

    def _warm_start_weights(self, shape: tuple[int, ...]) -> Array | None:
        if not self.warm_start or getattr(self, "dual_coef_", np.empty(0)).shape != shape:
            return None
        return self._weights()

    def _hyperparameters(self, state: dict[str, Any]) -> Hyperparameters:
        weights = None if np.all(state["feature_weights_"] == 1.0) else state["feature_weights_"]
        kernel = GeneralizedKernel(
            state["feature_transform_"],
            state["exponent_"],
            weights,
            intercept_variance=state["intercept_variance_"],
        )
        if len(state.get("interactions_", ())) > 0:
            knots, covariances = state["interaction_knots_"], state["_knot_covariances"]
            pairs = PairKernel(state["interactions_"], tuple(knots), tuple(covariances))
            kernel = replace(kernel, pairs=pairs, interaction_weight=state["interaction_weight_"])
        if (smoothness := state.get("smoothness_", "linear")) != "linear":
            kernel = replace(
                kernel,
                smoothness=smoothness,
                slope_weight=state["slope_weight_"],
                rough_weight=state["rough_weight_"],
            )
        noise, amplitude = (np.atleast_1d(state[name]) for name in ("noise_", "amplitude_"))
        return Hyperparameters(noise, amplitude, kernel)

    def _posterior_of(self, state: dict[str, Any]) -> Posterior:
        values = self._hyperparameters(state)
        first, *others = values.scales()
        system = self._make_system(state["X_fit_"], values.kernel, first, None)
        systems = (system, *(system.with_scales(scales) for scales in others))
        return Posterior(systems, state["_standard_weights"], self._readouts(state), self.tol)

    # ---- prediction --------------------------------------------------------------------------

    def _check_test(self, X: ArrayLike | Matrix) -> Matrix:
        check_is_fitted(self)
        if is_dask(X) and is_dask(getattr(self, "X_fit_", None)):
            lazy: Matrix = rows_to_predict(self, X)
            return lazy
        return canonical(validate_data(self, X, reset=False, **HISTOGRAM_CHECKS))

    def _check_rows_of_means(self, X: ArrayLike | Matrix) -> Matrix:
        # Tables take bytes as they are.
        if self.n_bins is None or not isinstance(X, np.ndarray) or X.dtype != np.uint8:
            return self._check_test(X)
        check_is_fitted(self)
        checks = {**HISTOGRAM_CHECKS, "dtype": np.uint8}
        rows: Matrix = validate_data(self, X, reset=False, **checks)
        return rows

    def _read(self, state: dict[str, Any], name: str, X: Matrix) -> Array:
        """Return a readout of the posterior mean, from a table where there are bins."""
        posterior: Posterior = state["_posterior"]
        if posterior.system.kernel.is_smooth:
            smooth_choice.refuse_bins(self)
        return posterior.read(name, X, count_threads(self.n_jobs), self.n_bins, self.interpolation)

    def _latent_variance(self, state: dict[str, Any], X: Matrix) -> Array:
        """Return the posterior variance of latent functions of standardised targets."""
        posterior: Posterior = state["_posterior"]
        return posterior.latent_variance(X, self.variance, self.n_bins, self.n_eigenvectors)

    @property
    def std_error_(self) -> float:
        """Mean relative error of the standard deviations that come from cached directions.

        It is measured on training rows that are solved exactly, each by a fit without it; 0 where
        all standard deviations are exact.
        """
        posterior: Posterior = self._state()["_posterior"]
        ks = range(len(posterior.systems))
        cached = [
            k
            for k in ks
            if self.variance == "cached"
            or (self.variance == "auto" and not posterior.has_exact_variance(k))
        ]
        if cached:
            return max(posterior.cached_variance(k).error for k in cached)
        if self.variance in ("auto", "exact"):
            return 0.0
        raise AttributeError(f"std_error_ is not measured with variance={self.variance!r}.")

    @property
    def intercept_(self) -> Array:
        """What is predicted where no feature and no pair of features adds anything."""
        posterior: Posterior = self._state()["_posterior"]
        return np.broadcast_to(posterior.intercept("mean"), posterior.weights.shape[1:]).copy()

    @property
    def quantization_error_bound_(self) -> Array:
        """What no number from the table of `n_bins` cells is off by more than."""
        if self.n_bins is None or not self.__sklearn_is_fitted__():
            raise AttributeError(
                "quantization_error_bound_ is there after a fit, and with n_bins: predictions are "
                "exact without."
            )
        posterior: Posterior = self._state()["_posterior"]
        return posterior.score(self._predicted, self.n_bins, self.interpolation).error_bound()

    def explain(self, X: ArrayLike | Matrix) -> Explanation:
        r"""Take the posterior mean of rows apart by feature, and by pair of features.

        The mean of a row is the offset plus the sum of one number for each feature, which depends
        on that feature alone: :math:`f_d(x(d))` of `shape_functions`; and of one for each pair of
        `interactions_`, that of `pair_functions`. For a classifier it is that
        of the targets +1 and -1 (`latent_mean_and_variance`).

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Histograms.

        Returns
        -------
        explanation : Explanation
            Named tuple ``(names, data, values, std, offset, pairs)``. The standard deviations are
            exact, and take a solve for each entry.
        """
        refuse_distributed(self, "explain")
        X, state = self._check_test(X), self._state()
        names = state.get("feature_names_in_")
        if names is None:
            names = np.array([f"x{d}" for d in range(X.shape[1])], dtype=object)
        return explain(state["_posterior"], X, names, self._units(), count_threads(self.n_jobs))

    def export_tables(self, n_bins: int = 256) -> AdditiveTables:
        """Return what predicts means, or calibrated probabilities, as plain tables.

        The tables can be kept as arrays, evaluated in a few lines of any language, and served as an
        ONNX model (`AdditiveTables.to_onnx`), without this package.

        Parameters
        ----------
        n_bins : int, default=256
            At most so many nodes a feature, 2 at least. Where a feature has no more distinct
            values in training, the tables are exact; elsewhere, `error_bound` is certified.

        Returns
        -------
        tables : AdditiveTables
            Nodes, values and slopes of a piecewise linear function for each feature, and the grid
            of each pair, which is exact.

        Raises
        ------
        TypeError, ValueError
            If `n_bins` is no integer, or less than 2; if features are transformed, between whose
            values functions are not linear; or if probabilities need variances, with
            ``calibration=None``.

        Examples
        --------
        >>> import numpy as np
        >>> from histrs.gaussian_process import IntersectionGPRegressor
        >>> X = np.random.default_rng(0).random((100, 3))
        >>> model = IntersectionGPRegressor().fit(X, X[:, 0] ** 2 + X[:, 1])
        >>> tables = model.export_tables()
        >>> bool(np.allclose(tables.scores(X)[:, 0], model.predict(X)))
        True
        """
        refuse_distributed(self, "export_tables")
        state = self._state()
        n_bins = check_scalar(n_bins, "n_bins", Integral, min_val=2)
        if state.get("smoothness_", "linear") != "linear":
            raise ValueError(
                f"smoothness={state['smoothness_']!r}: tables are of piecewise linear functions. "
                'Fit with smoothness="linear".'
            )
        if state["feature_transform_"] != "identity":
            raise ValueError(
                f"feature_transform={state['feature_transform_']!r}: tables are exact between "
                'their nodes for "identity" alone. Transform the features before the fit.'
            )
        classes = state.get("classes_")
        if classes is not None and getattr(self, "calibration", None) is None:
            raise ValueError(
                "calibration=None: probabilities need the variance of each row, which is no sum "
                'over features. Fit with calibration="leave-one-out".'
            )
        posterior: Posterior = state["_posterior"]
        n_threads = count_threads(self.n_jobs)
        return tables_of(posterior, self._predicted, n_bins, classes, n_threads)

    def shape_functions(
        self,
        features: Sequence[int] | None = None,
        *,
        max_knots: int | None = None,
        return_std: bool = False,
    ) -> list[ShapeFunction]:
        r"""Return what each feature adds to the posterior mean.

        The mean is `intercept_` :math:`+ \sum_d f_d(x(d))`, plus what pairs of features add
        (`pair_functions`) where there are some, with
        :math:`f_d(t) = \mathrm{amplitude}\, w_d \sum_i \alpha_i \min(g(x_i(d)), g(t))`. Between
        neighbouring training values, `f_d` is linear in `g(t)`, so linear where
        `feature_transform` is "identity"; it is 0 at 0, and constant above the largest training
        value. With another `smoothness` than "linear" there are functions of mean 0 over the
        training rows, which are lines beyond the least and the largest training value.

        Parameters
        ----------
        features : sequence of int, default=None
            Indices of the features; None takes all.
        max_knots : int or None, default=None
            At most so many of the values of a feature; None takes every one, with which the
            function is exact everywhere. Smooth functions are given at so many values, 200 by
            default, evenly spaced from the least to the largest.
        return_std : bool, default=False
            Whether to compute the posterior standard deviation of each function too, which takes a
            solve for each knot. It is exact.

        Returns
        -------
        functions : list of ShapeFunction
            Named tuples ``(feature, knots, values, std)``; `std` is None unless it was asked for.
        """
        refuse_distributed(self, "shape_functions")
        state = self._state()
        posterior: Posterior = state["_posterior"]
        n_threads = count_threads(self.n_jobs)
        n_features = state["n_features_in_"]
        chosen = range(n_features) if features is None else features
        functions = []
        for feature in chosen:
            if not 0 <= feature < n_features:
                raise ValueError(f"feature {feature} is not in 0..{n_features}.")
            term = posterior.feature_term(feature)
            if term is not None:
                knots = points_of(term, posterior, feature, max_knots)
                values = feature_function(posterior, term, "mean", feature, knots)
                values = values[:, 0] if values.shape[1] == 1 else values
                std = None
                if return_std:
                    variance = feature_variance(posterior, term, feature, knots)
                    std = self._spread(state, np.sqrt(variance))
                functions.append(ShapeFunction(feature, knots, values, std))
                continue
            knots = training_values(posterior.system.X, feature, max_knots)
            rows = rows_of_one_feature(knots, feature, n_features)
            values = posterior.read_features("mean", rows, n_threads)
            values = values[:, 0] if values.shape[1] == 1 else values
            std = None
            if return_std:
                std = self._spread(state, np.sqrt(posterior.feature_variance(rows)))
            functions.append(ShapeFunction(feature, knots, values, std))
        return functions

    def pair_functions(
        self, pairs: Interactions | None = None, *, return_std: bool = False
    ) -> list[PairFunction]:
        r"""Return what pairs of features add to the posterior mean, beside `shape_functions`.

        The mean is `intercept_` :math:`+ \sum_d f_d(x(d)) + \sum_{(i, j)} f_{ij}(x(i), x(j))`.
        A pair's function is bilinear between its knots, and constant
        beyond them. Its mean over the training values of either feature is 0, whatever the other
        one is, so that it holds no main effect of them as if they were independent; where they are
        not, what they add together over the rows may have one.

        Parameters
        ----------
        pairs : sequence of pairs of int or str, default=None
            Which of `interactions_`; None takes all.
        return_std : bool, default=False
            Whether to compute the posterior standard deviation of each function too, which takes a
            solve for each pair of knots. It is exact.

        Returns
        -------
        functions : list of PairFunction
            Named tuples ``(features, knots, values, std)``; `std` is None unless it was asked for.

        Raises
        ------
        ValueError
            If the model has no such pair.

        Examples
        --------
        >>> import numpy as np
        >>> from histrs.gaussian_process import IntersectionGPRegressor
        >>> X = np.random.default_rng(0).random((300, 4))
        >>> model = IntersectionGPRegressor(n_interactions=1).fit(X, X[:, 3] * X[:, 1] + X[:, 0])
        >>> (function,) = model.pair_functions()
        >>> function.features, function.values.shape
        ((1, 3), (12, 12))
        """
        state = self._state()
        spread = partial(self._spread, state)
        return pair_functions(state, pairs, spread if return_std else None)

    def __sklearn_tags__(self) -> Tags:
        """Return what scikit-learn may expect of the estimator."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = True
        return tags


def _report(progress: SolverProgress, left: Array, part: slice, residual: Array) -> None:
    """Show how far some outputs are, beside the others."""
    left[part] = residual
    progress(left)
