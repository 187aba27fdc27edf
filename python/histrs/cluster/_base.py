"""What estimators of clusters in a metric share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from histrs._checks.rows import Checked
from histrs._estimator import BaseEstimator
from histrs._typing import Array, Matrix
from histrs.neighbors._search import in_precision
from histrs.neighbors._space import Space, chosen, set_input_tags

CLUSTERS = {
    "metric_params": """
metric_params : dict or None, default=None
    Further arguments of the metric, such as `M` and `reg` of "sinkhorn".
""",
    "random_state": """
random_state : int, RandomState instance or None, default=None
    Draws the first centres. The probability of a sample is proportional to its cost to the nearest
    centre that is already drawn (k-means++ [2]_).
n_jobs : int or None, default=None
    Number of threads; None and -1 mean one per core.
""",
    "metric_": """
metric_ : str or callable
    The metric of the training data.
metric_params_ : dict
    Its further arguments.
n_features_in_ : int
    Number of features, p * p for matrices of p rows.
feature_names_in_ : ndarray of shape (n_features,)
    Names of the features, when `X` had string column names.
""",
    "arthur": """
.. [2] D. Arthur and S. Vassilvitskii, "k-means++: the advantages of careful seeding", SODA 2007.
""",
    "fit": """
Parameters
----------
X : {array-like, sparse matrix} of shape (n_samples, n_features) or (n_samples, p, p)
    Histograms, vectors or covariance matrices, as the metric asks. `MetricKMeans` takes no sparse
    matrix.
y : array-like, default=None
    Ignored.

Returns
-------
self : object
    The fitted estimator.
""",
}


class MetricClusters(
    ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin, BaseEstimator
):
    """Clusters with a centre each."""

    n_clusters: int
    metric: str | Callable[..., NDArray[Any]]
    metric_params: dict[str, Any] | None
    n_jobs: int | None
    metric_: Any
    metric_params_: dict[str, Any]
    cluster_centers_: Any

    def transform(self, X: ArrayLike | Matrix) -> NDArray[Any]:
        """Return the distances to the centres.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_queries, n_features) or (n_queries, p, p)
            Queries.

        Returns
        -------
        D : ndarray of shape (n_queries, n_clusters)
            Distances in the metric.
        """
        check_is_fitted(self)
        space = self._space()
        queries = space.check(self, X, reset=False)
        D = space.distances(queries, self.cluster_centers_).astype(np.float64, copy=False)
        return in_precision(D, queries.dtype)

    def predict(self, X: ArrayLike | Matrix) -> NDArray[np.int64]:
        """Return the cluster of each query.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_queries, n_features) or (n_queries, p, p)
            Queries.

        Returns
        -------
        labels : ndarray of shape (n_queries,)
            Indices of the nearest centres; the first of several that are equally near.
        """
        return np.asarray(np.argmin(self.transform(X), axis=1), dtype=np.int64)

    def _space(self) -> Space:
        return Space(self.metric_, self.metric_params_, self.n_jobs)

    def _training(self, X: Any) -> tuple[Space, Checked]:
        """Return what measures distances, and the samples of a fit, checked."""
        self.metric_ = chosen(self.metric, X)
        self.metric_params_ = dict(self.metric_params or {})
        space = self._space()
        rows = space.training(space.check(self, X))
        if self.n_clusters > rows.shape[0]:
            raise ValueError(
                f"X has n_samples = {rows.shape[0]}, fewer than n_clusters = {self.n_clusters}: "
                "ask for fewer."
            )
        return space, rows

    @property
    def _n_features_out(self) -> int:
        return int(self.cluster_centers_.shape[0])

    def __sklearn_tags__(self) -> Tags:
        """Return what scikit-learn may expect of the estimator."""
        return set_input_tags(super().__sklearn_tags__(), self.metric)


def seeds(
    n_clusters: int, n_samples: int, costs: Callable[[int], Array], random: np.random.RandomState
) -> list[int]:
    """Return the samples that are drawn as first centres; `costs` are of all samples beside one."""
    chosen = [int(random.randint(n_samples))]
    least = finite(costs(chosen[0])[:, None], chosen)[:, 0]
    while len(chosen) < n_clusters:
        # In a unit in which sums do not overflow; where all are met exactly, of all.
        largest = least.max()
        weights = least / largest if largest > 0.0 else np.ones(len(least))
        chosen.append(int(random.choice(len(weights), p=weights / weights.sum())))
        least = np.minimum(least, finite(costs(chosen[-1])[:, None], chosen[-1:])[:, 0])
    return chosen


def finite(costs: Array, centres: Sequence[int]) -> Array:
    """Return distances to some samples, a column each; refuse what no cluster can be made of."""
    bad = np.argwhere(~(costs >= 0.0) | np.isinf(costs))
    if len(bad) > 0:
        row, column = bad[0]
        raise ValueError(
            f"The distance of X[{row}] and X[{centres[column]}] is {costs[row, column]:.3g}: "
            "clusters take distances that are finite and not negative; choose another metric or "
            "other parameters."
        )
    return costs
