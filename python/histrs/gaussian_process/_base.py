"""What the classifier and the regressor share."""

import warnings
from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, get_args, overload

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags, check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import threadpool_limits

from histrs import _histrs
from histrs._progress import SearchProgress, SolverProgress
from histrs._solvers.block_cg import Array
from histrs._validation import (
    HISTOGRAM_CHECKS,
    Matrix,
    canonical,
    count_threads,
    to_core,
    validate_data,
)
from histrs.gaussian_process._hyperparameters import (
    NAMES,
    Bounds,
    Hyperparameters,
    SearchSpace,
    check_bounds,
    given_hyperparameters,
)
from histrs.gaussian_process._kernel import GeneralizedKernel, TransformName
from histrs.gaussian_process._likelihood import Likelihood, LogDetName
from histrs.gaussian_process._optimizer import OptimizerName, Search
from histrs.gaussian_process._score import ExactScore, Score, TabulatedScore
from histrs.gaussian_process._shape_functions import (
    ShapeFunction,
    rows_of_one_feature,
    training_values,
)
from histrs.gaussian_process._system import KernelSystem, PreconditionerName, SolverName
from histrs.gaussian_process._variance import (
    DEFAULT_BINS,
    CoarseVariance,
    FineVariance,
    VarianceName,
)

_MANY_ROWS = 4096


