"""The support vector machine with the intersection kernel, learned in input space."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.special import softmax
from sklearn.base import ClassifierMixin, _fit_context, clone
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from histrs import _histrs
from histrs._calibration import likely_inverse_temperature, logits_of_classes
from histrs._checks.scale import may_overflow
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
from histrs._distributed.rows import is_dask
from histrs._estimator import BaseEstimator, documented
from histrs._repeats import distinct_rows
from histrs._typing import Array, Matrix
from histrs._weights import (
    best_class,
    check_labels,
    classes_of,
    positive_weights,
    product_of_weights,
    refuse_balanced,
    refuse_zeros,
    weighs_nothing,
    weights_of_classes,
)
from histrs.svm._docs import MACHINES
from histrs.svm._held_out import folds
from histrs.svm._input_space import Problem, Steps, signs_of, train
from histrs.svm._units import Units


def _has_probabilities(model: Any) -> bool:
    if not (
        hasattr(model, "inverse_temperature_") if hasattr(model, "coef_") else model.probability
    ):
        raise AttributeError(
            "there are no probabilities: fit with probability=True, or wrap the model in "
            "sklearn.calibration.CalibratedClassifierCV."
        )
    return True


@documented(MACHINES)
class IntersectionSVC(ClassifierMixin, BaseEstimator):
    r"""Support vector classifier with the intersection kernel, without a feature map.

    A class is scored by

    .. math:: f(w, x) = b + \sum_d \frac{1}{s_d} \mathrm{sign}(w_d) \min(x_d - o_d, |w_d|),

    which costs as much as a linear score. The offset :math:`o_d` is the smallest training value of
    a column, and :math:`s_d` is its unit. In these units, `w` and `b` minimise

    .. math:: \lambda (\|w\|_1 + |b|) + \frac1n \sum_i \max(0, m - y_i f(w, x_i))

    (equation 7a of [1]_) by the stochastic subgradient steps of algorithm 1. Where
    :math:`y_i f(w, x_i) < m`, each :math:`w_d` with :math:`|w_d| < x_{id}` moves by :math:`r y_i`.
    Then weights shrink by :math:`r \lambda`, but not past zero. Several classes are learned one
    against the rest. The paper has neither intercept nor units.

    Parameters
    ----------
    margin : float, default=0.03
        The margin `m`, below 1, in units of the mean sum of a training row. Normalise rows of very
        different sums first.
    alpha : float, default=1e-4
        The strength :math:`\lambda` of the L1 penalty.
    max_iter : int, default=50
        Passes over the data.
    eta0 : float, default=0.1
        The step `r`. Its unit is the mean positive entry of the training data. It drops to a tenth
        after half of the passes.
    scale : {"auto", "spread", "none"}, default="auto"
        The units :math:`s_d` of the columns: their standard deviations, or 1. "spread" suits
        columns of different units, and "none" histograms. "auto" takes "spread" if the largest mean
        positive entry of a column is more than 100 times the median one.
    fit_intercept : bool, default=True
        Whether there is an intercept `b`, penalised like the weights.
    smoothing : {"none", "continuation"}, default="continuation"
        "continuation" starts from the convex relaxation of section 2.2,
        :math:`f_t(w, x) = \mathrm{sign}(w) x \min(|w| / \max(t, x), 1)`. `t` falls linearly from
        the largest entry to 0 over the first half of the passes.
    class_weight : dict, "balanced" or None, default=None
        Weights of the losses of each class. "balanced" makes the sums of their weights equal.
    average : bool, default=True
        Use the mean of the weights over the passes after the step has dropped.
    early_stopping : bool, default=False
        When 5 passes lower the objective by less than a thousandth, drop the step to a tenth; if
        already dropped, stop.
    probability : bool, default=False
        Whether `fit` learns probabilities from scores in five folds, in six times the time.
    random_state : int, RandomState instance or None, default=None
        Draws the order of rows, and folds.
    {n_jobs}
    verbose : int, default=0
        1 shows the objective after every pass of `fit`.

    Attributes
    ----------
    coef_ : ndarray or CSR matrix of shape (1, n_features) or (n_classes, n_features)
        The weights `w`, in the units of the training data.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        The intercepts `b`; 0 without `fit_intercept`.
    offset_, scale_ : ndarray of shape (n_features,)
        The offsets :math:`o_d` and the units :math:`s_d` of the columns.
    {classes_}
    margin_, eta_ : float
        `margin` and `eta0` in the units of the scaled columns.
    inverse_temperature_ : float
        Factor of the scores before the softmax, with `probability`.
    n_iter_ : int
        Passes made.
    {n_features_in_}
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, if `X` has string names.

    References
    ----------
    .. [1] G. Sharma and F. Jurie, "A novel approach for efficient SVM classification with histogram
       intersection kernel", BMVC 2013.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from histrs.svm import IntersectionSVC
    >>> X, y = load_digits(return_X_y=True)
    >>> model = IntersectionSVC(random_state=0).fit(X[:1000], y[:1000])
    >>> bool(model.score(X[1000:], y[1000:]) > 0.8)
    True
    """

    _inputs: ClassVar[dict[str, bool]] = {"sparse": True, "positive_only": True}
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "margin": [Interval(Real, 0, None, closed="neither")],
        "alpha": [Interval(Real, 0, None, closed="left")],
        "eta0": [Interval(Real, 0, None, closed="neither")],
        "scale": [StrOptions({"auto", "spread", "none"})],
        "smoothing": [StrOptions({"none", "continuation"})],
        "average": ["boolean"],
        "early_stopping": ["boolean"],
        "probability": ["boolean"],
    }

    coef_: Array | sparse.csr_matrix
    classes_: NDArray[Any]
    intercept_: Array
    n_iter_: int
    _units: Units
    _steps: Steps
    _order_seed: int

    def __init__(
        self,
        *,
        margin: float = 0.03,
        alpha: float = 1e-4,
        max_iter: int = 50,
        eta0: float = 0.1,
        scale: Literal["auto", "spread", "none"] = "auto",
        fit_intercept: bool = True,
        smoothing: Literal["none", "continuation"] = "continuation",
        class_weight: Mapping[Any, float] | Literal["balanced"] | None = None,
        average: bool = True,
        early_stopping: bool = False,
        probability: bool = False,
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.margin = margin
        self.alpha = alpha
        self.max_iter = max_iter
        self.eta0 = eta0
        self.scale = scale
        self.fit_intercept = fit_intercept
        self.smoothing = smoothing
        self.class_weight = class_weight
        self.average = average
        self.early_stopping = early_stopping
        self.probability = probability
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(
        self, X: ArrayLike | Matrix, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Learn the weights; on an error nothing changes.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Histograms: non-negative, finite.
        y : array-like of shape (n_samples,)
            Their classes.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the losses; rows of weight 0 are left out. A row of weight 2 makes one step
            of twice the length, and two equal rows make two steps at different times.

        {self}
        """
        with unchanged_on_error(self):
            X, y, weight = self._check_training(X, y, sample_weight, reset=True)
            self.classes_ = classes_of(y)
            if len(self.classes_) < 2:
                raise ValueError(
                    f"y holds one class, {self.classes_.tolist()[0]!r}: the number of classes has "
                    "to be greater than one."
                )
            problem = self._problem(self._begin(X), y, weight)
            refuse_zeros(problem.weights, "class_weight")
            rng = self._order(self.random_state)
            self._take(train(problem, self, self.eta_, self._units.lengths.largest, rng))
            self.__dict__.pop("inverse_temperature_", None)
            if self.probability:
                self.inverse_temperature_ = self._likely_inverse_temperature(X, y, weight)
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(
        self,
        X: ArrayLike | Matrix,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Make one pass over a batch, with the first step length and without smoothing.

        The offset and the unit of a column come from the first batch in which its values differ,
        and from the batches before. They are then kept, so begin with a batch of some hundred rows
        like those to come. `average` takes the mean of the weights after each batch.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Histograms: non-negative, finite.
        y : array-like of shape (n_samples,)
            Their classes.
        classes : array-like of shape (n_classes,), default=None
            All classes; needed in the first call.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the losses; rows of weight 0 are left out.

        Returns
        -------
        self : object
            The estimator.
        """
        if weighs_nothing(sample_weight, X):
            return self
        with unchanged_on_error(self):
            refuse_balanced(self.class_weight)
            first = not hasattr(self, "coef_")
            X, y, weight = self._check_training(X, y, sample_weight, reset=first)
            self._check_classes(y, classes, first)
            # Those learned before are of other models.
            self.__dict__.pop("inverse_temperature_", None)
            problem = self._problem(self._begin(X) if first else self._join(X), y, weight)
            steps = problem.begin() if first else self._steps
            rng = self._order(self.random_state if first else self._order_seed)
            last = problem.after_pass(steps.last, self.eta_, 0.0, rng)
            self._take(steps.then(last, averaged=self.average))
        return self

    def decision_function(self, X: ArrayLike | Matrix) -> NDArray[Any]:
        """Return the scores `f(w, x)`.

        Parameters
        ----------
        X : {array-like, sparse matrix, dask array} of shape (n_samples, n_features)
            Histograms.

        Returns
        -------
        scores : ndarray of shape (n_samples,) or (n_samples, n_classes)
            Scores in the dtype of `X`; for two classes that of `classes_[1]`.
        """
        check_is_fitted(self)
        if is_dask(X):
            return answers(self, "decision_function", X)
        X = validate_data(self, X, reset=False, **HISTOGRAM_CHECKS)
        coef = self.coef_.toarray() if sparse.issparse(self.coef_) else self.coef_
        units, n_threads = (self.offset_, self.scale_), count_threads(self.n_jobs)
        scores = _histrs.svm_scores(to_core(X), coef / self.scale_, units, n_threads)
        # In single precision a score may be beyond the range: infinity says so.
        with np.errstate(over="ignore"):
            scores += self.intercept_.astype(scores.dtype)
        return scores[:, 0] if len(coef) == 1 else scores

    def predict(self, X: ArrayLike | Matrix) -> NDArray[Any]:
        """Predict classes.

        Parameters
        ----------
        X : {array-like, sparse matrix, dask array} of shape (n_samples, n_features)
            Histograms.

        Returns
        -------
        y : ndarray of shape (n_samples,)
            Classes.
        """
        return best_class(self.decision_function(X), self.classes_)

    @available_if(_has_probabilities)
    def predict_proba(self, X: ArrayLike | Matrix) -> NDArray[Any]:
        """Return the probabilities of the classes; only after `fit` with ``probability=True``.

        They are a softmax of scores times `inverse_temperature_`. This number makes the labels of
        held-out rows most likely, as in Platt's calibration. It is positive, so the most probable
        class is the prediction.

        Parameters
        ----------
        X : {array-like, sparse matrix, dask array} of shape (n_samples, n_features)
            Histograms.

        Returns
        -------
        P : ndarray of shape (n_samples, n_classes)
            Probabilities, in the order of `classes_`.
        """
        scores = self.decision_function(X).reshape(-1, len(self.intercept_))
        logits = logits_of_classes(scores)
        # Far below the largest, minus infinity is as good as a number.
        with may_overflow():
            logits = self.inverse_temperature_ * (logits - logits.max(axis=1, keepdims=True))
        return np.asarray(softmax(logits, axis=1))

    def _likely_inverse_temperature(self, X: Any, y: NDArray[Any], weight: Array) -> float:
        """Return the factor of scores at which the labels of rows held out are most likely."""
        random = check_random_state(self.random_state)
        indices = np.searchsorted(self.classes_, y)
        model = clone(self).set_params(probability=False, verbose=0)
        scores, held_out = [], []
        # Equal rows together: they would tell one another.
        alike = distinct_rows(X, indices, None).groups
        _, first, groups = np.unique(alike, return_index=True, return_inverse=True)
        for _, held in folds(indices[first], random):
            is_held = np.isin(groups, held)
            learned, others = np.flatnonzero(~is_held), np.flatnonzero(is_held)
            model.fit(X[learned], y[learned], sample_weight=weight[learned])
            found = model.decision_function(X[others]).astype(np.float64)
            scores.append(logits_of_classes(found.reshape(-1, len(self.intercept_))))
            held_out.append(others)
        if not scores:
            raise ValueError(
                "probability = True needs two rows of a class or more, of which one is held out."
            )
        logits, rows = np.concatenate(scores), np.concatenate(held_out)
        of_classes = weights_of_classes(self.class_weight, y, weight)
        total = product_of_weights(weight, of_classes)
        distances = logits.max(axis=1, keepdims=True) - logits
        return likely_inverse_temperature(distances, indices[rows], total[rows], weight[rows])

    def sparsify(self) -> Self:
        """Keep `coef_` as a CSR matrix.

        Returns
        -------
        self : object
            The estimator.
        """
        check_is_fitted(self)
        self.coef_ = sparse.csr_matrix(self.coef_)
        return self

    def densify(self) -> Self:
        """Keep `coef_` as an array.

        Returns
        -------
        self : object
            The estimator.
        """
        check_is_fitted(self)
        if sparse.issparse(self.coef_):
            self.coef_ = self.coef_.toarray()
        return self

    def _check_training(
        self, X: Any, y: Any, sample_weight: Any, *, reset: bool
    ) -> tuple[Matrix, NDArray[Any], Array]:
        if is_dask(X):
            raise TypeError(
                "X is a dask array, and steps go from row to row in one process: give X.compute(), "
                "or give one partition after the other to partial_fit, or use BundleSVC."
            )
        X, y = validate_fit(self, X, y, reset=reset)
        check_labels(y)
        X = canonical(X)
        _histrs.check_histograms(to_core(X), count_threads(self.n_jobs))
        weight = positive_weights(sample_weight, len(y))
        used = weight > 0.0
        return (X, y, weight) if used.all() else (X[used], y[used], weight[used])

    def _check_classes(self, y: NDArray[Any], classes: Any, first: bool) -> None:
        if first and classes is None:
            raise ValueError("classes must be passed on the first call to partial_fit.")
        if first:
            self.classes_ = classes_of(classes)
            if len(self.classes_) < 2:
                raise ValueError("classes: the number of classes has to be greater than one.")
        elif classes is not None and not np.array_equal(self.classes_, classes_of(classes)):
            raise ValueError(f"classes = {classes!r} differ from those before, {self.classes_!r}.")
        if not first and self._steps.last.shape[1] != len(self.scale_) + self.fit_intercept:
            raise ValueError(
                f"fit_intercept = {self.fit_intercept}, but the model was begun with "
                f"{not self.fit_intercept}: set it back, or call fit to begin again."
            )
        unknown = np.setdiff1d(y, self.classes_)
        if len(unknown):
            raise ValueError(
                f"y holds {unknown.tolist()[0]!r}, which is not in classes; list it there."
            )

    def _begin(self, X: Any) -> Any:
        """Set the units, and return the rows in them."""
        self._units, X = Units.of(X, self.scale, count_threads(self.n_jobs))
        self._take_units()
        return X

    def _join(self, X: Any) -> Any:
        """Give units to columns that have been constant, and return the rows in them."""
        before = self._units
        self._units, new, X = before.joined(X, count_threads(self.n_jobs))
        if new.any():
            self._steps = self._steps.without(new)
        if self._units.lengths is not before.lengths:
            self._take_units()
        return X

    def _take_units(self) -> None:
        columns, lengths = self._units.columns, self._units.lengths
        self.offset_, self.scale_ = columns.offset, columns.unit
        self.margin_, self.eta_ = self.margin * lengths.row, self.eta0 * lengths.entry

    def _order(self, seed: Any) -> np.random.RandomState:
        """Return what draws the order of rows, once the seed of the next batch is drawn."""
        rng = check_random_state(seed)
        self._order_seed = int(rng.randint(np.iinfo(np.int32).max))
        return rng

    def _problem(self, rows: Any, y: NDArray[Any], weight: Array) -> Problem:
        rows = self._units.with_constant(rows) if self.fit_intercept else rows
        signs, of_classes = (
            signs_of(y, self.classes_),
            weights_of_classes(self.class_weight, y, weight),
        )
        weights = np.tile(product_of_weights(weight, of_classes), (len(signs), 1))
        n_threads = count_threads(self.n_jobs)
        return Problem(rows, signs, weights, self.margin_, self.alpha, n_threads)

    def _take(self, steps: Steps) -> None:
        """Set the weights in units of `X`, and the intercepts."""
        self._steps, self.n_iter_, n = steps, steps.n_iter, len(self.scale_)
        learned = steps.learned(self.average)
        with may_overflow():
            self.coef_ = learned[:, :n] * self.scale_
        if not np.isfinite(self.coef_).all():
            raise ValueError("The weights overflow in units of X: scale X down, or lower eta0.")
        self.intercept_ = learned[:, n].copy() if self.fit_intercept else np.zeros(len(learned))
