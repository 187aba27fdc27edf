"""Classification on learned projections."""

from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin, _fit_context
from sklearn.utils.validation import check_consistent_length

from histrs._labels import encode
from histrs._solvers.block_cg import Array
from histrs._threads import blas_threads_at_most
from histrs.gaussian_process._classifier import IntersectionGPClassifier
from histrs.gaussian_process._sliced.base import (
    SEARCHED_ROWS,
    BaseSlicedGP,
    copied,
    distinct_rows,
    take,
)
from histrs.gaussian_process._sliced.classes import learn_class_metric
from histrs.gaussian_process._sliced.columns import Columns
from histrs.gaussian_process._state import replaced_whole

# A metric that is learned in more steps predicts no better.
_MAX_STEPS = 2


class SlicedGPClassifier(ClassifierMixin, BaseSlicedGP):
    r"""Gaussian process classifier for tables, with all interactions and calibrated probabilities.

    The kernel is 0.7 times the energy-distance kernel of random projections in a learned metric,
    and 0.3 times the additive one of the columns, each of one size; see `SlicedGPRegressor`. For
    every class a Gaussian process is fitted to targets +1 and -1, with the noise and amplitude of
    largest likelihood, and the scores are calibrated by leaving each training row out. From
    1,000 rows on, a metric is learned from two thirds of them, by at most two steps, as many as
    the other third's log loss asks for.

    Parameters
    ----------
    n_projections : "auto" or int, default="auto"
        Number of projections; "auto" takes 512, above 100,000 rows 256.
    metric : {"learned", "identity"}, default="learned"
        Whether the metric is learned, or that of the standardised columns.
    n_metric_steps : int, default=3
        Steps of the metric that are tried, of which two at most.
    tol : float, default=1e-4
        As for `IntersectionGPClassifier`.
    max_iter : int, default=1000
        Most iterations of the solver.
    solver : str, default="auto"
        As for `IntersectionGPClassifier`.
    n_bins : int or None, default=None
        Cells a projection of the look-up table that predicts in constant time; None predicts
        exactly.
    interpolation : {"linear", "nearest"}, default="linear"
        What a cell of the table holds.
    variance : str, default="auto"
        As for `IntersectionGPClassifier`.
    random_state : int, RandomState instance or None, default=0
        Draws directions, and the rows that the metric is learned from.
    n_jobs : int or None, default=None
        Number of threads; results do not depend on it.
    verbose : int, default=0
        Above 0, progress of the solver.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The class labels.
    metric_ : ndarray of shape (n_columns, n_columns)
        The metric over the standardised columns, of trace `n_columns`.
    feature_importances_ : ndarray of shape (n_features,)
        Share of each feature in the diagonal of `metric_`.
    directions_ : ndarray of shape (n_columns, n_projections + n_columns)
        Directions of the projections; the last are the columns themselves.
    offsets_ : ndarray
        What is subtracted from each.
    noise_ : float
        Noise variance of the targets +1 and -1.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, when `X` had string column names.

    See Also
    --------
    IntersectionGPClassifier : The additive model, for histograms.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.model_selection import train_test_split
    >>> from histrs.gaussian_process import SlicedGPClassifier
    >>> X_train, X_test, y_train, y_test = train_test_split(
    ...     *load_wine(return_X_y=True), random_state=0
    ... )
    >>> model = SlicedGPClassifier().fit(X_train, y_train)
    >>> model.score(X_test, y_test) > 0.95
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {**BaseSlicedGP._parameter_constraints}

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn the metric, and fit; when it raises, nothing changes.

        Parameters
        ----------
        X : {array-like, data frame} of shape (n_samples, n_features)
            Rows of any sign. NaN is a missing value; columns of a data frame that are no numbers
            are categories.
        y : array-like of shape (n_samples,)
            Class labels.

        Returns
        -------
        self : object
            The fitted estimator.

        Raises
        ------
        ValueError
            If an entry is infinite, the lengths differ, or there are fewer than two classes.
        """
        with replaced_whole(self) as draft:
            X = draft._check_rows(X, reset=True)
            classes, codes = encode(y)
            check_consistent_length(X, codes)
            if len(classes) < 2:
                raise ValueError(
                    "SlicedGPClassifier needs samples of at least 2 classes, but y contains only "
                    f"one class: {classes.tolist()[0]!r}. Add samples of another one."
                )
            columns = Columns(X)
            A = columns.apply(X)
            kept = distinct_rows(A, codes[:, None].astype(np.float64))
            random = draft._random()
            rows = kept[draft._rows_to_learn_from(len(kept), SEARCHED_ROWS, random)]
            # On matrices of this size, BLAS's threads mostly wait for one another.
            with blas_threads_at_most(1):
                learned = learn_class_metric(
                    A[rows],
                    np.unique(codes[rows], return_inverse=True)[1],
                    n_directions=draft._n_directions(len(kept), 1),
                    n_steps=min(draft._n_steps(), _MAX_STEPS),
                    random=random,
                    n_threads=draft._threads(),
                )
            inner = IntersectionGPClassifier(
                feature_weights=learned.weights, **draft._inner_parameters()
            )
            T = draft._keep_projection(columns, learned, take(X, kept))
            draft._inner = inner.fit(T, codes[kept])
            draft.classes_, draft.noise_ = classes, inner.noise_
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X: ArrayLike, y: ArrayLike, classes: ArrayLike | None = None) -> Self:
        """Add rows of known classes; metric and variances stay. The first call is `fit`.

        Parameters
        ----------
        X : {array-like, data frame} of shape (n_samples, n_features)
            Further rows.
        y : array-like of shape (n_samples,)
            Their labels.
        classes : array-like, default=None
            All classes; where given, the labels of the first call must be these.

        Returns
        -------
        self : object
            The fitted estimator.

        Raises
        ------
        ValueError
            As `fit`; if there are other columns than before, or labels of no known class.
        """
        if not self.__sklearn_is_fitted__():
            self.fit(X, y)
            return self
        T = self._project(X)
        labels = np.asarray(y)
        check_consistent_length(T, labels)
        unknown = np.flatnonzero(~np.isin(labels, self.classes_))
        if len(unknown) > 0:
            raise ValueError(
                f"y[{unknown[0]}] = {labels.tolist()[unknown[0]]!r} is none of the classes of the "
                f"fit, {self.classes_.tolist()}: fit anew."
            )
        with replaced_whole(self) as draft:
            codes = np.searchsorted(self.classes_, labels)
            draft._inner = copied(self._current_inner()).partial_fit(T, codes)
        return self

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Predict the most probable classes.

        Parameters
        ----------
        X : {array-like, data frame} of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            Predicted classes.
        """
        T = self._project(X)
        labels: NDArray[Any] = self.classes_[self._current_inner().predict(T)]
        return labels

    def decision_function(self, X: ArrayLike) -> Array:
        """Return the logits of the probabilities.

        Parameters
        ----------
        X : {array-like, data frame} of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        scores : ndarray of shape (n_samples,) or (n_samples, n_classes)
            For two classes, positive for ``classes_[1]``.
        """
        T = self._project(X)
        scores: Array = self._current_inner().decision_function(T)
        return scores

    def predict_proba(self, X: ArrayLike) -> Array:
        """Return calibrated class probabilities.

        Parameters
        ----------
        X : {array-like, data frame} of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_classes)
            Rows sum to 1; columns are in the order of `classes_`.
        """
        T = self._project(X)
        probabilities: Array = self._current_inner().predict_proba(T)
        return probabilities
