"""What classifiers on few prototypes share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from numbers import Integral
from typing import Any, ClassVar, Literal, NamedTuple, Self, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax
from sklearn.base import ClassifierMixin, _fit_context
from sklearn.utils import Tags
from sklearn.utils._param_validation import Interval, RealNotInt
from sklearn.utils.validation import check_is_fitted

from histrs._calibration import likely_inverse_temperature
from histrs._checks.validation import naming_rows, unchanged_on_error
from histrs._estimator import BaseEstimator, documented
from histrs._typing import Array, Matrix
from histrs._weights import (
    encode,
    of_finite_sum,
    positive_weights,
    product_of_weights,
    refuse_zeros,
    weights_of_classes,
)
from histrs.neighbors._search import Found, check_count, in_precision, nearest
from histrs.neighbors._space import METRIC_CONSTRAINTS, Space, chosen, set_input_tags

Labels = NDArray[np.int64]
Indices = NDArray[np.intp]

# Samples that the inverse temperature of probabilities is learned from.
_CALIBRATION_ROWS = 500

COMPRESSION_CONSTRAINTS = [
    Interval(Integral, 1, None, closed="left"),
    Interval(RealNotInt, 0.0, 1.0, closed="right"),
]


class PrototypeClassifier(ClassifierMixin, BaseEstimator):
    """Predicts from the distances to prototypes."""

    classes_: NDArray[Any]
    prototypes_: Any
    prototype_labels_: NDArray[Any]

    def predict(self, X: ArrayLike | Matrix) -> NDArray[Any]:
        """Return the most probable classes.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_queries, n_features) or (n_queries, p, p)
            Queries, of the kind that it was trained on.

        Returns
        -------
        y : ndarray of shape (n_queries,)
            Classes; the first of those that are equally probable.
        """
        scores = self._decisive_scores(X)
        return np.asarray(self.classes_[np.argmax(scores, axis=1)])

    def predict_proba(self, X: ArrayLike | Matrix) -> NDArray[Any]:
        """Return the probabilities of the classes.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_queries, n_features) or (n_queries, p, p)
            Queries.

        Returns
        -------
        P : ndarray of shape (n_queries, n_classes)
            Probabilities, in the order of `classes_`: the predicted class has the largest.
        """
        return np.asarray(softmax(self._decisive_scores(X), axis=1))

    def decision_function(self, X: ArrayLike | Matrix) -> NDArray[Any]:
        """Return the logarithms of the probabilities but for what all classes share.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_queries, n_features) or (n_queries, p, p)
            Queries.

        Returns
        -------
        scores : ndarray of shape (n_queries, n_classes), or (n_queries,) for two classes
            Scores in the order of `classes_`; of two classes the second's less the first's.
        """
        scores = self._class_scores(X)
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    def _decisive_scores(self, X: ArrayLike | Matrix) -> NDArray[Any]:
        """Return class scores as far as the probabilities need them."""
        return self._class_scores(X)

    @abstractmethod
    def _class_scores(self, X: ArrayLike | Matrix) -> NDArray[Any]:
        """Return logarithms of what the probabilities are in proportion to."""

    @overload
    def kneighbors(
        self, X: ArrayLike | Matrix, n_neighbors: int = 1, return_distance: Literal[True] = True
    ) -> tuple[NDArray[Any], NDArray[np.intp]]: ...
    @overload
    def kneighbors(
        self, X: ArrayLike | Matrix, n_neighbors: int = 1, *, return_distance: Literal[False]
    ) -> NDArray[np.intp]: ...
    @overload
    def kneighbors(
        self, X: ArrayLike | Matrix, n_neighbors: int = 1, return_distance: bool = True
    ) -> NDArray[np.intp] | tuple[NDArray[Any], NDArray[np.intp]]: ...
    def kneighbors(
        self, X: ArrayLike | Matrix, n_neighbors: int = 1, return_distance: bool = True
    ) -> NDArray[np.intp] | tuple[NDArray[Any], NDArray[np.intp]]:
        """Find the nearest prototypes.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_queries, n_features) or (n_queries, p, p)
            Queries.
        n_neighbors : int, default=1
            Number of neighbours.
        return_distance : bool, default=True
            Whether to return distances.

        Returns
        -------
        distances : ndarray of shape (n_queries, n_neighbors)
            Distances in ascending order, with `return_distance`.
        indices : ndarray of shape (n_queries, n_neighbors)
            Indices of the neighbours in `prototypes_`.
        """
        distances, indices = self._kneighbors(X, n_neighbors)
        return (distances, indices) if return_distance else indices

    def _kneighbors(self, X: ArrayLike | Matrix, n_neighbors: int) -> Found:
        check_is_fitted(self)
        k = check_count(n_neighbors, len(self.prototype_labels_))
        queries = self._check_queries(X)
        distances, indices = self._nearest(queries, k)
        return in_precision(distances, queries.dtype), indices

    @abstractmethod
    def _check_queries(self, X: ArrayLike | Matrix) -> Any:
        """Return queries as `_nearest` takes them."""

    @abstractmethod
    def _nearest(self, X: Any, k: int) -> Found:
        """Return distances and indices of the `k` nearest prototypes."""


class InSpace(PrototypeClassifier):
    """Prototypes that queries meet in a metric of `MetricKNNClassifier`."""

    @abstractmethod
    def _space(self) -> Space:
        """Return the metric."""

    def _check_queries(self, X: ArrayLike | Matrix) -> Matrix:
        checked: Matrix = self._space().check(self, X, reset=False)
        return checked

    def _nearest(self, X: Matrix, k: int) -> Found:
        return self._space().nearest(X, self.prototypes_, k)


class Training(NamedTuple):
    """Samples to choose from, and the metric to choose in."""

    space: Space
    X: Any
    """Rows; `Checked` ones where prototypes are added one by one."""
    labels: Labels
    classes: NDArray[Any]
    weights: Array | None = None

    def some(self, indices: Indices) -> dict[str, Any]:
        """Return some of the samples as `fit` and `score` take them."""
        weights = None if self.weights is None else self.weights[indices]
        return {"X": self.X[indices], "y": self.labels[indices], "sample_weight": weights}

    def weight_of(self, rows: NDArray[np.bool_]) -> float:
        """Return the number of the samples that are marked, or the sum of their weights."""
        return float(np.sum(rows if self.weights is None else self.weights[rows]))

    def distances(self, indices: Indices) -> NDArray[Any]:
        """Return the distances of all samples to some."""
        return self.space.distances(self.X, self.X[indices])


@documented()
class SelectedPrototypes(InSpace):
    """Prototypes that are training samples; the nearest decide."""

    inverse_temperature_: float

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "metric": METRIC_CONSTRAINTS,
        "n_neighbors": [Interval(Integral, 1, None, closed="left")],
    }

    metric: str | Callable[..., NDArray[Any]]
    metric_params: dict[str, Any] | None
    n_neighbors: int
    n_jobs: int | None

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(
        self, X: ArrayLike | Matrix, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Choose the prototypes; when it raises, the estimator is as it was.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features) or (n_samples, p, p)
            Histograms, vectors or covariance matrices, as the metric asks; distances of all pairs
            where it is "precomputed".
        y : array-like of shape (n_samples,)
            Their classes.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the samples that probabilities are learned from, and that are counted where
            the rule counts misclassified ones. Samples of weight 0 are left out. A sample of
            weight 3 differs from three equal samples: copies of a prototype are further samples to
            learn from, and to draw among.

        {self}
        """
        with unchanged_on_error(self):
            self.metric_ = chosen(self.metric, X)
            self.metric_params_ = dict(self.metric_params or {})
            space = self._space()
            X, y = space.check(self, X, y=y)
            rows, weight, used = space.training(X), None, np.arange(len(y))
            if sample_weight is not None:
                weight = of_finite_sum(positive_weights(sample_weight, len(y)))
                used = np.flatnonzero(weight)
                rows, y, weight = rows[used], y[used], weight[used]
            self.classes_, labels = encode(y)
            # Refuses what every prediction would refuse.
            with naming_rows(used):
                space.distances(rows, rows[:1])
            weight = self._with_classes(weight, labels)
            training = Training(space, rows, labels, self.classes_, weight)
            indices = self._select(training)
            check_count(self.n_neighbors, len(indices))
            self.prototypes_ = space.kept(rows[indices])
            self.prototype_labels_ = self.classes_[labels[indices]]
            self.inverse_temperature_ = self._likely_inverse_temperature(training, indices)
            self.sample_indices_ = used[indices]
        return self

    def _with_classes(self, weight: Array | None, labels: Labels) -> Array | None:
        """Return weights times those of the classes, for rules that have them."""
        class_weight = getattr(self, "class_weight", None)
        if class_weight is None:
            return weight
        of_classes = weights_of_classes(class_weight, self.classes_[labels], weight)
        found = product_of_weights(np.ones(len(labels)) if weight is None else weight, of_classes)
        refuse_zeros(found, "class_weight")
        return found

    def _likely_inverse_temperature(self, training: Training, chosen: Indices) -> float:
        """Return the inverse temperature at which labels of other samples are likeliest."""
        others = np.setdiff1d(np.arange(len(training.labels)), chosen)
        # Some are enough for one number.
        others = others[:: max(1, len(others) // _CALIBRATION_ROWS)]
        weights = np.ones(len(others)) if training.weights is None else training.weights[others]
        if not weights.any():
            return 1.0
        D = self._space().distances(training.X[others], self.prototypes_)
        distances = self._class_distances(D.astype(np.float64))
        return likely_inverse_temperature(distances, training.labels[others], weights)

    def _class_distances(self, D: Array) -> Array:
        """Return distances to the nearest prototype of each class, infinite where it has none."""
        # What is too far to be told is still nearer than a class without a prototype.
        D = np.minimum(D, np.finfo(np.float64).max)
        of_class = self.prototype_labels_ == self.classes_[:, None]
        return np.stack([D[:, own].min(axis=1, initial=np.inf) for own in of_class], axis=1)

    def _class_scores(self, X: ArrayLike | Matrix) -> NDArray[Any]:
        check_is_fitted(self)
        queries = self._check_queries(X)
        D = self._space().distances(queries, self.prototypes_).astype(np.float64)
        of_classes = self._class_distances(D)
        with np.errstate(over="ignore"):
            scores = -np.minimum(self.inverse_temperature_ * of_classes, np.finfo(np.float64).max)
        scores[np.isinf(of_classes)] = -np.inf
        if self.n_neighbors > 1:
            scores = self._voted(D, scores)
        return in_precision(scores, queries.dtype)

    def _voted(self, D: Array, scores: Array) -> Array:
        """Return logarithms of numbers of votes, with one vote more by the nearest distances.

        It is less than one for a class, so that it decides where others tie.
        """
        k = check_count(self.n_neighbors, len(self.prototype_labels_))
        _, indices = nearest(D, k)
        labels = self.prototype_labels_[indices]
        votes = np.stack([np.sum(labels == label, axis=1) for label in self.classes_], axis=1)
        found = votes + softmax(scores, axis=1)
        return np.log(np.maximum(found, np.finfo(np.float64).tiny))

    def predict(self, X: ArrayLike | Matrix) -> NDArray[Any]:
        """Return the most frequent class of the nearest prototypes.

        They are the most probable ones.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_queries, n_features) or (n_queries, p, p)
            Queries, of the kind that it was trained on.

        Returns
        -------
        y : ndarray of shape (n_queries,)
            Classes; of prototypes at the same distance the first decides.
        """
        if self.n_neighbors > 1:
            return super().predict(X)
        _, indices = self._kneighbors(X, 1)
        return np.asarray(self.prototype_labels_[indices[:, 0]])

    @abstractmethod
    def _select(self, training: Training) -> Indices:
        """Return the indices of the prototypes."""

    def _space(self) -> Space:
        return Space(self.metric_, self.metric_params_, self.n_jobs)

    def __sklearn_tags__(self) -> Tags:
        """Return what scikit-learn may expect of the estimator."""
        return set_input_tags(super().__sklearn_tags__(), self.metric)
