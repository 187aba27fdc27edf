"""How a Gaussian process learns targets that are numbers: in their units, row by row or at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import _fit_context
from sklearn.utils.validation import check_is_fitted

from histrs._calibration import Readout
from histrs._dask import in_memory
from histrs._docs import documented
from histrs._row_weights import check_weights, in_units_of_mean, weighs_nothing
from histrs._solvers.block_cg import Array
from histrs._solvers.preconditioners import Indices
from histrs._validation import Matrix
from histrs.gaussian_process._docs import REGRESSION_FIT
from histrs.gaussian_process._given_rows import GivenRows
from histrs.gaussian_process._hyperparameters import checked_scales
from histrs.gaussian_process._kernels.algebra import Constant
from histrs.gaussian_process._likeliest import check_theta
from histrs.gaussian_process._missing import MissingTargets
from histrs.gaussian_process._online import left_over, rows_to_forget
from histrs.gaussian_process._options import LikelihoodSearch
from histrs.gaussian_process._precision import is_single
from histrs.gaussian_process._process import AnyPosterior, GaussianProcess
from histrs.gaussian_process._state import copied, replaced_whole
from histrs.gaussian_process._target_patterns import (
    TrainingRows,
    filled,
    missing_targets,
    patterns_of,
    with_targets,
)

# Part of the largest target that its spread must exceed to be one.
_ROUNDING = 1e-14
# Fitted attributes whose last axis is that of the targets.
_OF_TARGETS = (
    *("y_mean_", "y_std_", "noise_", "amplitude_", "n_iter_", "residual_"),
    *("Y_fit_", "_Y_given", "_standard_weights", "dual_coef_"),
)
_OVERFLOW = "The sum or the spread of y overflows. Scale y down."


class RegressionLearning(MissingTargets, GaussianProcess):
    """Learns one or more targets, each standardised by its own mean and spread."""

    pattern_fits_: list[Self]
    _targets_are_single = False

    # ---- of each target, or of all -----------------------------------------------------------

    def _check_patterns(self, n_targets: int) -> None:
        if LikelihoodSearch.of(self.optimizer).shared:
            raise ValueError(
                "Targets that miss different rows are fitted apart, each pattern with its own "
                "noise and amplitude: leave shared of a LikelihoodSearch at None."
            )
        checked_scales(n_targets, **self._given_scales())

    def _parameters_of(self, targets: Indices, n_targets: int) -> dict[str, Any]:
        parameters = super()._parameters_of(targets, n_targets)
        if np.shape(self.noise) == (n_targets,):
            parameters["noise"] = np.asarray(self.noise)[targets]
        scale, kernel = self._asked()
        if np.shape(scale.value) == (n_targets,):
            of_targets = np.asarray(scale.value)[targets]
            parameters["kernel"] = Constant(of_targets, scale.value_bounds) * kernel
        return parameters

    # ---- rows --------------------------------------------------------------------------------

    @_fit_context(prefer_skip_nested_validation=True)
    @documented(REGRESSION_FIT)
    def fit(
        self, X: ArrayLike | Matrix, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Fit the model; when it raises, the estimator is as it was.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Histograms: non-negative, finite.
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
            self._fit_patterns(rows, patterns)
            return
        self._forget_patterns()
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
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows, as those of the fit were; 1 by default.

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
            if draft._has_patterns() or len(patterns_of(Y)) > 1:
                draft._add_to_patterns(rows, draft._n_given(), Y.shape[1])
                return self
            draft._insert_given(rows.checked, Y, rows.weights)
        return self

    def _insert(self, X: Any, y: Array, weights: Array | None) -> None:
        start = self._weights()
        start = np.vstack([start, np.zeros((len(y), start.shape[1]))])
        row_scale = self._keep_further_weights(weights, len(y))
        Y = np.vstack([self._Y_given, y])
        systems = self._systems_with(X, Y.shape[1], row_scale)
        self._take_units_of_constants(Y)
        self._solve_targets(systems, self._in_unit_of_fit(Y), start)

    @_fit_context(prefer_skip_nested_validation=True)
    def forget(self, indices: ArrayLike) -> Self:
        """Remove training rows; when it raises, the estimator is as it was.

        The hyper-parameters stay, and predictions are what a fit on the other rows with these
        would give, to the tolerance of the solver.

        Parameters
        ----------
        indices : array-like of int
            Which of the rows of positive weight that `fit` and `partial_fit` were given, counted
            from 0, each once. Those behind them move up.

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
            if draft._has_patterns():
                draft._forget_of_patterns(removed)
                return self
            draft._remove_given(removed)
        return self

    def _remove(self, removed: Indices) -> None:
        kept = left_over(len(self.Y_fit_), removed)
        Y = self._Y_given[kept]
        weights = self._weights()[kept]
        self._keep_weights_of(kept)
        systems = self._systems_without(removed, Y.shape[1])
        self._solve_targets(systems, self._in_unit_of_fit(Y), weights)

    def _targets_given(self) -> Array:
        return self._Y_given

    def _n_given(self) -> int:
        """Return the number of rows that were given."""
        return len(self.Y_fit_) if self._has_patterns() else len(self._given.learned)

    def _standardised(self, Y: Array, weights: Array | None = None) -> Array:
        """Take the weights of rows and the unit of the targets; return them in it, centred."""
        self._keep_first_weights(weights)
        self.y_std_ = _units(Y, self.sample_weight_fit_)
        return self._in_unit_of_fit(Y)

    def _take_units_of_constants(self, Y: Array) -> None:
        """Take the units of targets, of these rows too, that had one value so far."""
        constant = self.y_std_ == _rounding(self.y_mean_)
        if np.any(constant):
            self.y_std_ = np.where(constant, _units(Y, self.sample_weight_fit_), self.y_std_)

    def _in_unit_of_fit(self, Y: Array) -> Array:
        """Keep the targets and their means; return what is left, in the unit of the first fit."""
        # Adding the means to what is left would give nearly the targets.
        self._Y_given = Y.copy()
        self.y_mean_, centred = _centred(Y, self.sample_weight_fit_)
        return _over(centred, self.y_std_)

    def _units(self) -> Array:
        units: Array = self.y_std_
        return units

    def _learn_readouts(self, posterior: AnyPosterior, Y: Array) -> dict[str, Readout]:
        return self._readouts(self.__dict__)

    def _readouts(self, state: dict[str, Any]) -> dict[str, Readout]:
        return {"mean": Readout(np.diag(state["y_std_"]), state["y_mean_"])}

    def _check_shape_as_before(self, Y: Array) -> None:
        """Refuse another number of targets than that of earlier calls."""
        n_rows, n_targets = self.Y_fit_.shape
        # Targets with patterns are a table.
        single = not self._has_patterns() and self._single_target
        shape = () if single else (n_targets,)
        if Y.shape[1:] != shape:
            raise ValueError(
                f"y has shape {Y.shape}, and targets of earlier calls {(n_rows, *shape)}: "
                "give as many targets per row as before."
            )

    def _of_targets(self, targets: Indices) -> Self:
        state = self._state()
        posterior: AnyPosterior = state["_posterior"]
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
        part.theta_ = part._search_space(values).pack(values)
        return part

    def _make_ready(self) -> None:
        self._state()

    def _state(self) -> dict[str, Any]:
        self._refuse_patterns()
        return super()._state()

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Set the state, and what follows from it."""
        super().__setstate__(state)
        if self._has_patterns():
            self._gather()

    def _evaluated(self, theta: ArrayLike | None, *, slope: bool) -> tuple[float, Array, float]:
        if not self._has_patterns():
            return super()._evaluated(theta, slope=slope)
        fits = self._fits_now()
        ends = np.cumsum([len(fit.theta_) for fit in fits])
        thetas: Sequence[Array | None] = [None] * len(fits)
        if theta is not None:
            theta = check_theta(theta, len(self.theta_), "those of each of `pattern_fits_`")
            thetas = np.split(theta, ends[:-1])
        parts = [fit._evaluated(each, slope=slope) for fit, each in zip(fits, thetas, strict=True)]
        values, gradients, stds = zip(*parts, strict=True)
        return sum(values), np.concatenate(gradients), sum(stds)


def _units(Y: Array, weights: Array | None) -> Array:
    """Return the standard deviations of targets; of one value, what rounding leaves of it."""
    means, centred = _centred(Y, weights)
    largest = np.max(np.abs(centred), axis=0, initial=0.0)
    constant = largest == 0.0
    largest[constant] = 1.0
    squares = np.average((centred / largest) ** 2, axis=0, weights=weights)
    return np.where(constant, _rounding(means), largest * np.sqrt(squares))


def _rounding(values: Array) -> Array:
    """Return the spread of targets of these values that is none."""
    return np.maximum(_ROUNDING * np.abs(values), np.finfo(np.float64).tiny)


def standardised(Y: Array, weights: Array | None) -> Array:
    """Return targets less their means and over their spreads, as those of a fit are."""
    weights, _ = in_units_of_mean(weights)
    return _over(_centred(Y, weights)[1], _units(Y, weights))


def _over(centred: Array, units: Array) -> Array:
    with np.errstate(over="ignore"):
        centred /= units
    if not np.all(np.isfinite(centred)):
        raise ValueError(_OVERFLOW)
    return centred


def _centred(Y: Array, weights: Array | None) -> tuple[Array, Array]:
    """Return the means, and the targets less these: 0 for targets of one value, up to rounding."""
    with np.errstate(over="ignore", invalid="ignore"):
        means = np.average(Y, axis=0, weights=weights)
        centred = Y - means
        largest = np.max(np.abs(centred), axis=0, initial=0.0)
    if not np.all(np.isfinite(largest)):
        raise ValueError(_OVERFLOW)
    constant = largest <= _ROUNDING * np.max(np.abs(Y), axis=0, initial=0.0)
    means[constant] = Y[0, constant]
    centred[:, constant] = 0.0
    return means, centred
