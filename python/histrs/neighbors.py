"""Nearest neighbours in the metrics of this package."""

import operator
from collections.abc import Callable, Iterator
from numbers import Integral
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, _fit_context
from sklearn.metrics import pairwise_distances
from sklearn.utils import Tags, gen_batches
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from histrs._validation import HISTOGRAM_CHECKS, Matrix, canonical, unchanged_on_error
from histrs.metrics import airm_distances, jbld_distances
from histrs.spd._stack import STACK_CHECKS, flattened, stacked

__all__ = ["MetricKNNClassifier"]

Kind = Literal["covariances", "histograms", "vectors"]

# Distances held at once.
_BATCH = 1 << 22


class Metric(NamedTuple):
    """A distance `(X, Y, *, n_jobs, **metric_params) -> (n_X, n_Y)`, and what it is between."""

    distances: Callable[..., NDArray[Any]]
    kind: Kind


# A metric is one line.
METRICS = {
    "airm": Metric(airm_distances, "covariances"),
    "euclidean": Metric(pairwise_distances, "vectors"),
    "jbld": Metric(jbld_distances, "covariances"),
}

_CHECKS: dict[Kind, dict[str, Any]] = {
    "covariances": {**STACK_CHECKS},
    "histograms": {**HISTOGRAM_CHECKS},
    "vectors": {"accept_sparse": "csr", "dtype": [np.float64, np.float32]},
}


