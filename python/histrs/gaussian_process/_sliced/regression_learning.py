"""How regressors on projections learn: the metric, and the scales of each target."""

from __future__ import annotations

from typing import Any, Literal, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import _fit_context
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from histrs._checks.validation import validate_targets
from histrs._estimator import documented
from histrs._repeats import distinct_rows
from histrs._typing import Array
from histrs._weights import check_weights, weighs_nothing
from histrs.gaussian_process._docs import REGRESSION_FIT, UPDATES
from histrs.gaussian_process._given_rows import GivenRows
from histrs.gaussian_process._kernels.algebra import Constant
from histrs.gaussian_process._kernels.intersection import Intersection
from histrs.gaussian_process._kernels.projected import Projected
from histrs.gaussian_process._likelihoods.patterns import Patterns, add_rows
from histrs.gaussian_process._likelihoods.target_patterns import (
    TrainingRows,
    filled,
    missing_targets,
    patterns_of,
    with_targets,
)
from histrs.gaussian_process._likelihoods.units import standardised
from histrs.gaussian_process._options import Bins, Solver
from histrs.gaussian_process._precision import in_precision_of_rows, is_single
from histrs.gaussian_process._regressor import GPRegressor
from histrs.gaussian_process._row_weights import roots, rows_of, telling
from histrs.gaussian_process._sliced.columns import Columns
from histrs.gaussian_process._sliced.docs import SLICED_FIT
from histrs.gaussian_process._sliced.fitting import (
    EXACT_ROWS,
    INNER_SEED,
    LEARNING_ROWS,
    SEARCHED_ROWS,
)
from histrs.gaussian_process._sliced.learning import SmoothnessName, learn_metric
from histrs.gaussian_process._sliced.metrics import are_collinear, first_metric
from histrs.gaussian_process._sliced.missing_targets import SlicedMissingTargets
from histrs.gaussian_process._sliced.rows import drawn_rows
from histrs.gaussian_process._state import copied, replaced_whole
from histrs.gaussian_process.additive import IntersectionGPRegressor

KernelName: TypeAlias = Literal["auto", "sliced", "splines"]
_SMOOTHNESS: dict[KernelName, SmoothnessName] = {
    "auto": "both",
    "sliced": "linear",
    "splines": "cubic",
}

# Of standardised targets: functions without noise are learned too.
_VARIANCES = (1e-12, 1e12)
# Of targets that are all of one value, which tell none.
_NOISE_OF_CONSTANTS = 0.1


