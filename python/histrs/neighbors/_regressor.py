"""The nearest-neighbour regressor."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import RegressorMixin, _fit_context
from sklearn.utils import Tags

from histrs._checks.validation import unchanged_on_error
from histrs._estimator import documented
from histrs._typing import Array, Matrix
from histrs.neighbors._base import BaseMetricKNN, votes
from histrs.neighbors._docs import NEIGHBORS


@documented(NEIGHBORS)
class MetricKNNRegressor(RegressorMixin, BaseMetricKNN):
    """Nearest-neighbour regressor in the metrics of this package: means of neighbours' targets.

    Parameters
    ----------
    n_neighbors : int or "auto", default=1
        Number of neighbours whose targets are averaged. "auto" tries numbers up to 56, and takes
        the one with the smallest leave-one-out error. It computes the distances of all pairs.
    metric : str or callable, default="auto"
        As for `MetricKNNClassifier`.
    weights : {"uniform", "distance", "auto"}, default="uniform"
        Whether every neighbour counts the same, or the inverse of its distance; neighbours at
        distance 0 then count alone. "auto" takes the one with the smallest leave-one-out error.
    {metric_params}
    {n_jobs}
    {verbose}

    Attributes
    ----------
    {n_neighbors_}
    {metric_}
    {metric_params_}
    {X_fit_}
    {sample_indices_}
    y_fit_ : ndarray of shape (n_samples,) or (n_samples, n_targets)
        Their targets.
    sample_weight_ : ndarray of shape (n_samples,) or None
        Their weights in the means; None if all are equal.
    {n_features_in_}
    {feature_names_in_}

    See Also
    --------
    MetricKNNClassifier : The same for class labels.

    Examples
    --------
    >>> from histrs.neighbors import MetricKNNRegressor
    >>> X = [[1.0, 3.0], [2.0, 2.0], [3.0, 1.0]]
    >>> model = MetricKNNRegressor(2, weights="distance").fit(X, [0.0, 1.0, 2.0])
    >>> model.predict([[2.0, 2.0]])
    array([1.])
    """

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(
        self, X: ArrayLike | Matrix, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Keep the training data.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features) or (n_samples, p, p)
            Histograms, vectors or covariance matrices, as the metric asks.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Their targets.
        sample_weight : array-like of shape (n_samples,), default=None
            Factors of their part in means; samples of weight 0 are left out. The number of
            neighbours counts samples, whatever they weigh.

        {self}
        """
        with unchanged_on_error(self):
            y = self._keep(X, y, sample_weight, multi_output=True)
            self.y_fit_ = y.astype(y.dtype if y.dtype == np.float32 else np.float64, copy=False)
            self._choose(self._error)
        return self

    def _error(self, counts: NDArray[Any], indices: NDArray[np.intp]) -> float:
        errors = self._means(counts, indices) - self.y_fit_
        weight = self.sample_weight_
        weight = None if weight is None else weight / weight.max()
        # Each target in its own unit, in which squares stay within the range.
        targets = self.y_fit_.astype(np.float64, copy=False)
        size = np.max(np.abs(targets), axis=0)
        size = np.where(size > 0.0, size, 1.0)
        targets = targets / size
        mean = np.average(targets, axis=0, weights=weight)
        spread = np.sqrt(np.average((targets - mean) ** 2, axis=0, weights=weight))
        # One that is constant has no unit, whatever its mean was rounded to.
        varies = np.ptp(targets, axis=0) > 0.0
        squares = (errors / size / np.where(varies, spread, 1.0)) ** 2
        return float(np.mean(np.average(squares, axis=0, weights=weight)))

    def predict(self, X: ArrayLike | Matrix) -> NDArray[Any]:
        """Predict targets.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_queries, n_features) or (n_queries, p, p)
            Queries.

        Returns
        -------
        y : ndarray of shape (n_queries,) or (n_queries, n_targets)
            Weighted means; float32 when both `X` and the targets of training are.
        """
        distances, indices = self.kneighbors(X)
        means = self._means(votes(distances, self._settings()[1]), indices)
        # Targets may have more digits than rows.
        return means.astype(np.result_type(distances, self.y_fit_), copy=False)

    def _means(self, counts: NDArray[Any], indices: NDArray[np.intp]) -> Array:
        counts = self._weighed(counts, indices)
        shares = counts / counts.sum(axis=1, keepdims=True)
        targets = self.y_fit_[indices].astype(np.float64, copy=False)
        means: Array = np.einsum("ij,ij...->i...", shares, targets)
        return means

    def __sklearn_tags__(self) -> Tags:
        """Return what scikit-learn may expect of the estimator."""
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