class BaseIntersectionGP(BaseEstimator):
    """Exact Gaussian process regression of one or more targets on shared inputs."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "noise": [Interval(Real, 0, None, closed="neither")],
        "amplitude": [Interval(Real, 0, None, closed="neither")],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "preconditioner": [StrOptions({"auto", "knots", "pivoted-cholesky"}), None],
        "n_bins": [Interval(Integral, 2, 65535, closed="both"), None],
        "interpolation": [StrOptions({"linear", "nearest"})],
        "solver": [StrOptions(set(get_args(SolverName)))],
        "feature_transform": [StrOptions({"identity", "power", "exponential"})],
        "exponent": [Interval(Real, 0, None, closed="neither")],
        "feature_weights": [StrOptions({"ard"}), "array-like", None],
        "optimizer": [StrOptions({"l-bfgs-b", "nelder-mead"}), None],
        "log_det": [StrOptions({"lanczos", "bound"})],
        "variance": [StrOptions({"exact", "fine", "coarse", "coarse-quantized"})],
        "n_eigenvectors": [Interval(Integral, 1, None, closed="left")],
        **{f"{name}_bounds": [StrOptions({"fixed"}), "array-like"] for name in NAMES},
        "n_restarts_optimizer": [Interval(Integral, 0, None, closed="left")],
        "random_state": ["random_state"],
        "warm_start": ["boolean"],
        "n_jobs": [Integral, None],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        *,
        noise: float = 0.1,
        amplitude: float = 1.0,
        tol: float = 1e-4,
        max_iter: int = 1000,
        preconditioner: PreconditionerName = "auto",
        n_bins: int | None = None,
        interpolation: Literal["linear", "nearest"] = "linear",
        solver: SolverName = "auto",
        feature_transform: TransformName = "identity",
        exponent: float = 1.0,
        feature_weights: Literal["ard"] | ArrayLike | None = None,
        optimizer: OptimizerName | None = "l-bfgs-b",
        log_det: LogDetName = "lanczos",
        noise_bounds: Bounds = (1e-6, 1e12),
        amplitude_bounds: Bounds = (1e-12, 1e12),
        exponent_bounds: Bounds = (0.05, 20.0),
        feature_weights_bounds: Bounds = (1e-6, 1e6),
        n_restarts_optimizer: int = 0,
        variance: VarianceName = "exact",
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
        self.optimizer = optimizer
        self.log_det = log_det
        self.noise_bounds = noise_bounds
        self.amplitude_bounds = amplitude_bounds
        self.exponent_bounds = exponent_bounds
        self.feature_weights_bounds = feature_weights_bounds
        self.n_restarts_optimizer = n_restarts_optimizer
        self.variance = variance
        self.n_eigenvectors = n_eigenvectors
        self.random_state = random_state
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _fit_targets(self, X: Matrix, Y: Array) -> None:
        """Solve for the weights of targets `Y` of shape (n_samples, n_outputs)."""
        weights = self._warm_start_weights(Y.shape)
        self.X_fit_, self.Y_fit_ = X, Y
        self._cache: dict[tuple[Any, ...], Any] = {}
        # Sorting refuses data of a shape that nothing else here could hold.
        self._base_columns()
        self._set_hyperparameters(
            given_hyperparameters(
                noise=self.noise,
                amplitude=self.amplitude,
                transform=self.feature_transform,
                exponent=self.exponent,
                feature_weights=self.feature_weights,
                n_features=self.n_features_in_,
            )
        )
        self._seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        self._system().check()
        self._learn_hyperparameters()
        self._solve_targets(Y, weights)

    def _solve_targets(self, Y: Array, weights: Array | None) -> None:
        """Solve under these hyper-parameters, from `weights`, which count the amplitude in."""
        system = self._system()
        system.check()
        # Targets of any scale are solved at scale 1.
        scale = np.max(np.abs(Y), axis=0, initial=0.0)
        # Targets of 0 have weights of 0, and tolerance for nothing else.
        start = None if weights is None else weights * (scale > 0.0)
        scale[scale == 0.0] = 1.0
        tol = np.full(Y.shape[1], float(self.tol))
        if start is not None:
            start /= scale
        with SolverProgress(type(self).__name__, tol, self.verbose) as progress:
            solution = system.solve(Y / scale, tol, start, progress)
        with np.errstate(over="ignore"):
            self.dual_coef_ = solution.X * (scale / self.amplitude_)
        if not np.all(np.isfinite(self.dual_coef_)):
            raise ValueError("The weights overflow. Scale y down, or noise and amplitude up.")
        self.residual_ = solution.residual * scale
        self.n_iter_ = solution.n_iter
        if not np.all(solution.residual <= tol):
            worst = int(np.argmax(solution.residual))
            warnings.warn(
                f"{type(self).__name__} stopped after {self.n_iter_.max()} iterations with a "
                f"residual of {self.residual_[worst]:.2e} in output {worst}, above the tolerance "
                f"{self.tol * scale[worst]:.2e}: predictions may be far off. Raise max_iter, tol "
                "or noise, or scale the features down.",
                ConvergenceWarning,
                stacklevel=5,
            )
        if self.n_bins is not None:
            self.quantization_error_bound_ = self._score().error_bound()
        elif hasattr(self, "quantization_error_bound_"):
            del self.quantization_error_bound_

    # ---- rows that come and go ---------------------------------------------------------------

    def _current_system(self) -> KernelSystem:
        """Return the system under what is now set of the solver."""
        system, fresh = self._system(), self._make_system()
        settings = ("n_threads", "solver", "preconditioner_name", "max_iter")
        same = all(getattr(system, name) == getattr(fresh, name) for name in settings)
        return system if same else fresh

    def _change_system(self, system: KernelSystem, Y: Array, weights: Array) -> None:
        """Take over a system of other rows, with its targets and weights to start from."""
        self.X_fit_, self.Y_fit_ = system.X, Y
        self._cache = {("system",): system, ("base_columns",): system.base_columns}
        self._solve_targets(Y, weights)

    # ---- hyper-parameters --------------------------------------------------------------------

    def _set_hyperparameters(self, values: Hyperparameters) -> None:
        kernel = values.kernel
        self.noise_, self.amplitude_ = values.noise, values.amplitude
        self.feature_transform_, self.exponent_ = kernel.transform, kernel.exponent
        ones = np.ones(self.n_features_in_)
        self.feature_weights_ = ones if kernel.weights is None else kernel.weights
        self._cache.pop(("system",), None)

    def _hyperparameters(self) -> Hyperparameters:
        """Return the hyper-parameters of the fit."""
        weights = None if np.all(self.feature_weights_ == 1.0) else self.feature_weights_
        kernel = GeneralizedKernel(self.feature_transform_, self.exponent_, weights)
        return Hyperparameters(self.noise_, self.amplitude_, kernel)

    def _search_space(self) -> SearchSpace:
        """Return the space of the hyper-parameters that are learned, from those of the fit."""
        free = ["noise", "amplitude"]
        start = self._hyperparameters()
        if self.feature_transform != "identity":
            free.append("exponent")
        if isinstance(self.feature_weights, str):
            free.append("feature_weights")
            start = start.with_values({"feature_weights": self.feature_weights_})
        bounds = {name: check_bounds(name, getattr(self, f"{name}_bounds")) for name in free}
        if bounds.get("feature_weights") == "fixed" or (
            "feature_weights" in free and self.optimizer is None
        ):
            raise ValueError(
                "feature_weights='ard' learns them: give an optimizer and feature_weights_bounds."
            )
        return SearchSpace(start, {name: b for name, b in bounds.items() if b != "fixed"})

    def _learn_hyperparameters(self) -> None:
        """Replace the hyper-parameters by those of largest likelihood."""
        self.__dict__.pop("optimization_history_", None)
        space = self._search_space()
        self.theta_ = space.pack(space.start)
        if self.optimizer is None or not space.names:
            return
        space.check_start()
        if self.log_det == "bound" and self.optimizer == "l-bfgs-b":
            raise ValueError("log_det='bound' has no gradient: choose optimizer='nelder-mead'.")
        if not np.any(self.Y_fit_):
            self._warn(
                "The targets are constant, which any hyper-parameters explain: kept as given."
            )
            return
        # On matrices of some thousand rows, BLAS's threads mostly wait for one another.
        n_blas = 1 if len(self.Y_fit_) <= _MANY_ROWS else None
        with (
            SearchProgress(type(self).__name__, self.verbose) as progress,
            threadpool_limits(limits=n_blas, user_api="blas"),
        ):
            search = Search(self._likelihood(), space, self.optimizer, progress)
            best = search.run(self.n_restarts_optimizer, np.random.default_rng(self._seed))
        self.optimization_history_ = search.history.arrays(space.names)
        self._set_hyperparameters(best.values)
        self.theta_ = space.pack(best.values)
        if best.complaint is not None:
            self._warn(
                f"The optimizer stopped early ({best.complaint}); the best hyper-parameters that "
                "it met are kept. Try other starting values, n_restarts_optimizer or a smaller tol."
            )
        ends = space.at_bounds(self.theta_)
        if ends:
            self._warn(
                f"The search ended with {' and '.join(ends)}, which is kept. Widen the bounds if "
                "that is not meant."
            )

    def _warn(self, message: str) -> None:
        warnings.warn(f"{type(self).__name__}: {message}", ConvergenceWarning, stacklevel=6)

    def _likelihood(self) -> Likelihood:
        return Likelihood(
            self._system_with,
            self._base_columns(),
            self.Y_fit_,
            tol=self.tol,
            log_det=self.log_det,
            seed=self._seed,
        )

    @overload
    def log_marginal_likelihood(
        self,
        theta: ArrayLike | None = None,
        eval_gradient: Literal[False] = False,
        *,
        return_std: Literal[False] = False,
    ) -> float: ...
    @overload
    def log_marginal_likelihood(
        self,
        theta: ArrayLike | None = None,
        *,
        eval_gradient: Literal[True],
        return_std: Literal[False] = False,
    ) -> tuple[float, Array]: ...
    @overload
    def log_marginal_likelihood(
        self,
        theta: ArrayLike | None = None,
        eval_gradient: Literal[False] = False,
        *,
        return_std: Literal[True],
    ) -> tuple[float, float]: ...
    def log_marginal_likelihood(
        self,
        theta: ArrayLike | None = None,
        eval_gradient: bool = False,
        *,
        return_std: bool = False,
    ) -> float | tuple[float, Array] | tuple[float, float] | tuple[float, Array, float]:
        r"""Return the log marginal likelihood of the training targets, summed over the outputs.

        The negative of eq. 4, with `A = amplitude K + noise I` and one output a target or class,

        .. math:: -\tfrac12 \sum_c \left( y_c^T A^{-1} y_c + \log\det A + N \log 2\pi \right).

        The log-determinant is as `log_det` says: "lanczos" estimates it by stochastic Lanczos
        quadrature, or computes it from the Cholesky factor where the system is small or `solver`
        is "cholesky"; "bound" puts the bound of eq. 23 in its place, so that the result is a lower
        bound.

        Parameters
        ----------
        theta : array-like, default=None
            Logarithms of the hyper-parameters that are not fixed: noise, amplitude, the exponent
            of a transform, and the feature weights with "ard", in this order. None takes those of
            the fit, `theta_`.
        eval_gradient : bool, default=False
            Whether to return the derivatives by `theta` too. With "lanczos" they are those of the
            estimate itself; the bound has none.
        return_std : bool, default=False
            Whether to return the standard error of the estimate too; 0 where it is exact.

        Returns
        -------
        value : float
            The log marginal likelihood.
        gradient : ndarray of the shape of `theta`
            Only with `eval_gradient`.
        std : float
            Only with `return_std`.

        Raises
        ------
        ValueError
            If `theta` has the wrong length, or `eval_gradient` is asked for with
            ``log_det="bound"``.
        """
        check_is_fitted(self)
        if eval_gradient and self.log_det == "bound":
            raise ValueError("log_det='bound' has no gradient; choose log_det='lanczos'.")
        space = self._search_space()
        values = space.start
        if theta is not None:
            theta = np.asarray(theta, dtype=np.float64)
            if theta.shape != space.pack(values).shape:
                raise ValueError(
                    f"theta has shape {theta.shape}, expected {space.pack(values).shape}: one "
                    f"logarithm for each entry of {', '.join(space.names)}."
                )
            values = space.unpack(theta)
        evaluation = self._likelihood().evaluate(values, space.names if eval_gradient else ())
        if not evaluation.solved:
            warnings.warn(
                f"The solver did not reach tol in {self.max_iter} iterations, and the likelihood "
                "is too large. Raise max_iter, tol or noise.",
                ConvergenceWarning,
                stacklevel=2,
            )
        if not eval_gradient:
            return (evaluation.value, evaluation.std) if return_std else evaluation.value
        gradient = space.pack_values(evaluation.gradient)
        if return_std:
            return evaluation.value, gradient, evaluation.std
        return evaluation.value, gradient

    def _system_with(
        self, values: Hyperparameters, base_columns: _histrs.SortedColumns
    ) -> KernelSystem:
        return KernelSystem(
            X=self.X_fit_,
            noise=values.noise,
            amplitude=values.amplitude,
            n_threads=count_threads(self.n_jobs),
            solver=self.solver,
            preconditioner_name=self.preconditioner,
            max_iter=self.max_iter,
            kernel=values.kernel,
            base_columns=base_columns,
        )

    def _make_system(self) -> KernelSystem:
        return self._system_with(self._hyperparameters(), self._base_columns())

    def _make_base_columns(self) -> _histrs.SortedColumns:
        return _histrs.SortedColumns(to_core(self.X_fit_), count_threads(self.n_jobs))

    def _base_columns(self) -> _histrs.SortedColumns:
        columns: _histrs.SortedColumns = self._cached("base_columns")
        return columns

    def _warm_start_weights(self, shape: tuple[int, ...]) -> Array | None:
        if not self.warm_start or getattr(self, "dual_coef_", np.empty(0)).shape != shape:
            return None
        weights: Array = self.dual_coef_ * self.amplitude_
        return weights

    # ---- what is costly to rebuild is cached beside the fitted arrays and never pickled ------

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the cached objects of the core."""
        return {name: value for name, value in super().__getstate__().items() if name != "_cache"}

    def _cached(self, name: str, *arguments: Any) -> Any:
        """Return an object of the core, made from the fitted arrays when it is not there.

        Threads that predict at once may make it twice, which does no harm.
        """
        cache = self.__dict__.setdefault("_cache", {})
        key = (name, *arguments)
        if key not in cache:
            cache[key] = getattr(self, f"_make_{name}")(*arguments)
        return cache[key]

    def _system(self) -> KernelSystem:
        system: KernelSystem = self._cached("system")
        return system

    def _score(self) -> Score:
        """Return the posterior mean as a score: from a table where there are bins."""
        if self.n_bins is None:
            return self._exact_score()
        score: Score = self._cached("tabulated_score", self.n_bins, self.interpolation)
        return score

    def _make_tabulated_score(
        self, n_bins: int, interpolation: Literal["linear", "nearest"]
    ) -> TabulatedScore:
        system = self._system()
        alpha = self.amplitude_ * self.dual_coef_
        return TabulatedScore(system.columns, alpha, n_bins, interpolation, system.n_threads)

    def _exact_score(self) -> ExactScore:
        score: ExactScore = self._cached("exact_score")
        return score

    def _make_exact_score(self) -> ExactScore:
        system = self._system()
        return ExactScore(system.columns, self.amplitude_ * self.dual_coef_, system.n_threads)

    # ---- prediction --------------------------------------------------------------------------

    def _check_test(self, X: ArrayLike | Matrix) -> Matrix:
        check_is_fitted(self)
        return canonical(validate_data(self, X, reset=False, **HISTOGRAM_CHECKS))

    def _mean(self, X: Matrix) -> Array:
        """Return `amplitude K(X, X_fit) alpha` of shape (n_samples, n_outputs), eq. 2."""
        return self._evaluate(self._score(), X)

    def _evaluate(self, score: Score, X: Matrix) -> Array:
        n_threads = count_threads(self.n_jobs)
        return score.evaluate(self._hyperparameters().kernel.rows(X, n_threads), n_threads)

    def _latent_variance(self, X: Matrix) -> Array:
        """Return the posterior variance of the latent function, which all outputs share."""
        if self.variance == "exact":
            return self._exact_variance(X)
        if self.variance == "fine":
            bound = self._cached("fine_variance", self.n_eigenvectors)
        else:
            n_bins = (self.n_bins or DEFAULT_BINS) if self.variance == "coarse-quantized" else None
            bound = self._cached("coarse_variance", n_bins)
        variance: Array = self.amplitude_ * bound.of(X)
        return variance

    def _make_fine_variance(self, n_eigenvectors: int) -> FineVariance:
        return FineVariance(self._system(), n_eigenvectors)

    def _make_coarse_variance(self, n_bins: int | None) -> CoarseVariance:
        return CoarseVariance(self._system(), n_bins)

    def _exact_variance(self, X: Matrix) -> Array:
        variance, solved = self._system().latent_variance(X, self.tol, self.dual_coef_.shape[1])
        if not np.all(solved):
            warnings.warn(
                f"The variance of {np.sum(~solved)} rows did not converge in {self.max_iter} "
                "iterations and is too large there. Raise max_iter, tol or noise.",
                ConvergenceWarning,
                stacklevel=4,
            )
        return self.amplitude_ * variance

    def shape_functions(
        self,
        features: Sequence[int] | None = None,
        *,
        max_knots: int | None = None,
        return_std: bool = False,
    ) -> list[ShapeFunction]:
        r"""Return what each feature adds to the posterior mean.

        The mean is :math:`\sum_d f_d(x(d))`, plus the mean of the targets in a regression, with
        :math:`f_d(t) = \mathrm{amplitude}\, w_d \sum_i \alpha_i \min(g(x_i(d)), g(t))`. Between
        neighbouring training values, `f_d` is linear in `g(t)`, so linear where
        `feature_transform` is "identity"; it is 0 at 0, and constant above the largest training
        value.

        Parameters
        ----------
        features : sequence of int, default=None
            Indices of the features; None takes all.
        max_knots : int or None, default=None
            At most so many of the values of a feature; None takes every one, with which the
            function is exact everywhere.
        return_std : bool, default=False
            Whether to compute the posterior standard deviation of each function too, which takes a
            solve for each knot. It is exact.

        Returns
        -------
        functions : list of ShapeFunction
            Named tuples ``(feature, knots, values, std)``; `std` is None unless it was asked for.
        """
        check_is_fitted(self)
        n_features = self.n_features_in_
        chosen = range(n_features) if features is None else features
        functions = []
        for feature in chosen:
            if not 0 <= feature < n_features:
                raise ValueError(f"feature {feature} is not in 0..{n_features}.")
            knots = training_values(self.X_fit_, feature, max_knots)
            rows = rows_of_one_feature(knots, feature, n_features)
            values = self._evaluate(self._exact_score(), rows)
            values = values[:, 0] if values.shape[1] == 1 else values
            std = np.sqrt(self._latent_variance(rows)) if return_std else None
            functions.append(ShapeFunction(feature, knots, values, std))
        return functions

    def __sklearn_tags__(self) -> Tags:
        """Return what scikit-learn may expect of the estimator."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = True
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        """Say whether `fit` has been called."""
        return hasattr(self, "dual_coef_")
