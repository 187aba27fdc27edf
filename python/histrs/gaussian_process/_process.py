"""What every Gaussian process is: a kernel, systems, targets and a posterior, put together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial, wraps
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, ParamSpec, Self, TypeVar, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import _fit_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from histrs._calibration import Readout
from histrs._checks.validation import check_random_state, naming_rows
from histrs._estimator import BaseEstimator, documented
from histrs._progress import SolverProgress
from histrs._solvers.block_cg import Solution
from histrs._solvers.preconditioners import Indices
from histrs._typing import Array, Matrix
from histrs._warnings import warn
from histrs._weights import RowWeights, in_units_of_mean, over_unit, weighs_nothing
from histrs.gaussian_process import _doors
from histrs.gaussian_process import _updates as updates
from histrs.gaussian_process._asked import Asked
from histrs.gaussian_process._bound.base import Bound
from histrs.gaussian_process._docs import FIT, GAUSSIAN_PROCESS, UPDATES
from histrs.gaussian_process._evidence import log_marginal_likelihood
from histrs.gaussian_process._kernels.base import Kernel
from histrs.gaussian_process._kernels.generalized import GeneralizedKernel
from histrs.gaussian_process._kernels.levels import LevelKernel
from histrs.gaussian_process._kernels.radial import Radial
from histrs.gaussian_process._learning import additive, levels
from histrs.gaussian_process._learning.hyperparameters import (
    Bounds,
    Hyperparameters,
    checked_scales,
)
from histrs.gaussian_process._learning.learner import Learner
from histrs.gaussian_process._learning.likelihood import BaseLikelihood
from histrs.gaussian_process._learning.monotone import with_monotone_functions
from histrs.gaussian_process._learning.problem import Problem, learn_by_factors
from histrs.gaussian_process._likelihoods.classes import CodedClasses, LatentClasses, Modes
from histrs.gaussian_process._likelihoods.patterns import Patterns, TrainingRows
from histrs.gaussian_process._likelihoods.rates import LatentRates
from histrs.gaussian_process._options import (
    Bins,
    Fine,
    LikelihoodSearch,
    OptimizerName,
    OptimizerOption,
    Solver,
    SolverName,
    VarianceName,
)
from histrs.gaussian_process._posterior import functions
from histrs.gaussian_process._posterior.parts import save
from histrs.gaussian_process._posterior.posterior import Posterior
from histrs.gaussian_process._posterior.tables import export_tables
from histrs.gaussian_process._precision import in_precision_of_rows
from histrs.gaussian_process._rows import GivenRows, telling
from histrs.gaussian_process._state import replaced_whole
from histrs.gaussian_process._systems.rows import rows_to_forget
from histrs.gaussian_process._systems.system import System

P = ParamSpec("P")
R = TypeVar("R")

# Mean weight of rows, above which weights are taken in its unit: that often no row was measured,
# and noise that is divided by more would be none.
_MOST_WEIGHT = 1e6


class OfKernel:
    """An attribute that the kernel of a fit has, under the same name."""

    def __set_name__(self, owner: Any, name: str) -> None:
        """Take the name."""
        self._name = name

    def __get__(self, model: Any, owner: Any = None) -> Any:
        """Return what the kernel says; other kernels have no such attribute."""
        if model is None:
            return self
        learned: dict[str, Any] = getattr(vars(model).get("kernel_"), "learned", {})
        if self._name not in learned:
            kind = type(model).__name__
            raise AttributeError(f"{kind!r} object has no attribute {self._name!r}")
        found = learned[self._name]
        return np.ones(model.n_features_in_) if found is None else found


def of_each_pattern(method: Callable[P, R]) -> Callable[P, R]:
    """Return a method that asks each fit of targets that miss different rows, if there are such."""

    @wraps(method)
    def answer(*args: P.args, **kwargs: P.kwargs) -> R:
        if (patterns := Patterns.of(args[0])) is None:
            return method(*args, **kwargs)
        ask: Any = method
        found: R = patterns.ask(lambda fit: ask(fit, *args[1:], **kwargs))
        return found

    return answer


@documented(GAUSSIAN_PROCESS, FIT, UPDATES)
class GaussianProcess(BaseEstimator):
    """A process of one or more targets on shared inputs; what targets are, subclasses say."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "kernel": "no_validation",
        "noise": [Interval(Real, 0, None, closed="neither"), "array-like"],
        "noise_bounds": [StrOptions({"fixed"}), "array-like"],
        "optimizer": [StrOptions({"auto", *get_args(OptimizerName)}), LikelihoodSearch, None],
        "solver": [StrOptions(set(get_args(SolverName))), Solver],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "variance": [StrOptions(set(get_args(VarianceName))), Fine],
        "n_bins": [Interval(Integral, 2, 65535, closed="both"), Bins, None],
    }
    _default_kernel: ClassVar[Callable[[], Kernel]] = Radial
    """The kernel that None stands for."""
    _predicted: ClassVar[Literal["mean", "decision"]]
    """The readout that predictions are made of: that of targets, or of classes."""

    # Parameters that both have.
    kernel: Any
    noise: float | ArrayLike
    noise_bounds: Bounds
    optimizer: OptimizerOption
    solver: SolverName | Solver
    tol: float
    variance: VarianceName | Fine
    n_bins: int | Bins | None
    random_state: int | np.random.RandomState | None
    n_jobs: int | None
    verbose: int

    kernel_: Kernel | GeneralizedKernel
    sample_weight_fit_: Array | None = None
    noise_: float | Array
    amplitude_: float | Array
    Y_fit_: Array
    _standard_weights: Array
    _targets_are_single: bool = True
    """Whether targets were of single precision; labels have none."""
    _weight_unit: float
    """What a weight of 1 was when rows were first given."""
    _given: GivenRows
    """Which training row each of the given ones is."""
    _stays: Array | None = None
    """What part of a training row stays where one of the given ones is left out; None for 0."""
    _modes: Modes
    """Regressions at the modes of latent functions; not there for targets with Gaussian noise."""
    _drawn_seed: NDArray[np.int64]
    """The seed of the fit, which copies of the estimator share; -1 until it is asked for."""

    feature_transform_ = OfKernel()
    exponent_ = OfKernel()
    feature_weights_ = OfKernel()
    intercept_variance_ = OfKernel()
    interactions_ = OfKernel()
    interaction_weight_ = OfKernel()
    interaction_knots_ = OfKernel()
    smoothness_ = OfKernel()
    slope_weight_ = OfKernel()
    rough_weight_ = OfKernel()
    level_weights_ = OfKernel()

    @property
    def _asked(self) -> Asked:
        """What the parameters ask for."""
        return Asked(self)

    # ---- the seed ----------------------------------------------------------------------------

    @property
    def _seed(self) -> int:
        """What all random choices of the fit begin with, drawn when the first of them is made."""
        if self._drawn_seed[0] < 0:
            self._random()
        return int(self._drawn_seed[0])

    def _random(self) -> np.random.RandomState:
        """Return the generator of further draws, of which the seed is the first."""
        random: np.random.RandomState = check_random_state(self.random_state)
        seed = random.randint(np.iinfo(np.int32).max)
        if self._drawn_seed[0] < 0:
            self._drawn_seed[0] = seed
        return random

    # ---- rows --------------------------------------------------------------------------------

    def _check_entries(self, X: Any) -> None:
        """Refuse entries of rows that the kernel does not take."""
        _doors.check_entries(self, X)

    def _check_test(self, X: Any) -> Any:
        """Return rows to predict, checked."""
        check_is_fitted(self)
        return self._coordinates(_doors.rows_to_predict(self, X), None, reset=False)

    def _check_rows_of_means(self, X: Any) -> Any:
        """Return rows of which no more is asked than the posterior mean, checked."""
        # Tables take bytes as they are.
        is_of_bytes = isinstance(X, np.ndarray) and X.dtype == np.uint8
        if self._asked.bins.n_bins is None or not is_of_bytes:
            return self._check_test(X)
        check_is_fitted(self)
        return _doors.rows_to_predict(self, X, as_bytes=True)

    def _coordinates(self, X: Any, weights: Array | None, *, reset: bool) -> Any:
        """Return rows as they are kept, of checked ones and their weights."""
        asked = self._asked
        if reset:
            self.__dict__.pop("kernel_", None)
            if asked.terms is None:
                self.kernel_ = asked.kernel.taken(X, weights, asked.n_threads)
        kernel = vars(self).get("kernel_")
        return kernel.view(X, asked.n_threads) if isinstance(kernel, Kernel) else X

    def _rows_with_weight(
        self, given: RowWeights, rows: tuple[Any, ...], checked: tuple[Any, ...], **checks: Any
    ) -> tuple[Any, ...]:
        """Return rows and targets that have a weight, checked: no other leaves a trace."""
        if given.kept is None:
            self._check_entries(checked[0])
            return checked
        # The core would name them by their place among distinct ones with a weight.
        with naming_rows(given.kept):
            kept = _doors.rows_to_fit(self, *given.rows(*rows), **checks)
            self._check_entries(kept[0])
        return kept

    # ---- a fit -------------------------------------------------------------------------------

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(
        self, X: ArrayLike | Matrix, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Fit the model; on an error nothing changes.

        Parameters
        ----------
        {rows}
        {y}
        {sample_weight}

        {self}

        Raises
        ------
        ValueError
            If the kernel does not accept an entry of `X`, which the message names, or lengths
            differ. If a target is missing in every row, or `y` has fewer than two classes. If a
            weight is negative or not finite, or all are 0.
        """
        with replaced_whole(self) as draft:
            draft._learn(draft._read_rows(X, y, sample_weight, reset=True))
        return self

    def _read_rows(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None, *, reset: bool
    ) -> TrainingRows:
        """Return the rows that have a weight and a target, checked."""
        raise NotImplementedError

    def _learn(self, rows: TrainingRows, declared: ArrayLike | None = None) -> None:
        """Fit checked rows, equal ones as one; `declared` are classes that stay without rows."""
        self.__dict__.pop("_modes", None)
        distinct = updates.distinct(self, rows)
        self._stays = distinct.stays
        X, y = distinct.rows(rows.checked, rows.Y)
        weights = distinct.weights
        self._weigh(weights, y)
        Y, _ = self._standardised(y, None)
        self._fit_targets(self._coordinates(X, distinct.weights, reset=True), Y)
        self._given = GivenRows.of(distinct.groups, rows.weights)

    def _weigh(self, weights: Array | None, y: NDArray[Any]) -> None:
        """Keep the weights of rows, in a unit of their own."""
        self.sample_weight_fit_, self._weight_unit = in_units_of_mean(weights)
        if weights is not None and (self._stays is not None or not self._asked.learns_noise):
            # Of equal rows with different targets each counts: weights are what they are.
            self._weight_unit = max(self._weight_unit / _MOST_WEIGHT, 1.0)
            kept = over_unit(weights, self._weight_unit)
            self.sample_weight_fit_ = None if np.all(kept == 1.0) else kept

    def _fit_targets(self, X: Any, Y: Array) -> None:
        """Learn the hyper-parameters and solve for targets of scale 1, of rows as they are kept."""
        self._asked.check(X)
        self._drawn_seed = np.array([-1])
        learner = self._learner()
        weights = telling(self.sample_weight_fit_, self._stays)
        values, bound = self._learned(X, Y, weights, learner)
        self.__dict__.pop("optimization_history_", None)
        if learner.history is not None:
            self.optimization_history_ = learner.history
        self.kernel_ = values.kernel
        self.theta_ = learner.space(values).pack(values)
        problem = self._problem(X, Y, self.sample_weight_fit_)
        bound = bound.reweighted(self.sample_weight_fit_)
        systems = [problem.system(bound, scales) for scales in values.scales()]
        self._solve_targets(self._systems_to_solve(systems, Y), Y, None)

    def _learned(
        self, X: Any, Y: Array, weights: Array | None, learner: Learner
    ) -> tuple[Hyperparameters, Bound]:
        """Return the hyper-parameters, and their kernel on the rows."""
        asked = self._asked
        n_pairs = 1 if asked.shares(self._predicted == "decision") else Y.shape[1]
        scales, terms = checked_scales(n_pairs, **asked.scales), asked.terms
        if terms is None:
            values = Hyperparameters(*scales, self.kernel_)
            problem = self._problem(X, Y - self._level_of_regression(Y), weights)
            leaves_out = self._leaves_out()
            random = self._random
            return learn_by_factors(problem, values, learner, random, leaves_out=leaves_out)
        if terms.levels is not None:
            if terms.monotonic_cst is not None:
                self._check_monotone(Y)
            problem = self._problem(X, Y, weights)
            return levels.learn(problem, terms, Hyperparameters(*scales, None), learner)
        base = additive.sorted_base(X, asked.n_threads, self.n_jobs)
        start = terms.start(base, asked.n_threads)
        self.kernel_ = replace(start, smoothness=terms.smoothness)
        problem = self._problem(X, Y - self._level_of_regression(Y), weights)
        values, has_intercept = Hyperparameters(*scales, start), self._latent is None
        return additive.learn(problem, terms, values, base, learner, has_intercept=has_intercept)

    def _check_monotone(self, Y: Array) -> None:
        """Refuse targets that monotone functions are not for."""
        if self._latent is not None or Y.shape[1] > 1:
            raise ValueError(
                "monotonic_cst works with one target or two classes, and the Gaussian likelihood: "
                'fit one target at a time, with likelihood="gaussian".'
            )

    def _problem(self, X: Any, Y: Array, weights: Array | None) -> Problem:
        """Return rows and targets, with all that is said of them."""
        asked = self._asked
        return Problem(
            X,
            Y,
            weights,
            self._stays,
            solver=asked.solver,
            tol=self.tol,
            log_det=asked.search.log_det,
            seed=lambda: self._seed,
            n_jobs=self.n_jobs,
            are_classes=self._predicted == "decision",
            feature_names=getattr(self, "feature_names_in_", None),
        )

    def _learner(self) -> Learner:
        """Return what searches for hyper-parameters."""
        asked = self._asked
        return Learner(
            type(self).__name__, asked.search, asked.bounds, lambda: self._seed, self.verbose
        )

    # ---- what targets are: a likelihood says otherwise -----------------------------------------

    @property
    def _latent(self) -> LatentClasses | LatentRates | None:
        """What targets follow, if it is not a latent function with Gaussian noise."""
        return None

    @property
    def _least_noise(self) -> float:
        """What noise is at least, whatever is asked for."""
        return 0.0

    @property
    def _merges_rows(self) -> bool:
        """Whether equal rows are one, with their weights together."""
        return True

    def _standardised(
        self, targets: NDArray[Any], start: Array | None
    ) -> tuple[Array, Array | None]:
        """Keep what targets are; return them at scale 1, and weights to start from, if any.

        `start` are the weights of earlier outputs; None is for the first rows, which tell the unit.
        """
        raise NotImplementedError

    def _targets_given(self) -> NDArray[Any]:
        """Return the targets of training rows as `_standardised` takes them."""
        raise NotImplementedError

    def _units(self) -> Array:
        """Return what one of each standardised target is in the user's unit."""
        raise NotImplementedError

    def _spread(self, state: dict[str, Any], std: Array) -> Array:
        """Return standard deviations as users see them, from those of standardised targets."""
        raise NotImplementedError

    def _shaped(self, columns: Array) -> Array:
        """Return what there is one of for every row as a vector."""
        raise NotImplementedError

    def _readouts(self, state: dict[str, Any]) -> dict[str, Readout]:
        """Return what is read from the posterior mean of standardised targets."""
        raise NotImplementedError

    def _learn_readouts(self, posterior: Posterior, Y: Array) -> dict[str, Readout]:
        """Return the same of a posterior that was just found."""
        return self._readouts(self.__dict__)

    def _leaves_out(self) -> bool:
        """Say whether hyper-parameters are those that predict rows best that are left out."""
        return False

    def _level_of_regression(self, Y: Array) -> Array:
        """Return what standardised targets are regressed less, a number for each output."""
        return np.zeros(Y.shape[1])

    def _systems_to_solve(self, systems: list[System], Y: Array) -> list[System]:
        """Return the systems of a fit, from those of the hyper-parameters that were learned."""
        return systems

    def _systems_to_change(self) -> Sequence[System]:
        """Return the systems that rows come to or go from."""
        systems: Sequence[System] = self._state()["_posterior"].systems
        # Regressions at a mode differ in the weights of rows alone.
        return systems if self._latent is None else [systems[0].with_row_scale(None)]

    def _classes(self, state: dict[str, Any]) -> CodedClasses | LatentClasses:
        """Return what ties the targets of a fit to latent functions: Gaussian noise, or more."""
        return CodedClasses()

    def _noise_of_labels(self, state: dict[str, Any], X: Any) -> Array:
        """Return the noise variances with which labels of rows would be told.

        One for every row, or one for all, a row of the result for each system.
        """
        mean = self._read(state, "mean", X)
        return self._classes(state).noise(state["_posterior"], mean)

    def _predictive_variance(self, state: dict[str, Any], X: Any) -> Array:
        """Return the posterior variance of standardised targets."""
        latent = self._latent_variance(state, X)
        return self._classes(state).predictive_variance(state["_posterior"], latent)

    # ---- solving -----------------------------------------------------------------------------

    def _solve_targets(self, systems: Sequence[System], Y: Array, weights: Array | None) -> None:
        """Solve for standardised targets, from `weights`, which count the amplitude in."""
        if self._latent is not None:
            self._solve_modes(self._latent, systems[0], Y, weights)
            return
        tol = systems[0].tolerance(np.full(Y.shape[1], float(self.tol)))
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
        constrained = [with_monotone_functions(s, found.X, lambda: self._seed) for s in systems]
        self._keep(tuple(constrained), Y, found.X)
        self.residual_ = found.residual * self._units()
        self.n_iter_ = found.n_iter
        if not np.all(found.residual <= tol * size):
            worst = int(np.argmax(found.residual / size))
            limit = tol[worst] * size[worst] * self._units()[worst]
            warn(
                f"{type(self).__name__} stopped after {self.n_iter_.max()} iterations with a "
                f"residual of {self.residual_[worst]:.2e} in output {worst}, above the tolerance "
                f"{limit:.2e}: predictions may be far off. Raise max_iter of a Solver, "
                "tol or noise, or scale the features down.",
                ConvergenceWarning,
            )

    def _solve_modes(
        self, latent: LatentClasses | LatentRates, base: System, Y: Array, weights: Array | None
    ) -> None:
        """Solve for the modes of latent functions, whose systems differ in curvatures alone."""
        base.check()
        modes = latent.modes(base, Y, self.sample_weight_fit_, weights)
        self._modes = Modes.of(modes)
        found = np.column_stack([mode.weights for mode in modes])
        self._keep(tuple(mode.system for mode in modes), Y, found, of_bias=self._modes.of_bias)
        self.noise_, self.amplitude_ = base.noise, base.amplitude
        space = self._learner().space(self._hyperparameters(self.__dict__))
        self.theta_ = space.pack(space.start)
        self.residual_ = np.array([mode.residual for mode in modes])
        self.n_iter_ = np.array([mode.n_steps for mode in modes], dtype=np.intp)
        if not np.all(self.residual_ <= self.tol):
            worst = int(np.argmax(self.residual_))
            self._learner().warn(
                f"Newton's method stopped after {self.n_iter_[worst]} steps with a gradient of "
                f"{self.residual_[worst]:.2e} in output {worst}, above the tolerance {self.tol}. "
                "Raise tol, or lower the bounds of the constant that multiplies the kernel."
            )

    def _keep(self, systems: tuple[System, ...], Y: Array, weights: Array, **others: Any) -> None:
        """Keep what was learned: arrays, and the posterior that is made of them."""
        noise = np.array([system.noise for system in systems])
        amplitude = np.array([system.amplitude for system in systems])
        self.X_fit_, self.Y_fit_ = systems[0].X, Y * self._units()
        self._keep_weights(weights, amplitude)
        shared = len(systems) == 1
        self.noise_ = float(noise[0]) if shared else noise
        self.amplitude_ = float(amplitude[0]) if shared else amplitude
        self.kernel_ = systems[0].kernel
        systems = tuple(system.lighter() for system in systems)
        posterior = Posterior(systems, weights, {}, self.tol, **others)
        self._posterior = replace(posterior, readouts=self._learn_readouts(posterior, Y))

    def _keep_weights(self, weights: Array, amplitude: Array) -> None:
        """Keep the weights of standardised targets, and what users see of them."""
        self._standard_weights = weights
        self.dual_coef_ = self._weights_of_users(weights, amplitude)
        with np.errstate(over="ignore"):
            predicting = weights * self._units()
        if not (np.all(np.isfinite(self.dual_coef_)) and np.all(np.isfinite(predicting))):
            raise ValueError("The weights overflow. Scale y down, or noise and amplitude up.")

    def _weights_of_users(self, weights: Array, amplitude: Array | float) -> Array:
        """Return the weights alpha of eq. 2 from those of standardised targets."""
        with np.errstate(over="ignore"):
            in_units: Array = weights * (self._units() / amplitude)
        return in_units

    # ---- rows that come and go ---------------------------------------------------------------

    def _fit_further(
        self,
        X: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None,
        declared: ArrayLike | None = None,
    ) -> Self:
        """Add rows, the first of which are a fit."""
        if weighs_nothing(sample_weight, X):
            return self
        with replaced_whole(self) as draft:
            first = not self.__sklearn_is_fitted__()
            rows = draft._read_rows(X, y, sample_weight, reset=first)
            (draft._learn if first else draft._add)(rows, declared)
        return self

    def _add(self, rows: TrainingRows, declared: ArrayLike | None = None) -> None:
        """Add checked rows, equal ones as one."""
        updates.add(self, rows)

    @_fit_context(prefer_skip_nested_validation=True)
    def forget(self, indices: ArrayLike) -> Self:
        """Remove training rows; on an error nothing changes.

        The hyper-parameters stay. Predictions equal those of a fit to the other rows with the same
        hyper-parameters, to the tolerance of the solver. A class without rows is removed, unless it
        was in `classes` of `partial_fit`. The calibration is learned again when it is next needed.

        Parameters
        ----------
        {indices}

        {self}

        Raises
        ------
        ValueError
            If there is no such row, or one is named twice; if no row would be left, or rows of one
            class only.

        Examples
        --------
        >>> from histrs.gaussian_process import IntersectionGPRegressor
        >>> model = IntersectionGPRegressor(optimizer=None)
        >>> model = model.fit([[1.0], [2.0], [3.0]], [1.0, 99.0, 3.0])
        >>> model.forget([1]).predict([[2.0]]).round(1)
        array([2.])
        """
        check_is_fitted(self)
        with replaced_whole(self) as draft:
            removed = rows_to_forget(indices, draft._n_given())
            if len(removed) > 0:
                draft._remove(removed)
        return self

    def _n_given(self) -> int:
        """Return the number of rows that were given."""
        return len(self._given.learned)

    def _remove(self, removed: Indices) -> None:
        """Remove some of the rows that were given: of equal ones, the others stay."""
        updates.remove(self, removed)

    # ---- the posterior is made of the fitted arrays, and never pickled -------------------------

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the objects of the core, and weights once."""
        left_out = ("_posterior", "dual_coef_")
        return {k: v for k, v in super().__getstate__().items() if k not in left_out}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Set the state, and what follows from it."""
        super().__setstate__(state)
        if "_standard_weights" in state:
            self.dual_coef_ = self._weights_of_users(self._standard_weights, self.amplitude_)

    def _state(self) -> dict[str, Any]:
        """Return what was learned, which a fit in another thread replaces whole."""
        check_is_fitted(self)
        state = self.__dict__
        if "_posterior" not in state:
            state["_posterior"] = self._posterior_of(state)
        return state

    def _answering(self) -> dict[str, Any]:
        """Return what was learned, with all that predictions are made of."""
        return self._state()

    def _hyperparameters(self, state: dict[str, Any]) -> Hyperparameters:
        """Return the hyper-parameters of a fit."""
        noise, amplitude = (np.atleast_1d(state[name]) for name in ("noise_", "amplitude_"))
        return Hyperparameters(noise, amplitude, state["kernel_"])

    def _systems_of(self, state: dict[str, Any]) -> tuple[System, ...]:
        """Return the systems of a fit, of which nothing is solved yet."""
        values, weights = self._hyperparameters(state), state.get("sample_weight_fit_")
        problem = self._problem(state["X_fit_"], state["Y_fit_"], weights)
        bound = problem.bind(values.kernel)
        return tuple(problem.system(bound, scales) for scales in values.scales())

    def _posterior_of(self, state: dict[str, Any]) -> Posterior:
        """Return the posterior that is made of the fitted attributes."""
        systems, weights = self._systems_of(state), state["_standard_weights"]
        found = Posterior(systems, weights, self._readouts(state), self.tol)
        modes: Modes | None = state.get("_modes")
        if modes is None:
            return found
        systems = modes.systems(systems[0].with_row_scale(None))
        return replace(found, systems=systems, of_bias=modes.of_bias)

    def __sklearn_is_fitted__(self) -> bool:
        """Say whether `fit` has been called."""
        return hasattr(self, "dual_coef_")

    # ---- means and variances -----------------------------------------------------------------

    def _read(self, state: dict[str, Any], name: str, X: Any) -> Array:
        """Return a readout of the posterior mean, from a table where there are bins."""
        posterior: Posterior = state["_posterior"]
        asked, bins = self._asked, self._asked.bins
        asked.check_bins(posterior.system.kernel)
        return posterior.read(name, X, asked.n_threads, bins.n_bins, bins.interpolation)

    def _latent_variance(self, state: dict[str, Any], X: Any) -> Array:
        """Return the posterior variance of latent functions of standardised targets."""
        posterior: Posterior = state["_posterior"]
        asked, (name, n_eigenvectors) = self._asked, self._asked.variance
        asked.check_variance(posterior.system.kernel)
        return posterior.latent_variance(X, name, asked.bins.n_bins, n_eigenvectors)

    @in_precision_of_rows
    @of_each_pattern
    def latent_mean_and_variance(self, X: ArrayLike | Matrix) -> tuple[Array, Array]:
        """Return mean and variance of the latent functions, without the noise.

        Parameters
        ----------
        {rows}

        Returns
        -------
        mean : ndarray of shape (n_samples,) or (n_samples, n_outputs)
            Eq. 2 of Rodner et al. (2016): the prediction of a regressor, or a classifier's
            functions before calibration.
        variance : ndarray of the same shape
            Eq. 3 without the noise variance; for classes, one for all outputs unless each has its
            own hyper-parameters. Infinity where double precision cannot hold it.
        """
        X, state = self._check_test(X), self._state()
        # Scores name bad entries of `X`.
        mean = self._shaped(self._read(state, "mean", X))
        std = self._spread(state, np.sqrt(self._latent_variance(state, X)))
        # In the unit of huge targets it may be beyond double precision.
        with np.errstate(over="ignore"):
            return mean, np.square(std)

    @property
    def std_error_(self) -> float:
        """Mean relative error of the standard deviations of ``variance="cached"``.

        It is measured on training rows, each predicted exactly by a fit without it. It is 0 if all
        standard deviations are exact. If outputs do not share their hyper-parameters or their
        missing targets, it is the largest of their errors.
        """
        if (patterns := Patterns.of(self)) is not None:
            return float(max(fit.std_error_ for fit in patterns.fits()))
        posterior: Posterior = self._state()["_posterior"]
        return posterior.std_error(self._asked.variance[0])

    # ---- the likelihood ----------------------------------------------------------------------

    log_marginal_likelihood = log_marginal_likelihood

    def _likelihood_of_fit(self, state: dict[str, Any]) -> BaseLikelihood:
        """Return the likelihood of the training targets."""
        if self._latent is not None:
            base = state["_posterior"].system.with_row_scale(None)
            on_rows = base.bound.as_matrix().with_kernel
            return self._latent.evidence(
                base, state["Y_fit_"], state["sample_weight_fit_"], on_rows
            )
        Y = state["Y_fit_"] / self._units()
        weights = telling(state["sample_weight_fit_"], state["_stays"])
        problem = self._problem(state["X_fit_"], Y - self._level_of_regression(Y), weights)
        bound: Bound = state["_posterior"].bound
        likelihood: BaseLikelihood = problem.likelihood(bound.as_matrix().reweighted(weights))
        return likelihood

    # ---- functions of features, and of pairs -------------------------------------------------

    @property
    @of_each_pattern
    def intercept_(self) -> Array:
        """The prediction without the contributions of features and pairs."""
        posterior: Posterior = self._state()["_posterior"]
        if not isinstance(posterior.system.kernel, GeneralizedKernel | LevelKernel):
            raise AttributeError(f"{posterior.system.kernel!r} has no intercept_.")
        return np.broadcast_to(posterior.intercept("mean"), posterior.weights.shape[1:]).copy()

    @property
    @of_each_pattern
    def quantization_error_bound_(self) -> Array:
        """A certified bound of the error of numbers from the look-up table of `n_bins` cells."""
        bins = self._asked.bins
        if bins.n_bins is None or not self.__sklearn_is_fitted__():
            raise AttributeError(
                "quantization_error_bound_ needs a fit with n_bins; predictions are exact without "
                "n_bins."
            )
        posterior: Posterior = self._answering()["_posterior"]
        return posterior.score(self._predicted, bins.n_bins, bins.interpolation).error_bound()

    explain = functions.explain
    shape_functions = functions.shape_functions
    pair_functions = functions.pair_functions
    export_tables = export_tables
    save = save

    def __sklearn_tags__(self) -> Tags:
        """Return what scikit-learn may expect of the estimator."""
        tags, takes = super().__sklearn_tags__(), _doors.takes_of(self, reset=True)
        inputs = tags.input_tags
        inputs.sparse = inputs.positive_only = takes == "histograms"
        inputs.three_d_array = takes == "covariances"
        return tags


def _report(progress: SolverProgress, left: Array, part: slice, residual: Array) -> None:
    """Show how far some outputs are, beside the others."""
    left[part] = residual
    progress(left)