class MetricKNNClassifier(ClassifierMixin, BaseEstimator):
    """Nearest-neighbour classifier in the metrics of this package.

    Every distance is computed, in blocks, so that the answer is that of brute force. Of
    neighbours at the same distance those that came first in training are taken.

    Parameters
    ----------
    n_neighbors : int, default=1
        Neighbours that vote.
    metric : {"jbld", "airm", "euclidean"} or callable, default="jbld"
        "jbld" and "airm" are between covariance matrices, as `histrs.metrics.jbld_distances` and
        `airm_distances`; "euclidean" is between vectors. A callable is given ``(X, Y, n_jobs=...)``
        and `metric_params`, and returns distances of shape (n_X, n_Y).
    weights : {"uniform", "distance"}, default="uniform"
        Whether every neighbour has one vote, or the inverse of its distance; neighbours at
        distance 0 then vote alone.
    metric_params : dict or None, default=None
        Further arguments of the metric.
    n_jobs : int or None, default=None
        Number of threads; None and -1 mean one a core.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The class labels.
    X_fit_ : {ndarray, CSR matrix} of shape (n_samples, n_features)
        The training data, matrices flattened.
    y_fit_ : ndarray of shape (n_samples,)
        Places of their labels in `classes_`.
    n_features_in_ : int
        Number of features, p * p for matrices of p rows.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, when `X` had string column names.

    See Also
    --------
    histrs.prototypes.CovarianceCompressor : Learns a few matrices that stand for all.

    References
    ----------
    .. [1] M. J. Kusner, N. I. Kolkin, S. Tyree and K. Q. Weinberger, "Image data compression for
       covariance and histogram descriptors", 2015.

    Examples
    --------
    >>> import numpy as np
    >>> from histrs.neighbors import MetricKNNClassifier
    >>> X = np.stack([np.diag([1.0, 1.0]), np.diag([5.0, 1.0]), np.diag([1.0, 5.0])])
    >>> model = MetricKNNClassifier(metric="airm").fit(X, ["round", "wide", "tall"])
    >>> model.predict([np.diag([9.0, 2.0])])
    array(['wide'], dtype='<U5')
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_neighbors": [Interval(Integral, 1, None, closed="left")],
        "metric": [StrOptions(set(METRICS)), callable],
        "weights": [StrOptions({"uniform", "distance"})],
        "metric_params": [dict, None],
        "n_jobs": [Integral, None],
    }

    def __init__(
        self,
        n_neighbors: int = 1,
        *,
        metric: str | Callable[..., NDArray[Any]] = "jbld",
        weights: Literal["uniform", "distance"] = "uniform",
        metric_params: dict[str, Any] | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.n_neighbors = n_neighbors
        self.metric = metric
        self.weights = weights
        self.metric_params = metric_params
        self.n_jobs = n_jobs

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: ArrayLike | Matrix, y: ArrayLike) -> Self:
        """Keep the training data.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features) or (n_samples, p, p)
            Histograms, vectors or covariance matrices, as the metric asks.
        y : array-like of shape (n_samples,)
            Their classes.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        with unchanged_on_error(self):
            checks = _CHECKS[self._metric().kind]
            X, y = validate_data(self, flattened(X), y, **checks)
            check_classification_targets(y)
            X = canonical(X)
            # Refuses now what every prediction would refuse.
            self._distances(X, X[:1])
            self.classes_, self.y_fit_ = np.unique(column_or_1d(y, warn=True), return_inverse=True)
            self.X_fit_ = X
        return self

    def kneighbors(
        self,
        X: ArrayLike | Matrix | None = None,
        n_neighbors: int | None = None,
        return_distance: bool = True,
    ) -> Any:
        """Find the nearest training samples.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_queries, n_features) or (n_queries, p, p), \
default=None
            Queries; None means the training samples, each without itself.
        n_neighbors : int, default=None
            Number of neighbours; None means that of the estimator.
        return_distance : bool, default=True
            Whether to return distances.

        Returns
        -------
        distances : ndarray of shape (n_queries, n_neighbors)
            Distances in ascending order, with `return_distance`.
        indices : ndarray of shape (n_queries, n_neighbors)
            Places of the neighbours in the training data.
        """
        check_is_fitted(self)
        k = self._count(n_neighbors, self.X_fit_.shape[0] - (X is None))
        queries = self.X_fit_ if X is None else self._check(X)
        distances = np.empty((queries.shape[0], k), dtype=np.float64)
        indices = np.empty((queries.shape[0], k), dtype=np.intp)
        for batch, D in self._batches(queries):
            if X is None:
                D[np.arange(len(D)), np.arange(batch.start, batch.stop)] = np.inf
            for i, row in enumerate(D, batch.start):
                # Ties at the last place are broken by index, as everywhere else.
                last = np.partition(row, k - 1)[k - 1]
                near = np.flatnonzero(row <= last)
                indices[i] = near[np.argsort(row[near], kind="stable")[:k]]
                distances[i] = row[indices[i]]
        return (distances, indices) if return_distance else indices

    def predict(self, X: ArrayLike | Matrix) -> NDArray[Any]:
        """Predict classes; of classes with as many votes the first of `classes_` is taken.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_queries, n_features) or (n_queries, p, p)
            Queries.

        Returns
        -------
        y : ndarray of shape (n_queries,)
            Classes.
        """
        shares = self.predict_proba(X)
        return np.asarray(self.classes_[np.argmax(shares, axis=1)])

    def predict_proba(self, X: ArrayLike | Matrix) -> NDArray[np.float64]:
        """Return the share of the votes of every class.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_queries, n_features) or (n_queries, p, p)
            Queries.

        Returns
        -------
        P : ndarray of shape (n_queries, n_classes)
            Shares, in the order of `classes_`.
        """
        distances, indices = self.kneighbors(X)
        votes = np.ones_like(distances)
        if self.weights == "distance":
            same = distances == 0.0
            # Divided by the smallest first, so that no vote overflows.
            nearest = np.where(same[:, :1], 1.0, distances[:, :1])
            votes = nearest / np.where(same, 1.0, distances)
            votes[same.any(axis=1)] = same[same.any(axis=1)]
        shares = np.zeros((len(votes), len(self.classes_)))
        np.add.at(shares, (np.arange(len(votes))[:, None], self.y_fit_[indices]), votes)
        return np.asarray(shares / shares.sum(axis=1, keepdims=True))

    def _count(self, n_neighbors: int | None, n_candidates: int) -> int:
        given = self.n_neighbors if n_neighbors is None else n_neighbors
        try:
            k = operator.index(given)
        except TypeError as error:
            raise TypeError(f"n_neighbors = {given!r}: expected a whole number.") from error
        if k < 1:
            raise ValueError(f"n_neighbors = {k}: it must be at least 1.")
        if k > n_candidates:
            raise ValueError(
                f"n_neighbors = {k} is more than the {n_candidates} samples to choose from; "
                "Expected n_neighbors <= n_samples_fit."
            )
        return k

    def _metric(self) -> Metric:
        return (
            METRICS[self.metric] if isinstance(self.metric, str) else Metric(self.metric, "vectors")
        )

    def _check(self, X: ArrayLike | Matrix) -> Matrix:
        checks = _CHECKS[self._metric().kind]
        return canonical(validate_data(self, flattened(X), reset=False, **checks))

    def _distances(self, X: Matrix, Y: Matrix) -> NDArray[Any]:
        metric = self._metric()
        if metric.kind == "covariances":
            X, Y = stacked(np.asarray(X)), stacked(np.asarray(Y))
        return metric.distances(X, Y, n_jobs=self.n_jobs, **(self.metric_params or {}))

    def _batches(self, X: Matrix) -> Iterator[tuple[slice, NDArray[Any]]]:
        """Yield rows of `X` and their distances, a bounded number at a time."""
        size = max(1, _BATCH // max(1, self.X_fit_.shape[0]))
        for batch in gen_batches(X.shape[0], size):
            yield batch, self._distances(X[batch], self.X_fit_)

    def __sklearn_tags__(self) -> Tags:
        """Return what scikit-learn may expect of the estimator."""
        tags = super().__sklearn_tags__()
        kind = self._metric().kind if callable(self.metric) or self.metric in METRICS else "vectors"
        tags.input_tags.sparse = kind != "covariances"
        tags.input_tags.positive_only = kind == "histograms"
        tags.input_tags.three_d_array = kind == "covariances"
        return tags
