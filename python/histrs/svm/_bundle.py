"""The support vector machine on the features of a map, learned by cutting planes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin, _fit_context, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.frozen import FrozenEstimator
from sklearn.utils import Tags, get_tags
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from histrs import _histrs
from histrs._checks.scale import check_squares, exponent_of
from histrs._checks.validation import (
    HISTOGRAM_CHECKS,
    canonical,
    check_random_state,
    count_threads,
    to_core,
    unchanged_on_error,
    validate_data,
    validate_fit,
)
from histrs._distributed.answers import answers
from histrs._distributed.rows import in_memory, is_dask, stand_in_to_fit
from histrs._estimator import BaseEstimator, documented
from histrs._progress import SolverProgress
from histrs._repeats import distinct_rows
from histrs._typing import Array, Matrix
from histrs._warnings import warn
from histrs._weights import (
    best_class,
    check_labels,
    classes_of,
    positive_weights,
    refuse_zeros,
    weights_of_classes,
)
from histrs.svm._bundle_solver import Solution, Targets, solved, solved_in_unit
from histrs.svm._composition import quantizer_of
from histrs.svm._distributed import DaskRows
from histrs.svm._docs import MACHINES
from histrs.svm._held_out import Indices, folds, given_folds
from histrs.svm._rows import FeatureRows, Rows, RowsWithIntercept, rows_of, scores_of

# Its square, times sums over the rows, is far from the end of double precision; itself it is a
# number of single precision.
_LARGEST_SCALING = 1e30


def _has_probabilities(model: Any) -> bool:
    # Of a fitted model the loss that it was fitted with, whatever is set later.
    loss = getattr(model, "loss_", model.loss)
    if loss != "logistic":
        raise AttributeError(
            f'loss = {loss!r} has no probabilities: fit with loss="logistic", or wrap the '
            "model in sklearn.calibration.CalibratedClassifierCV."
        )
    return True


@documented(MACHINES)
class BundleSVC(ClassifierMixin, BaseEstimator):
    r"""Linear classifier in the space of a feature map, with the map's own inner product.

    Features :math:`\Phi(x)` are compared by :math:`\Phi(x)^T K_{ZZ} \Phi(x')`. The model
    :math:`f(x) = v^T \Phi(x) + b` minimises

    .. math::

       E(v) = \frac\lambda2 \left(v^T K_{ZZ}^+ v + b^2 / s^2\right)
              + \frac{1}{\sum_i w_i} \sum_i w_i\, l(y_i f(x_i))

    (equation 11 of [1]_) by cutting planes with a line search [2]_. Here :math:`K_{ZZ}^+` is the
    pseudo-inverse, :math:`y_i` is 1 or -1, and weights :math:`w_i` act as repeated rows. Classes
    are learned one against the rest.

    Parameters
    ----------
    feature_map : transformer or None, default=None
        Maps rows to features: `ProductQuantizer`, `SparseAdditiveMap`, or any transformer. Its
        attribute `inner_product_` is :math:`K_{ZZ}`, the kernel matrix of landmarks or codewords
        `Z`. Without this attribute, :math:`K_{ZZ}` is the identity. The map is cloned and fitted;
        `sklearn.frozen.FrozenEstimator` keeps a fitted one. None takes rows as they are.
    alpha : float or array-like of shape (n_alphas,), default=1e-4
        Strength :math:`\lambda` of the regulariser; `LinearSVC` has
        :math:`C = 1 / (\lambda n)`. Several values are compared by their accuracy on held-out rows.
    cv : int, cross-validation generator or iterable, default=5
        With several `alpha`: the number of folds, or the splits.
    loss : {"hinge", "squared_hinge", "logistic"}, default="hinge"
        The loss :math:`l(z)` of a margin: :math:`\max(0, 1 - z)`, its square, or
        :math:`\log(1 + e^{-z})`, which adds `predict_proba`.
    input : {"rows", "features"}, default="rows"
        Whether `X` are rows, or features of a fitted map.
    fit_intercept : bool, default=True
        Whether to learn the intercept `b`, which is penalised.
    intercept_scaling : float, default=1.0
        The scale `s`, up to 1e30. A larger one penalises the intercept less.
    class_weight : dict, "balanced" or None, default=None
        Factors of the losses of each class. "balanced" gives every class the same total weight.
    tol : float, default=1e-3
        Largest gap between objective and lower bound, as a fraction of the objective.
    max_iter : int, default=1000
        Largest number of cutting planes for each class.
    warm_start : bool, default=False
        Whether `fit` keeps the feature map of the last fit and starts from its models.
    random_state : int, RandomState instance or None, default=None
        Draws the folds.
    {n_jobs}
    verbose : int, default=0
        1 shows the gap after every pass.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features_out) or (n_classes, n_features_out)
        The models `v`; for a `ProductQuantizer`, the score of each codeword.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        The intercepts; 0 without `fit_intercept`.
    {classes_}
    alpha_ : float
        The chosen strength.
    alphas_ : ndarray of shape (n_alphas,)
        With several `alpha`: their values, descending.
    cv_scores_ : ndarray of shape (n_alphas, cv)
        Accuracies of `alphas_` on held-out rows.
    feature_map_ : transformer or None
        The fitted map.
    objective_ : ndarray of shape (1,) or (n_classes,)
        The objective of each problem.
    dual_gap_ : ndarray of shape (1,) or (n_classes,)
        An upper bound of the objective minus its minimum.
    loss_ : str
        The loss of the fit.
    n_iter_ : int
        Passes over rows.
    n_features_in_ : int
        Number of columns of `X`.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the columns, if `X` has string names.

    References
    ----------
    .. [1] A. Vedaldi and A. Zisserman, "Sparse kernel approximations for efficient classification
       and detection", CVPR 2012.
    .. [2] V. Franc and S. Sonnenburg, "Optimized cutting plane algorithm for large-scale risk
       minimization", JMLR 10, 2009.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from histrs.quantization import ProductQuantizer
    >>> from histrs.svm import BundleSVC
    >>> X, y = load_digits(return_X_y=True)
    >>> pq = ProductQuantizer(n_blocks=16, n_codes=64, metric="hellinger", random_state=0)
    >>> model = BundleSVC(pq, alpha=1e-3).fit(X[:1000], y[:1000])
    >>> bool(model.score(X[1000:], y[1000:]) > 0.9)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "feature_map": [HasMethods(["fit", "transform"]), None],
        "alpha": [Interval(Real, 0, None, closed="neither"), "array-like"],
        "cv": ["cv_object"],
        "loss": [StrOptions({"hinge", "squared_hinge", "logistic"})],
        "input": [StrOptions({"rows", "features"})],
        "intercept_scaling": [Interval(Real, 0, _LARGEST_SCALING, closed="right")],
        "tol": [Interval(Real, 0, None, closed="left")],
    }

    coef_: Array
    intercept_: Array
    classes_: NDArray[Any]

    def __init__(
        self,
        feature_map: Any = None,
        *,
        alpha: float | ArrayLike = 1e-4,
        cv: Any = 5,
        loss: Literal["hinge", "squared_hinge", "logistic"] = "hinge",
        input: Literal["rows", "features"] = "rows",
        fit_intercept: bool = True,
        intercept_scaling: float = 1.0,
        class_weight: Mapping[Any, float] | Literal["balanced"] | None = None,
        tol: float = 1e-3,
        max_iter: int = 1000,
        warm_start: bool = False,
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.feature_map = feature_map
        self.alpha = alpha
        self.cv = cv
        self.loss = loss
        self.input = input
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.class_weight = class_weight
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(
        self, X: ArrayLike | Matrix, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Learn the models; on an error nothing changes.

        Parameters
        ----------
        X : {array-like, sparse matrix, dask array} of shape (n_samples, n_features)
            Rows, or features with `input="features"`. For a dask array, the workers keep the
            features, and the map must be a fitted one in a `FrozenEstimator`.
        y : array-like of shape (n_samples,)
            Their classes.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the losses; rows of weight 0 are left out.

        {self}
        """
        with unchanged_on_error(self):
            X, y, weight, given = self._check_training(X, y, sample_weight)
            goes_on = self.warm_start and hasattr(self, "_warm")
            if not goes_on:
                self._fit_map(X)
            rows: Rows = (
                X.features(self) if isinstance(X, DaskRows) else self._rows(self._features(X))
            )
            targets = self._targets(y, weight)
            refuse_zeros(targets.weights, "class_weight")
            start = self._start(rows) if goes_on else None
            for name in ("alphas_", "cv_scores_", "_warm"):
                self.__dict__.pop(name, None)
            if np.ndim(self.alpha) > 0:
                start = self._choose_alpha(rows, y, weight, given)
            else:
                self.alpha_ = float(np.asarray(self.alpha))
            tol = float(self.tol)
            each = np.full(len(targets.positive), tol)
            with SolverProgress(type(self).__name__, each, self.verbose) as progress:
                solution = solved_in_unit(
                    *(rows, targets, self.alpha_, tol, self.max_iter),
                    start=start,
                    progress=progress,
                )
            self.coef_ = rows.coef(solution.models)
            self.intercept_ = (
                solution.models[:, -1].copy() if self.fit_intercept else np.zeros(len(self.coef_))
            )
            self.loss_ = self.loss
            self.objective_, self.dual_gap_ = solution.objective, solution.dual_gap
            self.n_iter_ = int(solution.n_iter.max())
            if self.warm_start:
                self._warm = (replace(solution, planes=()), *self._warm_key())
        self._warn(solution)
        return self

    def decision_function(self, X: ArrayLike | Matrix) -> NDArray[Any]:
        """Return the scores `f(x)`; for codes they are sums of entries of a look-up table.

        Parameters
        ----------
        X : {array-like, sparse matrix, dask array} of shape (n_samples, n_features)
            Rows, or features with `input="features"`.

        Returns
        -------
        scores : ndarray of shape (n_samples,) or (n_samples, n_classes)
            Scores, float32 for rows of float32; for two classes that of `classes_[1]`.
        """
        check_is_fitted(self)
        if is_dask(X):
            return answers(self, "decision_function", X, codes=self._takes_codes())
        checks = {"dtype": None} if self._takes_codes() else HISTOGRAM_CHECKS
        X = validate_data(self, X, reset=False, **checks)
        scores = self._scores(self._check_entries(X, self.feature_map_))
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict(self, X: ArrayLike | Matrix) -> NDArray[Any]:
        """Predict classes.

        Parameters
        ----------
        X : {array-like, sparse matrix, dask array} of shape (n_samples, n_features)
            Rows, or features with `input="features"`.

        Returns
        -------
        y : ndarray of shape (n_samples,)
            Classes.
        """
        return best_class(self.decision_function(X), self.classes_)

    @available_if(_has_probabilities)
    def predict_proba(self, X: ArrayLike | Matrix) -> NDArray[Any]:
        r"""Return the probability of each class; only with `loss="logistic"`.

        Parameters
        ----------
        X : {array-like, sparse matrix, dask array} of shape (n_samples, n_features)
            Rows, or features with `input="features"`.

        Returns
        -------
        P : ndarray of shape (n_samples, n_classes)
            :math:`1 / (1 + e^{-f(x)})` for two classes. For more, each class has a probability
            against the rest, divided by the sum of these. For other losses see
            `sklearn.calibration.CalibratedClassifierCV`.
        """
        scores = self.decision_function(X)
        scores = np.column_stack([-scores, scores]) if scores.ndim == 1 else scores
        # In logarithms, as those of all classes may underflow.
        logs = -np.logaddexp(0, -scores)
        P = np.exp(logs - logs.max(axis=1, keepdims=True))
        P /= P.sum(axis=1, keepdims=True)
        return np.asarray(P, dtype=scores.dtype)

    def _check_training(
        self, X: Any, y: Any, sample_weight: Any
    ) -> tuple[Any, NDArray[Any], Array, tuple[NDArray[Any], NDArray[np.intp]]]:
        """Return distinct rows, their labels and weights, and labels and places of those given."""
        given, distributed = X, is_dask(X)
        if distributed:
            self._check_supported_of_dask()
            X, y, sample_weight = stand_in_to_fit(X), in_memory(y), in_memory(sample_weight)
        if self._takes_codes():
            X, y = validate_data(self, X, y, dtype=None)
        else:
            X, y = validate_fit(self, X, y)
        if not distributed:
            X = self._check_entries(X, self.feature_map)
        check_labels(y)
        labels = y
        weight = positive_weights(sample_weight, len(y))
        used = weight > 0.0
        if distributed:
            X, y, weight = DaskRows(given, np.flatnonzero(used)), y[used], weight[used]
        elif not used.all():
            X, y, weight = X[used], y[used], weight[used]
        self.classes_ = classes_of(y)
        if len(self.classes_) < 2:
            raise ValueError(
                f"y holds one class, {self.classes_.tolist()[0]!r}: the number of classes has to "
                "be greater than one."
            )
        # Which of the rows that are kept each of the given ones is.
        place = np.full(len(used), -1, dtype=np.intp)
        place[used] = np.arange(len(y))
        if not distributed:
            alike = np.ptp(weight) == 0.0
            codes = np.searchsorted(self.classes_, y)
            distinct = distinct_rows(X, codes, None if alike else weight)
            X, y = distinct.rows(X, y)
            place[used] = distinct.groups
            weight = np.ones(len(y)) if distinct.weights is None else distinct.weights
        # Only their proportions count: in units of the largest no sum overflows.
        weight = np.ldexp(weight, -exponent_of(weight))
        return X, y, weight, (labels, place)

    def _takes_codes(self) -> bool:
        return self.input == "features" and quantizer_of(self.feature_map) is not None

    def _check_supported_of_dask(self) -> None:
        fitted = isinstance(self.feature_map, FrozenEstimator) or self.input == "features"
        goes_on = self.warm_start and hasattr(self, "_warm")
        if self.feature_map is not None and not (fitted or goes_on):
            raise ValueError(
                "A feature map cannot be fitted to a dask array: fit it to some of the rows, and "
                "give sklearn.frozen.FrozenEstimator(feature_map)."
            )

    def _check_entries(self, X: Any, feature_map: Any) -> Any:
        """Return rows as the map takes them, once every entry has been looked at."""
        quantizer = quantizer_of(feature_map)
        if quantizer is not None and self.input == "features":
            return quantizer.check_codes(X)
        X = canonical(X)
        _histrs.check_finite(to_core(X), count_threads(self.n_jobs))
        return X

    def _fit_map(self, X: Any) -> None:
        frozen = isinstance(self.feature_map, FrozenEstimator)
        given = self.feature_map.estimator if frozen else self.feature_map
        if given is None:
            self.feature_map_ = None
        elif self.input == "features" or frozen:
            check_is_fitted(given)
            self.feature_map_ = given
        else:
            self.feature_map_ = clone(given).fit(X)

    def _features(self, X: Any) -> Any:
        if self.feature_map_ is None or self.input == "features":
            check_squares(X)
            return X
        return self.feature_map_.transform(X)

    def _rows(self, features: Any) -> Rows:
        rows = self._rows_without_intercept(features)
        # Another fit that goes on from this one has other columns that are empty.
        if isinstance(rows, FeatureRows) and not self.warm_start:
            rows = rows.of_used_columns()
        return (
            RowsWithIntercept(rows, float(self.intercept_scaling)) if self.fit_intercept else rows
        )

    def _rows_without_intercept(self, features: Any) -> Rows:
        return rows_of(self.feature_map_, features, count_threads(self.n_jobs))

    def _scores(self, X: Any) -> NDArray[Any]:
        """Return the scores of checked rows, of shape (n_samples, n_problems)."""
        n_threads = count_threads(self.n_jobs)
        made: Any = self.feature_map_
        if hasattr(made, "_linear_scores") and self.input == "rows":
            return np.asarray(made._linear_scores(X, self.coef_, self.intercept_))
        scores = scores_of(made, self._features(X), self.coef_, n_threads)
        scores = scores + self.intercept_[:, None]
        dtype = X.dtype if X.dtype == np.float32 else np.float64
        return np.ascontiguousarray(scores.T, dtype=dtype)

    def _targets(self, y: NDArray[Any], weight: Array) -> Targets:
        labels = np.searchsorted(self.classes_, y).astype(np.int32)
        n_classes = len(self.classes_)
        positive = np.arange(1 if n_classes == 2 else 0, n_classes, dtype=np.int32)
        of_classes = weights_of_classes(self.class_weight, y, weight)
        unit = exponent_of(of_classes) - 1
        weights = weight / weight.sum() * np.ldexp(of_classes, -unit)
        n_threads = count_threads(self.n_jobs)
        return Targets(labels, weights, positive, self.loss, n_threads, unit)

    def _choose_alpha(
        self,
        rows: Rows,
        y: NDArray[Any],
        weight: Array,
        given: tuple[NDArray[Any], NDArray[np.intp]],
    ) -> Solution | None:
        """Choose the strength by parts held out; return models of the first part to start from."""
        if isinstance(self.cv, Integral):
            indices = np.searchsorted(self.classes_, y)
            parts = list(folds(indices, check_random_state(self.random_state), int(self.cv)))
        else:
            parts = list(given_folds(self.cv, *given))
        path = held_out_path(
            *(rows, y, weight, self.alpha, parts, self._targets, self.classes_, self.tol),
            self.max_iter,
        )
        self.alphas_, self.cv_scores_ = path.alphas, path.scores
        self.alpha_ = float(path.alphas[path.best])
        return path.starts[path.best]

    def _warm_key(self) -> tuple[Any, ...]:
        """Return what models to start from must have in common with those before."""
        intercept = float(self.intercept_scaling) if self.fit_intercept else None
        return self.classes_, intercept, self.input, self.feature_map

    def _start(self, rows: Rows) -> Solution:
        """Return the models of the fit before this one."""
        start: Solution = self._warm[0]
        classes, *others = self._warm[1:]
        new_classes, *new_others = self._warm_key()
        fits = start.models.shape[1] == rows.width and np.array_equal(classes, new_classes)
        if not fits or others != new_others:
            raise ValueError(
                "warm_start = True, but classes, features, the feature map or the intercept are "
                "not those of the fit before: set warm_start = False, or clone the model."
            )
        return start

    def _warn(self, solution: Solution) -> None:
        missed = ~solved(solution, float(self.tol))
        if missed.any():
            gap = float(np.max(solution.dual_gap[missed] / solution.objective[missed]))
            warn(
                f"{missed.sum()} of {len(missed)} problems are not solved to tol = {self.tol}: "
                f"the certified gap is {gap:.2g} of the objective after {self.n_iter_} passes; "
                "raise max_iter, tol or alpha.",
                ConvergenceWarning,
            )

    def __sklearn_tags__(self) -> Tags:
        """Return what scikit-learn may expect of the estimator."""
        tags = super().__sklearn_tags__()
        if self.feature_map is None:
            tags.input_tags.sparse = True
        elif hasattr(self.feature_map, "__sklearn_tags__") and not self._takes_codes():
            tags.input_tags.sparse = get_tags(self.feature_map).input_tags.sparse
            tags.input_tags.positive_only = get_tags(self.feature_map).input_tags.positive_only
        return tags


@dataclass(frozen=True)
class HeldOutPath:
    """Accuracies of parts held out, of shape (n_alphas, n_parts), the largest strength first."""

    alphas: Array
    scores: Array
    starts: list[Solution]
    """The models of the first part, for each strength."""
    best: int
    """The index of the strength that predicts best."""


def held_out_path(
    rows: Rows,
    y: NDArray[Any],
    weight: Array,
    alphas: ArrayLike,
    parts: Sequence[tuple[Indices, Indices]],
    targets_of: Callable[[NDArray[Any], Array], Targets],
    classes: NDArray[Any],
    tol: float,
    max_iter: int,
) -> HeldOutPath:
    """Learn models of every strength from each part, those of the next from those before."""
    given = np.asarray(alphas, dtype=np.float64)
    if given.ndim != 1 or not given.size or not np.all((given > 0) & np.isfinite(given)):
        raise ValueError(f"alpha = {alphas!r}: expected positive numbers.")
    path = np.unique(given)[::-1]
    if not parts:
        raise ValueError(
            "several alpha need two rows of a class, of which one is held out: give more rows, or "
            "one alpha."
        )
    scores = np.empty((len(path), len(parts)))
    starts: list[Solution] = []
    for j, (learned, others) in enumerate(parts):
        part, held_out = rows.part(learned), rows.part(others)
        targets = targets_of(y[learned], weight[learned])
        solution: Solution | None = None
        for i, alpha in enumerate(path):
            solution = solved_in_unit(
                part, targets, float(alpha), float(tol), max_iter, start=solution
            )
            found = best_class(held_out.scores(solution.models).T, classes)
            scores[i, j] = np.average(found == y[others], weights=weight[others])
            if j == 0:
                starts.append(replace(solution, planes=()))
    mass = [weight[others].sum() for _, others in parts]
    best = int(np.argmax(np.average(scores, axis=1, weights=mass)))
    return HeldOutPath(path, scores, starts, best)
