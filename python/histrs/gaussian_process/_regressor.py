"""Gaussian process regression with any kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal, Self, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri
from sklearn.base import RegressorMixin, _fit_context
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from histrs._calibration import Readout
from histrs._checks.validation import check_random_state
from histrs._distributed.rows import in_memory
from histrs._estimator import documented
from histrs._solvers.preconditioners import Indices
from histrs._typing import Array, Matrix
from histrs._weights import check_weights, over_unit, weighs_nothing
from histrs.gaussian_process._docs import GAUSSIAN_PROCESS, REGRESSION_FIT, REGRESSION_GP, UPDATES
from histrs.gaussian_process._given_rows import GivenRows
from histrs.gaussian_process._kernels.algebra import Constant
from histrs.gaussian_process._learning.hyperparameters import check_theta, checked_scales
from histrs.gaussian_process._learning.leave_one_out import leave_one_out
from histrs.gaussian_process._likelihoods.patterns import (
    APART,
    Patterns,
    add_rows,
    score_of_table,
)
from histrs.gaussian_process._likelihoods.target_patterns import (
    TrainingRows,
    filled,
    missing_targets,
    patterns_of,
    with_targets,
)
from histrs.gaussian_process._likelihoods.units import centred, over, spread_of_one, spreads
from histrs.gaussian_process._options import LikelihoodSearch
from histrs.gaussian_process._posterior.posterior import Posterior
from histrs.gaussian_process._precision import Answer, in_precision_of_rows, is_single
from histrs.gaussian_process._process import GaussianProcess
from histrs.gaussian_process._state import copied, replaced_whole
from histrs.gaussian_process._systems.rows import left_over, rows_to_forget

# Fitted attributes whose last axis is that of the targets.
_OF_TARGETS = (
    *("y_mean_", "y_std_", "noise_", "amplitude_", "n_iter_", "residual_"),
    *("Y_fit_", "_Y_given", "_standard_weights", "dual_coef_"),
)


@documented(GAUSSIAN_PROCESS, REGRESSION_FIT, REGRESSION_GP, UPDATES)
class GPRegressor(RegressorMixin, GaussianProcess):
    r"""Gaussian process regressor of any kernel.

    The target, its mean subtracted and divided by its standard deviation, has covariance
    :math:`\mathrm{amplitude}\; k(x, x') + \mathrm{noise}\,[x = x']`, exactly. Equal
    rows are one of their weights together.

    Parameters
    ----------
    kernel : Kernel, str or None, default=None
        An expression of :mod:`histrs.gaussian_process.kernels`, one of scikit-learn, or a name. A
        constant factor of it starts the search for the amplitude. None is ``Radial()``.
    {parameters}

    Attributes
    ----------
    kernel_ : Kernel
        The kernel of the fit, without its constant factor.
    noise_, amplitude_ : float, or ndarray of shape (n_outputs,)
        Variances of the fit, of targets of variance 1; arrays where they are not shared.
    theta_ : ndarray of shape (n_hyperparameters,)
        Logarithms of noise, amplitude and the kernel's parameters that are not fixed.
    optimization_history_ : dict of ndarray
        What a search tried and found.
    X_fit_, Y_fit_, sample_weight_fit_ : ndarray
        The training rows, equal ones once; centred targets, NaN where missing; weights, None for 1.
    y_mean_, y_std_ : ndarray of shape (n_targets,)
        Mean of each target, and the unit of its variances.
    dual_coef_, residual_, n_iter_ : ndarray
        Weights of rows (eq. 2); what the solver left of each output at most, and its iterations.
    std_error_ : float
        Mean relative error of standard deviations on training rows; 0 where they are exact.
    pattern_fits_, pattern_targets_, pattern_rows_ : list
        Where targets miss different rows: an estimator for each pattern, its targets and rows.
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
    >>> y = 2.0 * X[:, 0] + np.sin(3.0 * X[:, 0])
    >>> model = GPRegressor(Radial() + Linear()).fit(X, y)
    >>> mean, std = model.predict([[1.0]], return_std=True)
    >>> bool(abs(mean[0] - 2.0 - np.sin(3.0)) < 3 * std[0])
    True
    """

    _predicted: ClassVar[str] = "mean"
    _targets_are_single = False
    _single_target: bool
    _Y_given: Array
    pattern_fits_: list[Self]

    # ---- of each target, or of all -----------------------------------------------------------

    def _check_patterns(self, n_targets: int) -> None:
        if LikelihoodSearch.of(self.optimizer).shared:
            raise ValueError(
                "Targets that miss different rows are fitted apart, each pattern with its own "
                "noise and amplitude: leave shared of a LikelihoodSearch at None."
            )
        checked_scales(n_targets, **self._given_scales())

    def _parameters_of(self, targets: Indices, n_targets: int) -> dict[str, Any]:
        parameters: dict[str, Any] = self.get_params(deep=False)
        if np.shape(self.noise) == (n_targets,):
            parameters["noise"] = np.asarray(self.noise)[targets]
        scale, kernel = self._asked()
        if np.shape(scale.value) == (n_targets,):
            of_targets = np.asarray(scale.value)[targets]
            parameters["kernel"] = Constant(of_targets, scale.value_bounds) * kernel
        return parameters

    # ---- a fit, and rows that come and go -------------------------------------------------------

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(
        self, X: ArrayLike | Matrix, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Fit the model; when it raises, the estimator is as it was.

        Parameters
        ----------
        {rows}
        {y}
        {sample_weight}

        Returns
        -------
        self : object
            The fitted estimator.

        Raises
        ------
        ValueError
            If an entry of `X` is negative, NaN or infinite (the message names it), the lengths
            differ, a target is missing in every row, or a weight is negative or not finite, or all
            are 0.
        """
        with replaced_whole(self) as draft:
            draft._targets_are_single = is_single(y)
            draft._fit_real(draft._weighted(X, y, sample_weight, reset=True))
        return self

    def _fit_real(self, rows: TrainingRows) -> None:
        """Fit checked rows, targets and weights."""
        Y = rows.Y.reshape(len(rows.Y), -1)
        patterns = patterns_of(Y)
        if len(patterns) > 1:
            Patterns.fit(self, rows, patterns)
            return
        Patterns.forget_all(self)
        self._single_target = rows.Y.ndim == 1
        distinct = self._distinct(rows.checked, Y, rows.weights)
        X, Y = distinct.rows(rows.checked, Y)
        self._stays = distinct.stays
        Y = self._standardised(Y, distinct.weights)
        self._fit_targets(self._coordinates(X, distinct.weights, reset=True), Y, shared=False)
        self._given = GivenRows.of(distinct.groups, rows.weights)

    def _weighted(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None, *, reset: bool
    ) -> TrainingRows:
        """Return the rows that have a weight and a target, their targets, and weights."""
        checks = {"reset": reset, "multi_output": True, "y_numeric": True}
        y, sample_weight = in_memory(y), in_memory(sample_weight)
        missing = missing_targets(y)
        y = filled(y, missing)
        checked = self._rows_to_fit(X, y, **checks)
        given = with_targets(check_weights(sample_weight, checked[1]), missing)
        rows, y = self._rows_with_weight(given, (X, y), checked, **checks)
        Y = np.array(y, dtype=np.float64, order="C")
        if missing is not None:
            Y[given.rows(missing)[0]] = np.nan
        return TrainingRows(rows, Y, given.weights, *given.rows(X))

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(
        self, X: ArrayLike | Matrix, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Add rows; when it raises, the estimator is as it was.

        The first call on an estimator without data is `fit`, hyper-parameters included. Later
        calls keep the hyper-parameters, and predict what a fit on all rows with these would, to the
        tolerance of the solver. They merge the sorted columns, carry the Cholesky factor or the
        preconditioner over, and start from the weights that there are.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Histograms: non-negative, finite. They come behind the rows of earlier calls.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Targets; NaN, in a table of them, where they are missing.
        {further_weights}

        Returns
        -------
        self : object
            The fitted estimator.

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
        if weighs_nothing(sample_weight, X):
            return self
        with replaced_whole(self) as draft:
            first = not self.__sklearn_is_fitted__()
            draft._targets_are_single = is_single(y) and (first or self._targets_are_single)
            rows = draft._weighted(X, y, sample_weight, reset=first)
            if first:
                draft._fit_real(rows)
                return self
            draft._check_shape_as_before(rows.Y)
            Y = rows.Y.reshape(len(rows.Y), -1)
            if Patterns.of(draft) is not None or len(patterns_of(Y)) > 1:
                add_rows(draft, rows, draft._n_given(), Y.shape[1])
                return self
            draft._insert_given(rows.checked, Y, rows.weights)
        return self

    def _insert(self, X: Any, y: Array, weights: Array | None) -> None:
        start = self._standard_weights
        start = np.vstack([start, np.zeros((len(y), start.shape[1]))])
        weights = self._keep_further_weights(weights, len(y))
        Y = np.vstack([self._Y_given, y])
        systems = self._systems_with(X, Y.shape[1], weights)
        self._take_units_of_constants(Y)
        self._solve_targets(systems, self._in_unit_of_fit(Y), start)

    @_fit_context(prefer_skip_nested_validation=True)
    def forget(self, indices: ArrayLike) -> Self:
        """Remove training rows; when it raises, the estimator is as it was.

        The hyper-parameters stay, and predictions are what a fit on the other rows with these
        would give, to the tolerance of the solver.

        Parameters
        ----------
        {indices}

        Returns
        -------
        self : object
            The fitted estimator.

        Raises
        ------
        ValueError
            If there is no such row, one is named twice, or none would be left.

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
            if len(removed) == 0:
                return self
            if (patterns := Patterns.of(draft)) is not None:
                patterns.forget(removed, len(draft.Y_fit_))
                return self
            draft._remove_given(removed)
        return self

    def _remove(self, removed: Indices) -> None:
        kept = left_over(len(self.Y_fit_), removed)
        Y = self._Y_given[kept]
        weights = self._standard_weights[kept]
        self._keep_weights_of(kept)
        systems = self._systems_without(removed, Y.shape[1])
        self._solve_targets(systems, self._in_unit_of_fit(Y), weights)

    def _targets_given(self) -> Array:
        return self._Y_given

    def _n_given(self) -> int:
        """Return the number of rows that were given."""
        return len(self.Y_fit_) if Patterns.of(self) is not None else len(self._given.learned)

    def _standardised(self, Y: Array, weights: Array | None = None) -> Array:
        """Take the weights of rows and the unit of the targets; return them in it, centred."""
        self._keep_first_weights(weights)
        self.y_std_ = spreads(Y, self.sample_weight_fit_)
        return self._in_unit_of_fit(Y)

    def _take_units_of_constants(self, Y: Array) -> None:
        """Take the units of targets, of these rows too, that had one value so far."""
        constant = self.y_std_ == spread_of_one(self.y_mean_)
        if np.any(constant):
            self.y_std_ = np.where(constant, spreads(Y, self.sample_weight_fit_), self.y_std_)

    def _in_unit_of_fit(self, Y: Array) -> Array:
        """Keep the targets and their means; return what is left, in the unit of the first fit."""
        # Adding the means to what is left would give nearly the targets.
        self._Y_given = Y.copy()
        self.y_mean_, less_means = centred(Y, self.sample_weight_fit_)
        return over(less_means, self.y_std_)

    def _units(self) -> Array:
        units: Array = self.y_std_
        return units

    def _readouts(self, state: dict[str, Any]) -> dict[str, Readout]:
        return {"mean": Readout(np.diag(state["y_std_"]), state["y_mean_"])}

    def _check_shape_as_before(self, Y: Array) -> None:
        """Refuse another number of targets than that of earlier calls."""
        n_rows, n_targets = self.Y_fit_.shape
        # Targets with patterns are a table.
        single = Patterns.of(self) is None and self._single_target
        shape = () if single else (n_targets,)
        if Y.shape[1:] != shape:
            raise ValueError(
                f"y has shape {Y.shape}, and targets of earlier calls {(n_rows, *shape)}: "
                "give as many targets per row as before."
            )

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

    def _refuse_patterns(self) -> None:
        """Fail where there is no one model that could answer."""
        if Patterns.of(self) is not None:
            raise ValueError(APART)

    def _state(self) -> dict[str, Any]:
        self._refuse_patterns()
        return super()._state()

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Set the state, and what follows from it."""
        super().__setstate__(state)
        if (patterns := Patterns.of(self)) is not None:
            patterns.gather()

    def _evaluated(self, theta: ArrayLike | None, *, slope: bool) -> tuple[float, Array, float]:
        patterns = Patterns.of(self)
        if patterns is None:
            return super()._evaluated(theta, slope=slope)
        fits = patterns.fits()
        ends = np.cumsum([len(fit.theta_) for fit in fits])
        thetas: Sequence[Array | None] = [None] * len(fits)
        if theta is not None:
            theta = check_theta(theta, len(self.theta_), "those of each of `pattern_fits_`")
            thetas = np.split(theta, ends[:-1])
        parts = [fit._evaluated(each, slope=slope) for fit, each in zip(fits, thetas, strict=True)]
        values, gradients, stds = zip(*parts, strict=True)
        return sum(values), np.concatenate(gradients), sum(stds)

    # ---- of each fit, where targets miss different rows ----------------------------------------

    def _std_error(self) -> float:
        patterns = Patterns.of(self)
        if patterns is None:
            return super()._std_error()
        return float(max(fit.std_error_ for fit in patterns.fits()))

    def _intercept(self) -> Array:
        patterns = Patterns.of(self)
        if patterns is None:
            return super()._intercept()
        intercepts: Array = patterns.ask(lambda fit: fit.intercept_)
        return intercepts

    def _quantization_error_bound(self) -> Array:
        patterns = Patterns.of(self)
        if patterns is None:
            return super()._quantization_error_bound()
        bound: Array = patterns.ask(lambda fit: fit.quantization_error_bound_)
        return bound

    def score(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return the coefficient of determination, mean over the targets.

        Parameters
        ----------
        X : array-like
            Rows.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Their targets. In a table, those that are NaN do not count.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows.

        Returns
        -------
        score : float
            1 at best; 0 for the means of `y`.

        Raises
        ------
        ValueError
            If a target is NaN in every row, or there is not one for each prediction.
        """
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
    ) -> NDArray[Any]: ...
    @overload
    def predict(
        self, X: ArrayLike | Matrix, return_std: Literal[True]
    ) -> tuple[NDArray[Any], NDArray[Any]]: ...
    @overload
    def predict(
        self, X: ArrayLike | Matrix, *, return_cov: Literal[True]
    ) -> tuple[NDArray[Any], NDArray[Any]]: ...
    @overload
    def predict(
        self, X: ArrayLike | Matrix, *, return_quantiles: ArrayLike
    ) -> tuple[NDArray[Any], NDArray[Any]]: ...
    @overload
    def predict(
        self,
        X: ArrayLike | Matrix,
        return_std: bool = False,
        return_cov: bool = False,
        return_quantiles: ArrayLike | None = None,
    ) -> Answer: ...
    @in_precision_of_rows
    def predict(
        self,
        X: ArrayLike | Matrix,
        return_std: bool = False,
        return_cov: bool = False,
        return_quantiles: ArrayLike | None = None,
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
            Probabilities, between 0 and 1, whose quantiles to return too; their standard
            deviations are those of `return_std`.

        Returns
        -------
        mean : ndarray of shape (n_samples,) or (n_samples, n_targets)
            Eq. 2, plus the mean of the targets.
        std : ndarray of the same shape
            Only with `return_std`: square root of eq. 3, noise included.
        covariance : ndarray of shape (n_samples, n_samples) or (n_samples, n_samples, n_targets)
            Only with `return_cov`: noise included, on the diagonal.
        quantiles : ndarray of shape (n_samples, n_quantiles) or (n_samples, n_quantiles, n_targets)
            Only with `return_quantiles`.

        Raises
        ------
        ValueError
            If more than one of these is asked for, or a probability is not between 0 and 1.
        """
        if return_std + return_cov + (return_quantiles is not None) > 1:
            raise ValueError(
                "Ask for one of return_std, return_cov and return_quantiles at a time."
            )
        if (patterns := Patterns.of(self)) is not None:
            answer: Answer = patterns.ask(
                lambda fit: fit.predict(X, return_std, return_cov, return_quantiles)
            )
            return answer
        only_mean = not (return_std or return_cov) and return_quantiles is None
        X = self._check_rows_of_means(X) if only_mean else self._check_test(X)
        state = self._state()
        mean = self._shaped(self._read(state, "mean", X))
        if return_cov:
            return mean, self._covariance(state, X)
        if only_mean:
            return mean
        variance = self._latent_variance(state, X) + state["_posterior"].noise
        std = self._spread(state, np.sqrt(variance))
        if return_std:
            return mean, std
        probabilities = np.atleast_1d(np.asarray(return_quantiles, dtype=np.float64))
        if probabilities.ndim != 1 or not np.all((probabilities > 0) & (probabilities < 1)):
            raise ValueError(
                f"return_quantiles = {return_quantiles!r}: give probabilities between 0 and 1."
            )
        z = ndtri(probabilities).reshape(-1, *[1] * (mean.ndim - 1))
        return mean, mean[:, None] + z * std[:, None]

    def _covariance(self, state: dict[str, Any], X: Matrix) -> Array:
        covariance = np.moveaxis(_standard_covariance(state, X), 0, 2)
        # In the unit of huge targets it may be beyond double precision.
        with np.errstate(over="ignore"):
            in_units: Array = covariance * state["y_std_"] * state["y_std_"]
        return in_units[:, :, 0] if self._single_target else in_units

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
            Draws them.

        Returns
        -------
        samples : ndarray of shape (n_rows, n_samples) or (n_rows, n_targets, n_samples)
            Joint draws: a column is one for all rows.
        """
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
        """Predict every row of positive weight that was given by the fit without it.

        Returns
        -------
        mean : ndarray of the shape of the targets
            Means (Rasmussen and Williams, 2006, eq. 5.12). The hyper-parameters, the mean of the
            targets and their unit stay those of all rows. Rows that are equal, targets too, are
            left out together. NaN where a target is missing.
        std : ndarray of the same shape
            Predictive standard deviations, noise included, that of a row of little weight being
            larger.

        Raises
        ------
        ValueError
            If the system was not factorised: choose ``solver="cholesky"``.
        """
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

    @in_precision_of_rows
    def latent_mean_and_variance(self, X: ArrayLike | Matrix) -> tuple[Array, Array]:
        """Return mean and variance of the latent function, without the noise.

        Parameters
        ----------
        {rows}

        Returns
        -------
        mean : ndarray of shape (n_samples,) or (n_samples, n_targets)
            As `predict`.
        variance : ndarray of the same shape
            Eq. 3 without the noise variance; infinity where double precision cannot hold it.
        """
        if (patterns := Patterns.of(self)) is not None:
            latent: tuple[Array, Array] = patterns.ask(lambda fit: fit.latent_mean_and_variance(X))
            return latent
        X, state = self._check_test(X), self._state()
        mean = self._shaped(self._read(state, "mean", X))
        std = self._spread(state, np.sqrt(self._latent_variance(state, X)))
        # In the unit of huge targets it may be beyond double precision.
        with np.errstate(over="ignore"):
            variance: Array = np.square(std)
        return mean, variance

    def std_bounds(self, X: ArrayLike | Matrix, rtol: float = 0.01) -> tuple[Array, Array]:
        r"""Return two numbers that the predictive standard deviation is certainly between.

        Whatever `variance` is. With any approximate solution :math:`b` of :math:`A b = k_x`,
        :math:`A = K + s I`, and its residual :math:`r`,

        .. math:: 0 \le k_x^T A^{-1} k_x - (k_x^T b + b^T r) = r^T A^{-1} r \le r^T r / s,

        and systems are solved until that is little enough. Where a stored matrix is factorised, the
        bounds are equal, or differ by rounding.

        Parameters
        ----------
        {rows}
        rtol : float, default=0.01
            How far apart they may be, as part of the lower one. Where that is not reached in
            `max_iter` iterations of the solver, they are further apart, with a warning, and hold
            all the same.

        Returns
        -------
        lower, upper : ndarray of shape (n_samples,) or (n_samples, n_targets)
            Bounds of what `predict` gives with `return_std` and exact variances, noise included,
            rounding counted in.

        Raises
        ------
        ValueError
            If `rtol` is not positive.
        """
        if not rtol > 0.0:
            raise ValueError(f"rtol = {rtol!r}: give a positive number.")
        if (patterns := Patterns.of(self)) is not None:
            bounds: tuple[Array, Array] = patterns.ask(lambda fit: fit.std_bounds(X, rtol))
            return bounds
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