class SlicedRegressionLearning(SlicedMissingTargets):
    """Learns one or more targets on projections of the columns."""

    kernel: KernelName
    _targets_are_single = False

    @_fit_context(prefer_skip_nested_validation=True)
    @documented(REGRESSION_FIT, SLICED_FIT)
    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Learn metric, variances and noise, and fit; when it raises, nothing changes.

        Parameters
        ----------
        {X}
        {y}
        {sample_weight}

        Returns
        -------
        self : object
            The fitted estimator.

        Raises
        ------
        ValueError
            If an entry or a target is infinite, a target is missing in every row, the lengths
            differ, or a weight is negative or not finite, or all are 0.
        """
        with replaced_whole(self) as draft:
            draft._targets_are_single = is_single(y)
            draft._fit_real(draft._weighted(X, y, sample_weight, reset=True))
        return self

    def _fit_real(self, given: TrainingRows) -> None:
        """Fit checked rows, targets and weights."""
        numbers, y, all_weights = given.checked, given.Y, given.weights
        patterns = patterns_of(y.reshape(len(y), -1))
        if len(patterns) > 1:
            Patterns.fit(self, given, patterns)
            return
        Patterns.forget_all(self)
        Y = y.reshape(len(y), -1)
        distinct = distinct_rows(numbers, Y, all_weights)
        Y, y, numbers = distinct.rows(Y, y, numbers)
        all_weights, n_rows = distinct.weights, len(Y)
        columns = Columns(numbers, self._table.sources)
        A = columns.apply(numbers)
        random = self._random()
        rows = drawn_rows(np.arange(n_rows), LEARNING_ROWS, random)
        n_sets = self._n_steps() + 1
        some, stays = rows_of(all_weights, rows), rows_of(distinct.stays, rows)
        # As the inner model will: targets of one value, but for rounding, are 0.
        spread = standardised(Y[rows], some)
        # Those of one value say nothing of the kernel.
        varied = np.any(spread != 0.0, axis=0)
        learned = learn_metric(
            A[rows],
            spread[:, varied] if np.any(varied) else spread[:, :1],
            metrics=self._first_metrics(A[rows], columns.spreads),
            n_directions=self._n_directions(n_rows, n_sets),
            n_steps=self._n_steps(),
            n_interactions=self.n_interactions,
            smoothness=_SMOOTHNESS[self._kernel_to_try(n_rows)],
            n_searched=SEARCHED_ROWS,
            random=random,
            n_threads=self._threads(),
            row_scale=roots(telling(some, stays)),
            stays=stays,
        )
        weights, smooth = learned.weights_and_kinds()
        inside = None if smooth.any() else weights
        T = self._keep_projection(columns, learned, numbers, inside)
        # Few rows do not tell the noise of many.
        optimizer = None if n_rows <= SEARCHED_ROWS else "l-bfgs-b"
        # Signal and noise have the same scale, since weights count what is between them in.
        scale = _scale(learned.fit.noise, varied)
        options: Any = {"noise": scale, "noise_bounds": _VARIANCES, "optimizer": optimizer}
        inner: GPRegressor | IntersectionGPRegressor
        constant = Constant(scale, _VARIANCES)
        if smooth.any():
            most: int | None = LEARNING_ROWS
            inner = GPRegressor(
                constant * Projected(weights, smooth),
                random_state=INNER_SEED,
                solver="cholesky",
                n_jobs=self.n_jobs,
                verbose=self.verbose,
                **options,
            )
        else:
            most = None
            inner = IntersectionGPRegressor(
                constant * Intersection(feature_weights=None, intercept_variance=0.0),
                random_state=INNER_SEED,
                **options,
                **self._inner_parameters(),
            )
        inner = self._with_scales(inner, T, y, random, most, all_weights)
        inner._noise_was_learned = True
        self._inner = inner.fit(T, y, all_weights)
        self._keep_rows(inner, numbers)
        rows_given = GivenRows.of(distinct.groups, given.weights)
        rows_given = rows_given.of_all(given.n_given, given.with_weight)
        inner._given = rows_given.through(inner._given)
        self.noise_ = self._inner.noise_
        self.kernel_ = "both" if learned.others else "splines" if smooth.any() else "sliced"
        self._keep_iterations()

    @_fit_context(prefer_skip_nested_validation=True)
    @documented(UPDATES)
    def partial_fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Add rows; metric, variances and noise stay. The first call is `fit`.

        Parameters
        ----------
        X : {array-like, data frame} of shape (n_samples, n_features)
            Further rows.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Their targets; NaN, in a table of them, where they are missing.
        {further_weights}

        Returns
        -------
        self : object
            The fitted estimator.

        Raises
        ------
        ValueError
            As `fit`, or if there are other columns or another number of targets than before.
        """
        if weighs_nothing(sample_weight, X):
            return self
        if not self.__sklearn_is_fitted__():
            self.fit(X, y, sample_weight)
            return self
        with replaced_whole(self) as draft:
            draft._targets_are_single = self._targets_are_single and is_single(y)
            given = draft._weighted(X, y, sample_weight, reset=False)
            if Patterns.of(draft) is not None:
                draft._add_further(given)
                return self
            inner = draft._inner
            inner._check_shape_as_before(given.Y)
            if len(patterns_of(given.Y.reshape(len(given.Y), -1))) > 1:
                n_rows = int(np.sum(inner._given.learned >= 0))
                add_rows(draft, given, n_rows, inner.Y_fit_.shape[1])
                return self
            of_rows = given.weights, given.n_given, given.with_weight
            draft._inner = draft._inner_with(given.checked, given.Y, *of_rows)
            draft._keep_iterations()
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    @documented(UPDATES)
    def forget(self, indices: ArrayLike) -> Self:
        """Remove rows; metric, variances and noise stay, and when it raises, so does all.

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
            If there is no such row, one is named twice, none would be left, or targets miss
            different rows.

        Examples
        --------
        >>> import numpy as np
        >>> from histrs.gaussian_process import SlicedGPRegressor
        >>> X = np.linspace(0.0, 1.0, 20)[:, None]
        >>> y = X[:, 0] + 9.0 * (np.arange(20) == 7)
        >>> model = SlicedGPRegressor(random_state=0).fit(X, y)
        >>> wrong = np.flatnonzero(np.abs(y - model.predict(X)) > 1.0)
        >>> float(np.abs(model.forget(wrong).predict(X) - X[:, 0]).max()) < 1.0
        True
        """
        check_is_fitted(self)
        with replaced_whole(self) as draft:
            draft._refuse_patterns()
            draft._inner = draft._without(indices)
            draft._keep_iterations()
        return self

    @in_precision_of_rows
    def predict_leave_one_out(self) -> tuple[Array, Array]:
        """Predict every row that was given by the fit without it, in closed form.

        Returns
        -------
        mean : ndarray of the shape of the targets
            Means (Rasmussen and Williams, 2006, eq. 5.12). What was learned of the kernel, the mean
            of the targets and their unit stay those of all rows. Rows that are equal, targets too,
            are left out together; those without weight, or without a target, are NaN.
        std : ndarray of the same shape
            Predictive standard deviations, noise included.

        Raises
        ------
        ValueError
            If the system was not factorised: choose ``solver="cholesky"``. If targets miss
            different rows.
        """
        check_is_fitted(self)
        self._refuse_patterns()
        # A fit in another thread replaces the state whole.
        fitted = copied(self)
        inner = fitted._inner_now(tuple(fitted._inner_parameters()))
        answers: tuple[Array, Array] = inner.predict_leave_one_out()
        return answers

    def _first_metrics(self, A: Array, spreads: Array) -> list[Array]:
        """Return the metrics that are learned from."""
        metrics = [first_metric(self.metric, A, spreads)]
        if self._n_steps() > 0 and are_collinear(A):
            metrics.append(first_metric("whitened", A, spreads))
        return metrics

    def _kernel_to_try(self, n_rows: int) -> KernelName:
        """Return which kernels are tried: smooth ones where their matrix is to be factorised."""
        factorised = (
            Bins.of(self.n_bins).n_bins is None
            and Solver.of(self.solver).name in ("auto", "cholesky")
            and self.variance in ("auto", "exact")
        )
        if self.kernel == "splines" and not factorised:
            raise ValueError(
                "kernel='splines' is solved by a Cholesky factor, with exact standard deviations "
                f"and without tables: n_bins={self.n_bins!r}, solver={self.solver!r} and "
                f"variance={self.variance!r} need kernel='sliced'."
            )
        few = factorised and n_rows <= EXACT_ROWS
        return "sliced" if self.kernel == "auto" and not few else self.kernel

    def _weighted(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None, *, reset: bool
    ) -> TrainingRows:
        """Return the rows that have a weight and a target, as numbers, and their targets."""
        numbers = self._read_table(X, reset=reset)
        missing = missing_targets(y)
        y = filled(y, missing)
        y = validate_targets(self, y, multi_output=True, y_numeric=True)
        check_consistent_length(numbers, y)
        given = with_targets(check_weights(sample_weight, y), missing)
        numbers = self._read_rows(given, X, numbers, reset=reset)
        Y = np.array(given.rows(y)[0], dtype=np.float64)
        if missing is not None:
            Y[given.rows(missing)[0]] = np.nan
        rows = TrainingRows(numbers, Y, given.weights, *given.rows(X))
        return rows._replace(n_given=len(y), with_weight=given.kept)


def _scale(learned: Array, varied: NDArray[np.bool_]) -> Array | float:
    """Return noise variances, by what was learned of the targets that vary."""
    noise = np.full(len(varied), _NOISE_OF_CONSTANTS)
    if np.any(varied):
        found = np.clip(learned, 2.0 * _VARIANCES[0], None)
        noise = np.full(len(varied), np.mean(found))
        noise[varied] = found
    return noise if len(noise) > 1 else float(noise[0])
