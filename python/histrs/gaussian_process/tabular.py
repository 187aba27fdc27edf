"""Gaussian processes on tables: blends of a few simple ones, with intervals."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Self, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin, RegressorMixin, _fit_context
from sklearn.utils import Tags
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from histrs._checks.validation import validate_targets
from histrs._estimator import documented
from histrs._progress import StageProgress
from histrs._repeats import DistinctRows, distinct_rows
from histrs._typing import Array
from histrs._weights import (
    ClassWeight,
    RowWeights,
    check_weights,
    checked_labels,
    classes_of,
    in_units_of_mean,
    refuse_balanced,
    times_class_weights,
    weighs_nothing,
)
from histrs.gaussian_process._docs import (
    CLASSIFICATION_FIT,
    CLASSIFICATION_GP,
    GAUSSIAN_PROCESS,
    REGRESSION_FIT,
    UPDATES,
)
from histrs.gaussian_process._likelihoods.patterns import (
    filled,
    missing_targets,
    patterns_of,
    refuse_empty,
    score_of_table,
    with_targets,
)
from histrs.gaussian_process._precision import Answer, in_precision_of_rows, is_single
from histrs.gaussian_process._rows import rows_of
from histrs.gaussian_process._state import replaced_whole
from histrs.gaussian_process._tabular.base import BaseTabularGP, Members, averages
from histrs.gaussian_process._tabular.classification import ClassFit
from histrs.gaussian_process._tabular.explanation import Parts, parts_of_classes, parts_of_target
from histrs.gaussian_process._tabular.members import Member, weights_by_name
from histrs.gaussian_process._tabular.regression import RegressionFit
from histrs.gaussian_process._tabular.rows import Reader, TableRows
from histrs.gaussian_process._tabular.transforms import TransformName, named

TABULAR_GP = {
    "members": """
members : "auto" or list of {"even", "levels", "radial", "ranks"}, default="auto"
    The processes that are blended. "auto" takes "even" alone up to 100 rows. With more, it takes
    the other three. "even" joins them up to 1,000 rows, or up to 50 rows per column if that is
    more, but never above 6,000. With more than 1,024 columns, "auto" leaves out "levels".
""",
    "X": """
X : {array-like, data frame} of shape (n_samples, n_features)
    Rows. NaN is a missing value; dates are read as numbers. Other columns of a data frame that are
    not numeric are categories.
