"""The nearest-neighbour classifier."""

from collections.abc import Callable
from numbers import Integral
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, _fit_context
from sklearn.utils import Tags
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from histrs._labels import encode
from histrs._validation import Matrix, unchanged_on_error
from histrs.neighbors._search import check_count, in_precision
from histrs.neighbors._space import METRIC_CONSTRAINTS, Space, chosen, set_input_tags


class MetricKNNClassifier(ClassifierMixin, BaseEstimator):
    """Nearest-neighbour classifier in the metrics of this package.

    The answer is that of brute force. Of neighbours at the same distance those that came first in
    training are taken. Where a cheaper bound below the distance is known, only distances that it
    leaves open are computed: for "airm" the divergence of :func:`~histrs.metrics.jbld_distances`,
    for "emd" and the cost of transport of "sinkhorn" relaxed transport and, where `M` is a
    metric, the distances to single bins.

    Parameters
    ----------
    n_neighbors : int, default=1
        Neighbours that vote.
    metric : str or callable, default="auto"
        "auto" takes "jbld" for a stack of matrices, of shape (n_samples, p, p), and "chi2" for
        rows, of shape (n_samples, n_features): flattened matrices need the name of a metric.
        Between covariance matrices "jbld" and "airm"; between histograms "chi2", "minmax",
        "sinkhorn" and "emd", each as the function of `histrs.metrics` of that name, and
        :math:`k(x, x) + k(y, y) - 2 k(x, y)` of the kernels "intersection" (which is the sum of
        :math:`|x - y|`), "hellinger", "jensen_shannon", "additive_chi2" and "exp_chi2"; between
        vectors "euclidean". A callable is given ``(X, Y, n_jobs=...)`` and `metric_params`, and
        returns distances of shape (n_X, n_Y).
    weights : {"uniform", "distance"}, default="uniform"
        Whether every neighbour has one vote, or the inverse of its distance; neighbours at
        distance 0 then vote alone.
    metric_params : dict or None, default=None
        Further arguments of the metric, such as `M` and `reg` of "sinkhorn".
    n_jobs : int or None, default=None
        Number of threads; None and -1 mean one a core.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The class labels.
    metric_ : str or callable
        The metric of the training data.
    metric_params_ : dict
        Its further arguments.
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
    histrs.prototypes.HistogramCompressor : The same of histograms.

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
        "metric": METRIC_CONSTRAINTS,
        "weights": [StrOptions({"uniform", "distance"})],
        "metric_params": [dict, None],
        "n_jobs": [Integral, None],
    }

    def __init__(
        self,
        n_neighbors: int = 1,
        *,
        metric: str | Callable[..., NDArray[Any]] = "auto",
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
            self.metric_ = chosen(self.metric, X)
            self.metric_params_ = dict(self.metric_params or {})
            space = self._space()
            X, y = space.check(self, X, y=y)
            self.classes_, self.y_fit_ = encode(y)
            # Refuses now what every prediction would refuse.
            space.distances(X, X[:1])
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
        wanted = self.n_neighbors if n_neighbors is None else n_neighbors
        k = check_count(wanted, self.X_fit_.shape[0] - (X is None))
        space = self._space()
        queries = self.X_fit_ if X is None else space.check(self, X, reset=False)
        distances, indices = space.nearest(queries, self.X_fit_, k, others=X is None)
        distances = in_precision(distances, queries.dtype)
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

    def predict_proba(self, X: ArrayLike | Matrix) -> NDArray[Any]:
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
        votes = np.ones_like(distances, dtype=np.float64)
        if self.weights == "distance":
            same = distances == 0.0
            # Divided by the smallest first, so that no vote overflows.
            nearest = np.where(same[:, :1], 1.0, distances[:, :1])
            votes = nearest / np.where(same, 1.0, distances)
            votes[same.any(axis=1)] = same[same.any(axis=1)]
        shares = np.zeros((len(votes), len(self.classes_)))
        np.add.at(shares, (np.arange(len(votes))[:, None], self.y_fit_[indices]), votes)
        shares /= shares.sum(axis=1, keepdims=True)
        return shares.astype(distances.dtype, copy=False)

    def _space(self) -> Space:
        return Space(self.metric_, self.metric_params_, self.n_jobs)

    def __sklearn_tags__(self) -> Tags:
        """Return what scikit-learn may expect of the estimator."""
        return set_input_tags(super().__sklearn_tags__(), self.metric)
