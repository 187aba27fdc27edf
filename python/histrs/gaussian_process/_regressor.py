"""Gaussian process regression with any kernel."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any, ClassVar, Literal, Self, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri
from sklearn.base import RegressorMixin, _fit_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags
from sklearn.utils._param_validation import StrOptions

from histrs._calibration import Readout
from histrs._checks.validation import check_random_state
from histrs._distributed.rows import in_memory
from histrs._estimator import documented
from histrs._solvers.preconditioners import Indices
from histrs._typing import Array, Matrix
from histrs._weights import check_weights, over_unit
from histrs.gaussian_process import _doors
from histrs.gaussian_process._bound.base import Bound
from histrs.gaussian_process._docs import GAUSSIAN_PROCESS, REGRESSION_FIT, REGRESSION_GP, UPDATES
from histrs.gaussian_process._kernels.algebra import Constant
from histrs.gaussian_process._learning.hyperparameters import (
    Bounds,
    Hyperparameters,
    checked_scales,
)
from histrs.gaussian_process._learning.learner import Learner
from histrs.gaussian_process._learning.leave_one_out import leave_one_out
from histrs.gaussian_process._likelihoods.classes import Modes
from histrs.gaussian_process._likelihoods.patterns import (
    APART,
    Patterns,
    TrainingRows,
    add_rows,
    centred,
    filled,
    missing_targets,
    over,
    patterns_of,
    score_of_table,
    spread_of_one,
    spreads,
    with_targets,
)
from histrs.gaussian_process._likelihoods.rates import (
    RATES,
    LatentRates,
    as_rates,
    multiplier,
    refuse_rates,
)
from histrs.gaussian_process._options import (
    Bins,
    Fine,
    OptimizerOption,
    Solver,
    SolverName,
    VarianceName,
)
from histrs.gaussian_process._posterior.posterior import Posterior
from histrs.gaussian_process._precision import Answer, in_precision_of_rows, is_single
from histrs.gaussian_process._process import GaussianProcess, of_each_pattern
from histrs.gaussian_process._state import copied, replaced_whole
from histrs.gaussian_process._systems.system import System

# How often hyper-parameters of rates are learned from the regression at a mode.
_ROUNDS = 3
_TOL_OF_ROUNDS = 1e-2
# Fitted attributes whose last axis is that of the targets.
_OF_TARGETS = (
    *("y_mean_", "y_std_", "noise_", "amplitude_", "n_iter_", "residual_"),
    *("Y_fit_", "_Y_given", "_standard_weights", "dual_coef_"),
)


@documented(GAUSSIAN_PROCESS, REGRESSION_FIT, REGRESSION_GP, UPDATES)
class GPRegressor(RegressorMixin, GaussianProcess):
    r"""Gaussian process regressor with any kernel.

    The standardised target has the covariance
    :math:`\mathrm{amplitude}\; k(x, x') + \mathrm{noise}\,[x = x']`. Inference is exact.

    Parameters
    ----------
    kernel : Kernel, str or None, default=None
        An expression of :mod:`histrs.gaussian_process.kernels`, a scikit-learn kernel, or a name.
        An additive kernel is a sum over columns, such as `Intersection`. A constant factor is the
        amplitude where the search starts. None is ``Radial()``.
    {parameters}

    Attributes
    ----------
    kernel_ : Kernel
        The kernel of the fit, without its constant factor.
    noise_, amplitude_ : float, or ndarray of shape (n_outputs,)
        Variances of the fit, for targets of variance 1.
    theta_ : ndarray of shape (n_hyperparameters,)
        Logarithms of noise, amplitude and the kernel's free parameters.
    optimization_history_ : dict of ndarray
        Hyper-parameters tried, and their likelihoods.
    X_fit_, Y_fit_, sample_weight_fit_ : ndarray
        Distinct training rows, their centred targets, their weights (None if all are 1).
    y_mean_, y_std_ : ndarray of shape (n_targets,)
        Mean and standard deviation of each target; for "poisson" and "gamma", log mean and 1.
    dual_coef_, residual_, n_iter_ : ndarray
        Coefficients of rows; residual and iterations of each output.
    std_error_ : float
        Mean relative error of standard deviations on training rows; 0 if exact.
    pattern_fits_, pattern_targets_, pattern_rows_ : list
        For each pattern of missing values of `y`: an estimator, its targets, its rows.
    {n_features_in_}
    {feature_names_in_}

    See Also
    --------
    GPClassifier : The same for class labels.
    IntersectionGPRegressor : Additive functions, in time linear in the rows.
    TabularGPRegressor : For tables with categories.

    Examples
    --------
    >>> import numpy as np
    >>> from histrs.gaussian_process import GPRegressor
    >>> from histrs.gaussian_process.kernels import Linear, Radial
    >>> X = np.linspace(-3.0, 3.0, 100)[:, None]
    >>> model = GPRegressor(Radial() + Linear()).fit(X, X[:, 0] + np.sin(X[:, 0]))
    >>> mean, std = model.predict([[1.0]], return_std=True)
    >>> bool(abs(mean[0] - 1.0 - np.sin(1.0)) < 3 * std[0])
    True
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **GaussianProcess._parameter_constraints,
        "likelihood": [StrOptions({"gaussian", *RATES})],
    }
    _predicted: ClassVar[Literal["mean", "decision"]] = "mean"
    _targets_are_single = False
    _single_target: bool
    _Y_given: Array
    y_mean_: Array
    y_std_: Array
    pattern_fits_: list[Self]

    def __init__(
        self,
        kernel: Any = None,
        *,
        noise: float | ArrayLike = 0.1,
        noise_bounds: Bounds = (1e-6, 1e12),
        optimizer: OptimizerOption = "auto",
        solver: SolverName | Solver = "auto",
        tol: float = 1e-4,
        variance: VarianceName | Fine = "auto",
        n_bins: int | Bins | None = None,
        random_state: int | np.random.RandomState | None = None,
        likelihood: Literal["gaussian", "poisson", "gamma"] = "gaussian",
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.kernel = kernel
        self.noise = noise
        self.noise_bounds = noise_bounds
        self.optimizer = optimizer
        self.solver = solver
        self.tol = tol
        self.variance = variance
        self.n_bins = n_bins
        self.random_state = random_state
        self.likelihood = likelihood
        self.n_jobs = n_jobs
        self.verbose = verbose

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(
        self,
        X: ArrayLike | Matrix,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        exposure: ArrayLike | None = None,
        offset: ArrayLike | None = None,
    ) -> Self:
        """Fit the model; on an error nothing changes.

        Parameters
        ----------
        {rows}
        {y}
        {sample_weight}
        {exposure}

        {self}

        Raises
        ------
        ValueError
            If the kernel does not accept an entry of `X`, which the message names, or lengths
            differ. If a target is missing in every row, or the likelihood does not accept one. If a
            weight is negative or not finite, or all are 0.
        """
        with replaced_whole(self) as draft:
            y, weights = as_rates(self.likelihood, y, sample_weight, exposure, offset)
            draft._learn(draft._read_rows(X, y, weights, reset=True))
        return self

    # ---- targets, and rows that come and go ----------------------------------------------------

    def _read_rows(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None, *, reset: bool
    ) -> TrainingRows:
        self._targets_are_single = is_single(y) and (reset or self._targets_are_single)
        checks = {"reset": reset, "multi_output": True, "y_numeric": True}
        y, sample_weight = in_memory(y), in_memory(sample_weight)
        missing = missing_targets(y)
        y = filled(y, missing)
        checked = _doors.rows_to_fit(self, X, y, **checks)
        given = with_targets(check_weights(sample_weight, checked[1]), missing)
        rows, y = self._rows_with_weight(given, (X, y), checked, **checks)
        Y = np.array(y, dtype=np.float64, order="C")
        if missing is not None:
            Y[given.rows(missing)[0]] = np.nan
        return TrainingRows(rows, Y, given.weights, *given.rows(X))

    def _learn(self, rows: TrainingRows, declared: ArrayLike | None = None) -> None:
        Y = rows.Y.reshape(len(rows.Y), -1)
        patterns = patterns_of(Y)
        if len(patterns) > 1:
            Patterns.fit(self, rows._replace(Y=Y), patterns)
            return
        Patterns.forget_all(self)
        self._single_target = rows.Y.ndim == 1
        super()._learn(rows._replace(Y=Y))

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(
        self,
        X: ArrayLike | Matrix,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        exposure: ArrayLike | None = None,
        offset: ArrayLike | None = None,
    ) -> Self:
        """Add rows; on an error nothing changes.

        The first call on an estimator without data is `fit`, hyper-parameters included. Later calls
        keep the hyper-parameters. Predictions equal those of a fit on all rows with the same
        hyper-parameters, to the tolerance of the solver. Sorted columns, factors and
        preconditioners are carried over.

        Parameters
        ----------
        {rows}
        {y}
        {further_weights}
        {exposure}

        {self}

        Raises
        ------
        ValueError
            As `fit`, or if there are other columns or another number of targets than before.

        Examples
        --------
        >>> import numpy as np
        >>> from histrs.gaussian_process import IntersectionGPRegressor
        >>> X = np.random.default_rng(0).random((600, 3))
        >>> y = np.sin(6 * X[:, 0]) + X[:, 1] ** 2
        >>> model = IntersectionGPRegressor(noise=0.01, optimizer=None).fit(X[:100], y[:100])
        >>> before = model.score(X[500:], y[500:])
        >>> model.partial_fit(X[100:500], y[100:500]).score(X[500:], y[500:]) > before
        True
        """
        y, sample_weight = as_rates(self.likelihood, y, sample_weight, exposure, offset)
        return self._fit_further(X, y, sample_weight)

    def _add(self, rows: TrainingRows, declared: ArrayLike | None = None) -> None:
        n_rows, n_targets = self.Y_fit_.shape
        apart = Patterns.of(self) is not None
        # Targets with patterns are a table.
        shape = () if not apart and self._single_target else (n_targets,)
        if rows.Y.shape[1:] != shape:
            raise ValueError(
                f"y has shape {rows.Y.shape}, and targets of earlier calls {(n_rows, *shape)}: "
                "give as many targets per row as before."
            )
        rows = rows._replace(Y=rows.Y.reshape(len(rows.Y), -1))
        if apart or len(patterns_of(rows.Y)) > 1:
            add_rows(self, rows, self._n_given(), n_targets)
        else:
            super()._add(rows)

    def _remove(self, removed: Indices) -> None:
        if (patterns := Patterns.of(self)) is not None:
            patterns.forget(removed, len(self.Y_fit_))
        else:
            super()._remove(removed)

    def _n_given(self) -> int:
        return len(self.Y_fit_) if Patterns.of(self) is not None else super()._n_given()

    def _targets_given(self) -> Array:
        return self._Y_given

    def _weigh(self, weights: Array | None, y: NDArray[Any]) -> None:
        latent = self._latent
        if latent is None:
            super()._weigh(weights, y)
            return
        mean, self.sample_weight_fit_, self._weight_unit = latent.unit_of(y[:, 0], weights)
        self.y_mean_, self.y_std_ = np.log([mean]), np.ones(1)

    def _standardised(
        self, targets: NDArray[Any], start: Array | None
    ) -> tuple[Array, Array | None]:
        if self._latent is not None:
            self._Y_given = targets.copy()
            return targets / np.exp(self.y_mean_), start
        units = spreads(targets, self.sample_weight_fit_)
        if start is not None:
            # Only targets that had one value so far have the unit of all rows.
            constant = self.y_std_ == spread_of_one(self.y_mean_)
            units = np.where(constant, units, self.y_std_)
        # Adding the means to what is left would give nearly the targets.
        self._Y_given, self.y_std_ = targets.copy(), units
        self.y_mean_, less_means = centred(targets, self.sample_weight_fit_)
        return over(less_means, units), start

    def _units(self) -> Array:
        return self.y_std_

    def _readouts(self, state: dict[str, Any]) -> dict[str, Readout]:
        modes: Modes | None = state.get("_modes")
        level = state["y_mean_"] + (0.0 if modes is None else modes.bias)
        return {"mean": Readout(np.diag(state["y_std_"]), level)}

    # ---- rates that follow a latent function ---------------------------------------------------

    @property
    def _latent(self) -> LatentRates | None:
        name = self.likelihood
        return None if name == "gaussian" else LatentRates(name, self.tol)

    @property
    def _least_noise(self) -> float:
        return 0.0 if self._latent is None else self._latent.least_dispersion

    @property
    def _merges_rows(self) -> bool:
        return self._latent is None

    def _learned(
        self, X: Any, Y: Array, weights: Array | None, learner: Learner
    ) -> tuple[Hyperparameters, Bound]:
        latent = self._latent
        if latent is None:
            return super()._learned(X, Y, weights, learner)
        like, start = latent.started(Y, self.sample_weight_fit_), None
        loosely = replace(latent, tol=max(self.tol, _TOL_OF_ROUNDS))
        nothing_to_learn = self._asked.keeps_hyperparameters or np.ptp(Y) == 0.0
        for _ in range(0 if nothing_to_learn else _ROUNDS):
            with warnings.catch_warnings():
                # The last search says what it lacks.
                warnings.simplefilter("ignore", ConvergenceWarning)
                values, bound = super()._learned(X, like.centred, like.weights, learner)
            system = self._problem(X, Y, None).system(bound.reweighted(None), values.scales()[0])
            (mode,) = loosely.modes(system, Y, self.sample_weight_fit_, start)
            like, start = latent.at_mode(mode), mode.weights[:, None]
        return super()._learned(X, like.centred, like.weights, learner)

    def _systems_to_solve(self, systems: list[System], Y: Array) -> list[System]:
        if self._latent is None:
            return systems
        return [systems[0].with_row_scale(None)]

    # ---- targets that miss different rows: a fit for each pattern ------------------------------

    def _check_patterns(self, n_targets: int) -> None:
        if self._asked.search.shared:
            raise ValueError(
                "Targets are missing in different rows, and so cannot share noise and amplitude: "
                "leave shared of a LikelihoodSearch at None."
            )
        checked_scales(n_targets, **self._asked.scales)

    def _parameters_of(self, targets: Indices, n_targets: int) -> dict[str, Any]:
        parameters: dict[str, Any] = self.get_params(deep=False)
        if np.shape(self.noise) == (n_targets,):
            parameters["noise"] = np.asarray(self.noise)[targets]
        scale = self._asked.scale
        if np.shape(scale.value) == (n_targets,):
            of_targets = Constant(np.asarray(scale.value)[targets], scale.value_bounds)
            parameters["kernel"] = of_targets * self._asked.kernel
        return parameters

    def _of_targets(self, targets: Indices) -> Self:
        state = self._state()
        posterior: Posterior = state["_posterior"]
        part = copied(self)
        learned = part.__dict__
        learned.pop("optimization_history_", None)
        learned |= self._parameters_of(targets, self.Y_fit_.shape[1])
        for name in _OF_TARGETS:
            if np.ndim(state.get(name, 0.0)) > 0:
                learned[name] = np.ascontiguousarray(state[name][..., targets])
        for name in ("noise_", "amplitude_"):
            if np.shape(learned[name]) == (1,):
                learned[name] = float(learned[name][0])
        part._posterior = posterior.of_outputs(targets, part._readouts(learned))
        values = part._hyperparameters(learned)
        part.theta_ = part._learner().space(values).pack(values)
        return part

    def _state(self) -> dict[str, Any]:
        if Patterns.of(self) is not None:
            raise ValueError(APART)
        return super()._state()

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Set the state, and what follows from it."""
        super().__setstate__(state)
        if (patterns := Patterns.of(self)) is not None:
            patterns.gather()

    # ---- answers -------------------------------------------------------------------------------

    def score(
        self,
        X: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        exposure: ArrayLike | None = None,
        offset: ArrayLike | None = None,
    ) -> float:
        """Return R^2, the mean over targets; targets that are NaN do not count.

        With another likelihood than "gaussian", it is the explained fraction of the deviance.
        """
        y, sample_weight = as_rates(self.likelihood, y, sample_weight, exposure, offset)
        if self._latent is not None:
            return self._latent.score(self.predict(X), y, sample_weight)
        if missing_targets(y) is None:
            return float(super().score(X, y, sample_weight))
        return score_of_table(self.predict(X), y, sample_weight)

    @overload
    def predict(
        self,
        X: ArrayLike | Matrix,
        return_std: Literal[False] = False,
        return_cov: Literal[False] = False,
        return_quantiles: None = None,
        *,
        exposure: ArrayLike | None = None,
        offset: ArrayLike | None = None,
    ) -> NDArray[Any]: ...
    @overload
    def predict(
        self,
        X: ArrayLike | Matrix,
        return_std: Literal[True],
        *,
        exposure: ArrayLike | None = None,
        offset: ArrayLike | None = None,
    ) -> tuple[NDArray[Any], NDArray[Any]]: ...
    @overload
    def predict(
        self, X: ArrayLike | Matrix, *, return_cov: Literal[True], offset: ArrayLike | None = None
    ) -> tuple[NDArray[Any], NDArray[Any]]: ...
    @overload
    def predict(
        self,
        X: ArrayLike | Matrix,
        *,
        return_quantiles: ArrayLike,
        exposure: ArrayLike | None = None,
        offset: ArrayLike | None = None,
    ) -> tuple[NDArray[Any], NDArray[Any]]: ...
    @overload
    def predict(
        self,
        X: ArrayLike | Matrix,
        return_std: bool = False,
        return_cov: bool = False,
        return_quantiles: ArrayLike | None = None,
        *,
        exposure: ArrayLike | None = None,
        offset: ArrayLike | None = None,
    ) -> Answer: ...
    @in_precision_of_rows
    @of_each_pattern
    def predict(
        self,
        X: ArrayLike | Matrix,
        return_std: bool = False,
        return_cov: bool = False,
        return_quantiles: ArrayLike | None = None,
        *,
        exposure: ArrayLike | None = None,
        offset: ArrayLike | None = None,
    ) -> Answer:
        """Predict targets, and on request how uncertain they are.

        Parameters
        ----------
        {rows}
        return_std : bool, default=False
            Whether to return the predictive standard deviation too, computed as the parameter
            `variance` says.
        return_cov : bool, default=False
            Whether to return the predictive covariance of the rows too, exactly, which takes a
            solve for every row.
        return_quantiles : array-like of shape (n_quantiles,), default=None
            Probabilities, between 0 and 1, whose quantiles to return too. They use the standard
            deviations of `return_std`.
        {exposure}

        Returns
        -------
        mean : ndarray of shape (n_samples,) or (n_samples, n_targets)
            The posterior mean (eq. 2 of Rodner et al., 2016), plus the mean of the targets. With
            another likelihood, the mean of a target at the posterior mode.
        std : ndarray of the same shape
            Only with `return_std`: square root of eq. 3 of that paper, noise included. With another
            likelihood, the standard deviation of a target.
        covariance : ndarray of shape (n_samples, n_samples) or (n_samples, n_samples, n_targets)
            Only with `return_cov`: noise included, on the diagonal.
        quantiles : ndarray of shape (n_samples, n_quantiles) or (n_samples, n_quantiles, n_targets)
            Only with `return_quantiles`.

        Raises
        ------
        ValueError
            If more than one of `return_std`, `return_cov` and `return_quantiles` is given, or a
            probability is not between 0 and 1.
        """
        if return_std + return_cov + (return_quantiles is not None) > 1:
            raise ValueError(
                "Ask for one of return_std, return_cov and return_quantiles at a time."
            )
        only_mean = not (return_std or return_cov) and return_quantiles is None
        if return_cov:
            refuse_rates(self, "return_cov")
        X = self._check_rows_of_means(X) if only_mean else self._check_test(X)
        state = self._state()
        mean = self._means(self._shaped(self._read(state, "mean", X)), exposure, offset)
        if return_cov:
            covariance = np.moveaxis(_standard_covariance(state, X), 0, 2)
            # In the unit of huge targets it may be beyond double precision.
            with np.errstate(over="ignore"):
                in_units: Array = covariance * state["y_std_"] * state["y_std_"]
            return mean, in_units[:, :, 0] if self._single_target else in_units
        if only_mean:
            return mean
        latent = self._latent
        if latent is None:
            std = self._spread(state, np.sqrt(self._predictive_variance(state, X)))
        else:
            std = latent.std(mean, state["noise_"], self._latent_variance(state, X)[:, 0])
        if return_std:
            return mean, std
        probabilities = np.atleast_1d(np.asarray(return_quantiles, dtype=np.float64))
        if probabilities.ndim != 1 or not np.all((probabilities > 0) & (probabilities < 1)):
            raise ValueError(
                f"return_quantiles = {return_quantiles!r}: give probabilities between 0 and 1."
            )
        if latent is not None:
            return mean, latent.quantiles(probabilities, mean, std)
        z = ndtri(probabilities).reshape(-1, *[1] * (mean.ndim - 1))
        return mean, mean[:, None] + z * std[:, None]

    def _means(self, scores: Array, exposure: ArrayLike | None, offset: ArrayLike | None) -> Array:
        """Return means of targets of rows, of their latent functions or of what offsets leave."""
        if self._latent is None and exposure is None and offset is None:
            return scores
        of_rows = multiplier(self.likelihood, len(scores), exposure, offset)
        if self._latent is None:
            return scores + of_rows.reshape(-1, *[1] * (scores.ndim - 1))
        return np.exp(scores) * of_rows

    @in_precision_of_rows
    def sample_y(
        self,
        X: ArrayLike | Matrix,
        n_samples: int = 1,
        random_state: int | np.random.RandomState | None = 0,
    ) -> Array:
        """Draw targets of rows from the posterior, noise included.

        Parameters
        ----------
        {rows}
        n_samples : int, default=1
            Number of draws.
        random_state : int, RandomState instance or None, default=0
            Generator of the draws.

        Returns
        -------
        samples : ndarray of shape (n_rows, n_samples) or (n_rows, n_targets, n_samples)
            Joint draws: each column is one draw of the targets of all rows.
        """
        refuse_rates(self, "sample_y")
        random = check_random_state(random_state)
        if (patterns := Patterns.of(self)) is not None:
            # One generator for all, whose draws differ from fit to fit.
            drawn: Array = patterns.ask(lambda fit: fit.sample_y(X, n_samples, random), 1)
            return drawn
        X, state = self._check_test(X), self._state()
        means, units = self._read(state, "mean", X), state["y_std_"]
        covariance = _standard_covariance(state, X)
        samples = np.empty((*means.shape, n_samples))
        for k, column in enumerate(means.T):
            # One system may serve all targets.
            values, vectors = np.linalg.eigh(covariance[min(k, len(covariance) - 1)])
            root = vectors * np.sqrt(np.maximum(values, 0.0))
            deviations = root @ random.standard_normal((len(root), n_samples))
            samples[:, k] = column[:, None] + deviations * units[k]
        return samples[:, 0] if self._single_target else samples

    @in_precision_of_rows
    def predict_leave_one_out(self) -> tuple[Array, Array]:
        """Predict every training row of positive weight by a fit without this row.

        Returns
        -------
        mean : ndarray of the shape of the targets
            Means (Rasmussen and Williams, 2006, eq. 5.12). All rows determine the hyper-parameters,
            the mean of the targets and their unit. Rows with equal columns and targets are left out
            together. NaN where a target is missing.
        std : ndarray of the same shape
            Predictive standard deviations, noise included, which is larger for a row of small
            weight.

        Raises
        ------
        ValueError
            If the system was not factorised: choose ``solver="cholesky"``. If the likelihood is
            not "gaussian".
        """
        refuse_rates(self, "predict_leave_one_out")
        if (patterns := Patterns.of(self)) is not None:
            found = np.full((2, *self.Y_fit_.shape), np.nan)
            for fit, indices in zip(patterns.fits(), patterns.indices(), strict=True):
                for answer, of_fit in zip(found, fit.predict_leave_one_out(), strict=True):
                    answer[indices] = of_fit
            return found[0], found[1]
        state = self._state()
        posterior: Posterior = state["_posterior"]
        if not posterior.is_factorised:
            raise ValueError(
                "Leave-one-out in closed form needs a Cholesky factor, for which there are too "
                'many rows here: fit with solver="cholesky", or use cross_val_predict.'
            )
        mean, variance = leave_one_out(
            posterior, state["Y_fit_"] / state["y_std_"], state["_stays"]
        )
        mean = mean * state["y_std_"] + state["y_mean_"]
        learned, own = state["_given"]
        mean, variance = (of_rows[learned] for of_rows in (mean, variance))
        # One of several equal rows has its own noise alone.
        if (weights := state["sample_weight_fit_"]) is not None:
            own = over_unit(own, state["_weight_unit"])
            variance += (1.0 / own - 1.0 / weights[learned])[:, None] * posterior.noise
        return self._shaped(mean), self._spread(state, np.sqrt(variance))

    @of_each_pattern
    def std_bounds(self, X: ArrayLike | Matrix, rtol: float = 0.01) -> tuple[Array, Array]:
        r"""Return certified lower and upper bounds of the predictive standard deviation.

        They do not depend on the parameter `variance`. With any approximate solution :math:`b` of
        :math:`A b = k_x`, :math:`A = K + s I`, and its residual :math:`r`,

        .. math:: 0 \le k_x^T A^{-1} k_x - (k_x^T b + b^T r) = r^T A^{-1} r \le r^T r / s,

        and systems are solved until the bounds are close enough. If the matrix is factorised, the
        bounds are equal up to rounding.

        Parameters
        ----------
        {rows}
        rtol : float, default=0.01
            Largest difference of the bounds, as a fraction of the lower one. If the solver does not
            reach it in `max_iter` iterations, it warns; the bounds are further apart, but still
            hold.

        Returns
        -------
        lower, upper : ndarray of shape (n_samples,) or (n_samples, n_targets)
            Bounds of the standard deviation that `predict` returns with exact variances. They
            include the noise, and allow for rounding.

        Raises
        ------
        ValueError
            If `rtol` is not positive. If the likelihood is not "gaussian".
        """
        refuse_rates(self, "std_bounds")
        if not rtol > 0.0:
            raise ValueError(f"rtol = {rtol!r}: give a positive number.")
        X, state = self._check_test(X), self._state()
        posterior: Posterior = state["_posterior"]
        lower, upper = posterior.variance_bounds(X, rtol)
        return (
            self._spread(state, np.sqrt(lower + posterior.noise)),
            self._spread(state, np.sqrt(upper + posterior.noise)),
        )

    def _shaped(self, mean: Array) -> Array:
        return mean[:, 0] if self._single_target else mean

    def _spread(self, state: dict[str, Any], std: Array) -> Array:
        # In the unit of huge targets it may be beyond double precision.
        with np.errstate(over="ignore"):
            in_unit: Array = std * state["y_std_"]
        return self._shaped(in_unit)

    def __sklearn_tags__(self) -> Tags:
        """Return what scikit-learn may expect of the estimator."""
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


def _standard_covariance(state: dict[str, Any], X: Matrix) -> Array:
    """Return predictive covariances of standardised targets, (n_systems, n_rows, n_rows)."""
    posterior: Posterior = state["_posterior"]
    covariance = posterior.latent_covariance(X)
    rows = np.arange(X.shape[0])
    covariance[:, rows, rows] += posterior.noise[:, None]
    return covariance