""",
}


@documented(GAUSSIAN_PROCESS, REGRESSION_FIT, TABULAR_GP)
class TabularGPRegressor(RegressorMixin, BaseTabularGP):
    r"""Gaussian process regressor for tables: numbers, categories, dates and missing values.

    The prediction is a blend of a few exact Gaussian processes:

    ========= ====================================================================================
    member    covariance
    ========= ====================================================================================
    "levels"  a sum of functions of single columns and of ten pairs, on rounded values
    "radial"  Laplace, Matérn-3/2 and Brownian kernels that share one Euclidean distance
    "ranks"   Laplace kernels that share one L1 distance between ranks
    "even"    linear, Laplace and Brownian kernels, with the same weight for all columns
    ========= ====================================================================================

    In the first three, every column has a weight, and the weights maximise the marginal likelihood.
    With few rows, learned weights overfit. Therefore "even" tries at least 112 kernels, and
    averages over the most likely ones. The distance of two categories is 0 or 1. "radial" projects
    the numeric columns onto eigenvectors of the mean outer product of the prediction's gradients,
    if this lowers the error of left-out rows. Weights of members minimise the squared error of
    leave-one-out predictions, which are in closed form.

    A second regression learns the width of the predictive distribution from squared residuals of
    left-out rows. The shape of a row's distribution comes from residuals of rows with similar
    predictions.

    Parameters
    ----------
    target_transform : {"auto", "identity", "log", "yeo-johnson"}, default="auto"
        The transform of the target. "auto" takes the one with the largest predictive density of
        left-out rows. It does not transform targets whose skewness is between -1 and 1.
    {members}
    random_state : int, RandomState instance or None, default=None
        Draws the subsets of rows that some steps use.
    {n_jobs}
    {verbose}

    Attributes
    ----------
    weights_ : dict or list of dict
        The weight of each member; a list for several targets.
    target_transform_ : str or list of str
        The transform that was taken.
    feature_importances_ : ndarray of shape (n_features,)
        For each feature, the fraction of the variance of the members' functions that it explains.
    {n_features_in_}
    {feature_names_in_}

    See Also
    --------
    TabularGPClassifier : The same for class labels.
    IntersectionGPRegressor : Functions of single columns, in time linear in the rows.

    Notes
    -----
    A row to predict may lack a value in a column that has no missing values in training. The value
    is then taken from several training rows that are near in the other columns, and their spread
    widens the predictive distribution.

    Up to 6,000 rows, systems are factorised. With more, "radial" and "ranks" take at most 65,536
    rows, and store a rounded kernel value of two bytes for each pair of them. "levels" takes all
    rows. At most 4,000 rows are then held out to learn the weights of members. The final fit
    includes these rows.

    Examples
    --------
    >>> import numpy as np
    >>> from histrs.gaussian_process import TabularGPRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-2.0, 2.0, size=(200, 3))
    >>> y = X[:, 0] * X[:, 1] + 0.1 * rng.normal(size=200)
    >>> model = TabularGPRegressor(random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.97)
    True
    >>> low, high = model.predict_interval(X, coverage=0.9).T
    >>> bool(0.8 < np.mean((low < y) & (y < high)) < 1.0)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **BaseTabularGP._parameter_constraints,
        "target_transform": [StrOptions({"auto", "identity", "log", "yeo-johnson"})],
    }
    _fits: list[RegressionFit]
    _fitted = "_fits"
    _single_target: bool

    def __init__(
        self,
        *,
        target_transform: Literal["auto"] | TransformName = "auto",
        members: Members = "auto",
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(members=members, random_state=random_state, n_jobs=n_jobs, verbose=verbose)
        self.target_transform = target_transform

    @_fit_context(prefer_skip_nested_validation=True)
    @documented(REGRESSION_FIT, TABULAR_GP)
    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the model; on an error nothing changes.

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
            differ, a weight is negative or not finite, or all weights are 0.
        """
        with replaced_whole(self) as draft:
            draft._fit(X, y, sample_weight)
        return self

    def _fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None) -> None:
        self._targets_are_single = is_single(y)
        read = self._read(X, reset=True, warns=True)
        given, Y = self._read_targets(read[1], y, sample_weight)
        table, numbers, codes = self._read_kept(given, X, read)
        self._single_target = Y.ndim == 1
        Y = Y.reshape(len(Y), -1)
        refuse_empty(patterns_of(Y))
        self._weight_unit = in_units_of_mean(given.weights)[1]
        distinct = distinct_rows(np.hstack([numbers, codes]), Y, given.weights)
        numbers, codes, Y = distinct.rows(numbers, codes, Y)
        reader = Reader(table, numbers)
        self._rows = reader.rows(numbers, codes)
        with StageProgress(type(self).__name__, self.verbose, Y.shape[1]) as progress:
            self._fits = [self._fit_target(column, distinct, progress) for column in Y.T]
        self._reader = reader
        blends = [fit.blend for fit in self._fits]
        names = [weights_by_name(blend.members, blend.weights) for blend in blends]
        transforms = [blend.transform.name for blend in blends]
        self.weights_ = names[0] if self._single_target else names
        self.target_transform_ = transforms[0] if self._single_target else transforms

    @_fit_context(prefer_skip_nested_validation=True)
    @documented(REGRESSION_FIT, TABULAR_GP, UPDATES)
    def partial_fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Add rows; on an error nothing changes.

        The first call is `fit`. Later calls keep what was learned: columns, kernels, weights of
        members and the width of the predictive distribution. Members are fitted again to all rows.
        Weights and width still rest on the left-out rows of the first fit.

        Parameters
        ----------
        {X}
        {y}
        {further_weights}

        Returns
        -------
        self : object
            The fitted estimator.

        Raises
        ------
        ValueError
            As `fit`. If there is another number of targets, or a row has a missing value in a
            column that had no missing values in the fit.
        """
        if weighs_nothing(sample_weight, X):
            return self
        with replaced_whole(self) as draft:
            learn = draft._extend if self.__sklearn_is_fitted__() else draft._fit
            learn(X, y, sample_weight)
        return self

    def _read_targets(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None
    ) -> tuple[RowWeights, Array]:
        """Return weights, and the targets of rows that have one; NaN is missing."""
        missing = missing_targets(y)
        y = validate_targets(self, filled(y, missing), multi_output=True, y_numeric=True)
        check_consistent_length(X, y)
        given = with_targets(check_weights(sample_weight, y), missing)
        Y = np.array(given.rows(y)[0], dtype=np.float64)
        if missing is not None:
            Y[given.rows(missing)[0]] = np.nan
        return given, Y

    def _extend(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None) -> None:
        given, Y = self._read_targets(X, y, sample_weight)
        rows, weights = self._to_add(X, given)
        Y = Y.reshape(len(Y), -1)
        if Y.shape[1] != len(self._fits):
            raise ValueError(
                f"y has {Y.shape[1]} targets, but fit had {len(self._fits)}: give as many."
            )
        self._rows, fits = self._rows.joined(rows), []
        for fit, column in zip(self._fits, Y.T, strict=True):
            seen = np.flatnonzero(~np.isnan(column))
            fits.append(fit.extended(rows.at(seen), column[seen], rows_of(weights, seen)))
        self._fits = fits

    def _fit_target(
        self, y: Array, distinct: DistinctRows, progress: StageProgress
    ) -> RegressionFit:
        seen = np.flatnonzero(~np.isnan(y))
        weights, stays = rows_of(distinct.weights, seen), rows_of(distinct.stays, seen)
        targets = self._targets(self._rows.where(~np.isnan(y)), weights, stays, progress)
        transform = named(self.target_transform, y[seen])
        return RegressionFit.of(targets, y[seen], self._names(), transform)

    # ---- answers -----------------------------------------------------------------------------

    @overload
    def predict(
        self, X: Any, return_std: Literal[False] = False, return_quantiles: None = None
    ) -> NDArray[Any]: ...
    @overload
    def predict(self, X: Any, return_std: Literal[True]) -> tuple[NDArray[Any], NDArray[Any]]: ...
    @overload
    def predict(
        self, X: Any, *, return_quantiles: ArrayLike
    ) -> tuple[NDArray[Any], NDArray[Any]]: ...
    @in_precision_of_rows
    def predict(
        self, X: Any, return_std: bool = False, return_quantiles: ArrayLike | None = None
    ) -> Answer:
        """Predict targets, and on request how uncertain they are.

        Parameters
        ----------
        {X}
        return_std : bool, default=False
            Whether to return the standard deviation of the target too, noise included.
        return_quantiles : array-like of shape (n_quantiles,), default=None
            Probabilities, between 0 and 1, whose quantiles to return too.

        Returns
        -------
        mean : ndarray of shape (n_samples,) or (n_samples, n_targets)
            Means of the target.
        std : ndarray of the same shape
            Only with `return_std`.
        quantiles : ndarray of shape (n_samples, n_quantiles) or (n_samples, n_quantiles, n_targets)
            Only with `return_quantiles`.

        Raises
        ------
        ValueError
            If both `return_std` and `return_quantiles` are given, or a probability is not between 0
            and 1.
        """
        if return_std and return_quantiles is not None:
            raise ValueError("Ask for one of return_std and return_quantiles at a time.")
        if return_quantiles is None and not return_std:
            return self._shaped(self._answered(X, np.empty(0), only_mean=True)[:, 0])
        probabilities = _checked_probabilities(return_quantiles)
        found = self._answered(X, probabilities)
        mean = self._shaped(found[:, 0])
        if return_std:
            return mean, self._shaped(found[:, 1])
        quantiles = found[:, 2:]
        return mean, quantiles[:, :, 0] if self._single_target else quantiles

    def predict_interval(self, X: Any, coverage: float = 0.95) -> NDArray[Any]:
        """Return the central interval that contains a target with probability `coverage`.

        Parameters
        ----------
        {X}
        coverage : float, default=0.95
            The probability, between 0 and 1.

        Returns
        -------
        interval : ndarray of shape (n_samples, 2) or (n_samples, 2, n_targets)
            Lower and upper ends.

        Raises
        ------
        ValueError
            If `coverage` is not between 0 and 1.
        """
        if not 0.0 < coverage < 1.0:
            raise ValueError(f"coverage = {coverage!r}: give a number between 0 and 1.")
        outside = 0.5 * (1.0 - coverage)
        return self.predict(X, return_quantiles=[outside, 1.0 - outside])[1]

    def _answered(self, X: Any, probabilities: Array, only_mean: bool = False) -> Array:
        """Return mean, standard deviation and quantiles, of shape (n, 2 + n_quantiles, n_fits)."""

        def ask(fits: list[RegressionFit], rows: TableRows, weights: Array | None) -> Array:
            found = [fit.answer(rows, weights, probabilities, only_mean) for fit in fits]
            return np.stack(found, axis=2)

        return self._answers(X, ask)

    def predict_leave_one_out(self) -> tuple[Array, Array]:
        """Predict every training row by the fit without it, in closed form.

        Returns
        -------
        mean : ndarray of the shape of the targets
            Means, one for each distinct row: rows with equal columns and targets count once, in the
            order in which they first came. Weights of members stay those of all rows; so do weights
            of columns, if there are more than 300 rows.
        std : ndarray of the same shape
            Standard deviations, noise included.

        Raises
        ------
        ValueError
            If a target is missing, there are more than 6,000 rows, or rows came by `partial_fit`.
        """
        check_is_fitted(self)
        found = [fit.left_out_moments for fit in self._fits]
        if any(len(mean) < len(self._rows.values) for mean, _ in found):
            raise ValueError(
                "Leave-one-out predictions need a target in every row, at most 6,000 rows, and no "
                "rows from partial_fit: use sklearn.model_selection.cross_val_predict."
            )
        mean, std = (np.column_stack(part) for part in zip(*found, strict=True))
        return self._shaped(mean), self._shaped(std)

    def score_density(self, X: Any, y: ArrayLike) -> float:
        """Return the mean log density of targets.

        Parameters
        ----------
        {X}
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Their targets.

        Returns
        -------
        score : float
            In nats per row and target; larger is better.
        """
        Y = np.asarray(y, dtype=np.float64).reshape(len(np.asarray(y)), -1)
        check_is_fitted(self)
        check_consistent_length(X, Y)
        found = [
            fit.log_density(rows, weights, Y[places, k])
            for places, rows, weights in self._to_predict(X)
            for k, fit in enumerate(self._fits)
        ]
        return float(np.concatenate(found).mean())

    def score(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return R^2, the mean over targets; targets that are NaN do not count."""
        if missing_targets(y) is None:
            return float(super().score(X, y, sample_weight))
        return score_of_table(self.predict(X), y, sample_weight)

    def summary(self) -> str:
        """Return a line for each member: its weight, and its error on left-out rows."""
        check_is_fitted(self)
        lines = []
        for k, fit in enumerate(self._fits):
            of, blend = "" if self._single_target else f"target {k}, ", fit.blend
            lines.append(f"{of}{blend.transform.name}: error of left-out rows {fit.error:.4g}")
            for name, weight in weights_by_name(blend.members, blend.weights).items():
                lines.append(f"  {name:8} weight {weight:.2f}, error {blend.errors[name]:.4g}")
        return "\n".join(lines)

    def _weighted_members(self) -> list[tuple[float, Member]]:
        n = len(self._fits)
        return [
            (float(weight) / n, member)
            for fit in self._fits
            for weight, member in zip(fit.blend.weights, fit.blend.members, strict=True)
        ]

    def _parts(self) -> list[Parts]:
        return [parts_of_target(fit, self._reader.sources) for fit in self._fits]

    def _averaged(self, parts: list[TableRows]) -> tuple[Array, Array]:
        blends = [fit.blend for fit in self._fits]
        pairs = [(averages(b.weights, b.members, parts), b) for b in blends]
        units = [(b.centre + b.unit * mean, b.unit * std) for (mean, std), b in pairs]
        means, stds = zip(*units, strict=True)
        return np.hstack(means), np.hstack(stds)

    def _shaped(self, values: Array) -> Array:
        return values[:, 0] if self._single_target else values

    def __sklearn_tags__(self) -> Tags:
        """Return what scikit-learn may expect of the estimator."""
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


@documented(CLASSIFICATION_GP, GAUSSIAN_PROCESS, TABULAR_GP)
class TabularGPClassifier(ClassifierMixin, BaseTabularGP):
    r"""Gaussian process classifier for tables: numbers, categories, dates and missing values.

    Members are those of `TabularGPRegressor`. They and their weights are learned from indicators of
    the classes. Only the member "levels" predicts log odds, with a Bernoulli likelihood and
    Laplace's approximation (Rasmussen and Williams, 2006, section 3.4). With many distinct values
    and many classes, "levels" predicts indicators instead, like the other members. A form of
    logistic regression, fitted to predictions of left-out rows, turns the blend into probabilities.

    Parameters
    ----------
    {members}
    {class_weight}
    random_state : int, RandomState instance or None, default=None
        Draws the subsets of rows that some steps use.
    {n_jobs}
    {verbose}

    Attributes
    ----------
    {classes_}
    weights_ : dict
        The weight of each member.
    feature_importances_ : ndarray of shape (n_features,)
        For each feature, the fraction of the variance of the members' functions that it explains.
    {n_features_in_}
    {feature_names_in_}

    See Also
    --------
    TabularGPRegressor : The same for real targets.
    IntersectionGPClassifier : Functions of single columns, in time linear in the rows.

    Notes
    -----
    A row to predict may lack a value in a column that has no missing values in training. The value
    is then taken from several training rows that are near in the other columns, and probabilities
    are averaged.

    Examples
    --------
    >>> import numpy as np
    >>> from histrs.gaussian_process import TabularGPClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 2))
    >>> model = TabularGPClassifier(random_state=0).fit(X, X[:, 0] * X[:, 1] > 0)
    >>> bool(model.score(X, X[:, 0] * X[:, 1] > 0) > 0.95)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **BaseTabularGP._parameter_constraints,
        "class_weight": [dict, StrOptions({"balanced"}), None],
    }
    _of_classes: ClassFit
    _fitted = "_of_classes"

    def __init__(
        self,
        *,
        members: Members = "auto",
        class_weight: ClassWeight = None,
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(members=members, random_state=random_state, n_jobs=n_jobs, verbose=verbose)
        self.class_weight = class_weight

    @_fit_context(prefer_skip_nested_validation=True)
    @documented(CLASSIFICATION_FIT, TABULAR_GP)
    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the model; on an error nothing changes.

        Parameters
        ----------
        {X}
        y : array-like of shape (n_samples,)
            Class labels.
        {sample_weight}

        Returns
        -------
        self : object
            The fitted estimator.

        Raises
        ------
        ValueError
            If an entry is infinite, the lengths differ, a weight is negative or not finite, or
            fewer than two classes have a row of positive weight.
        """
        with replaced_whole(self) as draft:
            draft._fit(X, y, sample_weight)
        return self

    def _fit(
        self,
        X: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None,
        declared: ArrayLike | None = None,
    ) -> None:
        read = self._read(X, reset=True, warns=True)
        labels = checked_labels(validate_targets(self, y))
        check_consistent_length(read[1], labels)
        given = check_weights(sample_weight, labels)
        given = times_class_weights(given, self.class_weight, *given.rows(labels))
        table, numbers, codes = self._read_kept(given, X, read)
        (labels,) = given.rows(labels)
        self._weight_unit = in_units_of_mean(given.weights)[1]
        self.classes_ = classes_of(labels)
        self._check_declared(declared)
        if len(self.classes_) < 2:
            raise ValueError(
                f"y has one class, {self.classes_[0].item()!r}: give rows of two classes at least."
            )
        of_classes = np.searchsorted(self.classes_, labels)
        merged = np.hstack([numbers, codes])
        distinct = distinct_rows(merged, of_classes, given.weights, given.copies).each_measured()
        numbers, codes, of_classes = distinct.rows(numbers, codes, of_classes)
        reader = Reader(table, numbers)
        self._rows = reader.rows(numbers, codes)
        with StageProgress(type(self).__name__, self.verbose) as progress:
            of_rows = self._rows, distinct.weights, distinct.stays, progress
            given = self._targets(*of_rows), of_classes, len(self.classes_), self._names()
            self._of_classes = ClassFit.of(*given)
        self.weights_ = weights_by_name(self._of_classes.members, self._of_classes.weights)
        self._reader = reader

    @_fit_context(prefer_skip_nested_validation=True)
    @documented(CLASSIFICATION_FIT, TABULAR_GP, UPDATES)
    def partial_fit(
        self,
        X: Any,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Add rows; on an error nothing changes.

        The first call is `fit`. Later calls keep what was learned: columns, kernels, weights of
        members, and the logistic regression that turns scores into probabilities. Members are
        fitted again to all rows. Weights and probabilities still rest on the left-out rows of the
        first fit.

        Parameters
        ----------
        {X}
        y : array-like of shape (n_samples,)
            Class labels that the fit has seen.
        classes : array-like of shape (n_classes,), default=None
            All class labels. None takes the labels of the first call, which must contain all.
        {further_weights}

        Returns
        -------
        self : object
            The fitted estimator.

        Raises
        ------
        ValueError
            As `fit`. If a class is new, or a row has a missing value in a column that had no
            missing values in the fit. With ``class_weight="balanced"``, which needs all rows at
            once.
        """
        if weighs_nothing(sample_weight, X):
            return self
        refuse_balanced(self.class_weight)
        with replaced_whole(self) as draft:
            learn = draft._extend if self.__sklearn_is_fitted__() else draft._fit
            learn(X, y, sample_weight, classes)
        return self

    def _check_declared(self, classes: ArrayLike | None) -> None:
        if classes is not None and set(np.unique(classes)) != set(self.classes_):
            raise ValueError(
                f"classes = {np.unique(classes).tolist()}, but the rows of the first call have "
                f"{self.classes_.tolist()}: give rows of all classes in the first call."
            )

    def _extend(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None, declared: ArrayLike | None
    ) -> None:
        self._check_declared(declared)
        labels = checked_labels(validate_targets(self, y))
        check_consistent_length(X, labels)
        given = check_weights(sample_weight, labels)
        given = times_class_weights(given, self.class_weight, *given.rows(labels))
        (kept,) = given.rows(labels)
        unknown = np.setdiff1d(kept, self.classes_)
        if len(unknown) > 0:
            raise ValueError(
                f"y has the class {unknown[0].item()!r}, which fit has not seen: call fit with "
                "all rows."
            )
        rows, weights = self._to_add(X, given)
        codes = np.searchsorted(self.classes_, kept)
        self._rows = self._rows.joined(rows)
        self._of_classes = self._of_classes.extended(rows, codes, weights)

    # ---- answers -----------------------------------------------------------------------------

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict the most probable classes.

        Parameters
        ----------
        {X}

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            Predicted classes.
        """
        probabilities = self._probabilities(X)
        labels: NDArray[Any] = self.classes_[probabilities.argmax(axis=1)]
        return labels

    @in_precision_of_rows
    def predict_proba(self, X: Any) -> Array:
        """Return calibrated class probabilities.

        Parameters
        ----------
        {X}

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_classes)
            Rows sum to 1; columns are in the order of `classes_`.
        """
        return self._probabilities(X)

    @in_precision_of_rows
    def decision_function(self, X: Any) -> Array:
        """Return the logits of the probabilities.

        Parameters
        ----------
        {X}

        Returns
        -------
        scores : ndarray of shape (n_samples,) or (n_samples, n_classes)
            For two classes, positive for ``classes_[1]``; for more, logarithms of probabilities.
        """
        P = np.maximum(self._probabilities(X), np.finfo(np.float64).tiny)
        logs = np.log(P)
        return np.asarray(logs[:, 1] - logs[:, 0] if len(self.classes_) == 2 else logs)

    def _probabilities(self, X: Any) -> Array:
        return self._answers(X, ClassFit.probabilities)

    def summary(self) -> str:
        """Return the log loss of left-out rows, and a line for each member.

        The error of a member is the root mean square difference between its scores and the
        indicators of classes.
        """
        check_is_fitted(self)
        fit = self._of_classes
        lines = [f"log loss of left-out rows {fit.loss:.4g}"]
        for name, error in fit.errors.items():
            lines.append(f"  {name:8} weight {self.weights_[name]:.2f}, error {error:.4g}")
        return "\n".join(lines)

    def _weighted_members(self) -> list[tuple[float, Member]]:
        fit = self._of_classes
        return list(zip(fit.weights.tolist(), fit.members, strict=True))

    def _parts(self) -> list[Parts]:
        return [parts_of_classes(self._of_classes, self._reader.sources)]

    def _averaged(self, parts: list[TableRows]) -> tuple[Array, Array]:
        fit = self._of_classes
        mean, std = averages(fit.weights, fit.members, parts)
        return fit.centre + fit.unit * mean, np.abs(fit.unit * std)


def _checked_probabilities(given: ArrayLike | None) -> Array:
    """Return probabilities of quantiles, checked; none for None."""
    probabilities = np.atleast_1d(np.asarray([] if given is None else given, dtype=np.float64))
    if probabilities.ndim != 1 or not np.all((probabilities > 0) & (probabilities < 1)):
        raise ValueError(f"return_quantiles = {given!r}: give probabilities between 0 and 1.")
    return probabilities
