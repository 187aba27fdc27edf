"""Clusters around samples."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import _fit_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval

from histrs._checks.validation import check_random_state, unchanged_on_error
from histrs._estimator import documented
from histrs._typing import Array, Matrix
from histrs._warnings import warn
from histrs.cluster._base import CLUSTERS, MetricClusters, finite, seeds
from histrs.neighbors._space import METRIC_CONSTRAINTS

# A swap that gains less, as a part of the sum, is rounding.
_LEAST_GAIN = 1e-12


@documented(CLUSTERS)
class KMedoids(MetricClusters):
    r"""Clusters around samples, in any metric.

    The medoids, a set :math:`S` of :math:`k` samples, are to minimise the sum of distances to the
    nearest medoid,

    .. math:: \sum_i \min_{j \in S} d(x_i, x_j).

    The swaps of PAM [1]_ search for the minimum. A medoid is exchanged for the sample that lowers
    the sum most, until no exchange lowers it. All swaps are judged at once, from the two nearest
    medoids of each sample [3]_. The distances of all pairs are kept meanwhile.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters.
    metric : str or callable, default="auto"
        A metric of :class:`~histrs.neighbors.MetricKNNClassifier`.
    {metric_params}
    max_iter : int, default=300
        Most swaps.
    {random_state}

    Attributes
    ----------
    medoid_indices_ : ndarray of shape (n_clusters,)
        The samples that are centres.
    cluster_centers_ : {ndarray, CSR matrix} of shape (n_clusters, n_features)
        These samples, of shape (n_clusters, p, p) for a stack of matrices. For "precomputed" their
        indices.
    labels_ : ndarray of shape (n_samples,)
        The cluster of each sample.
    inertia_ : float
        The sum.
    n_iter_ : int
        Swaps.
    {metric_}

    Warns
    -----
    ConvergenceWarning
        If a swap still lowered the sum after `max_iter`.

    See Also
    --------
    MetricKMeans : Centres that are means.

    References
    ----------
    .. [1] L. Kaufman and P. J. Rousseeuw, "Partitioning around medoids (program PAM)", in: Finding
       groups in data, Wiley 1990.
    {arthur}
    .. [3] E. Schubert and P. J. Rousseeuw, "Fast and eager k-medoids clustering: O(k) runtime
       improvement of the PAM, CLARA, and CLARANS algorithms", Information Systems 101, 2021.

    Examples
    --------
    >>> from histrs.cluster import KMedoids
    >>> X = [[9.0, 1.0], [8.0, 2.0], [7.0, 3.0], [2.0, 8.0], [1.0, 9.0], [0.5, 9.5]]
    >>> model = KMedoids(2, metric="chi2", random_state=0).fit(X)
    >>> sorted(model.medoid_indices_.tolist())
    [1, 4]
    """

    medoid_indices_: NDArray[np.intp]
    labels_: NDArray[np.int64]
    inertia_: float
    n_iter_: int

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_clusters": [Interval(Integral, 1, None, closed="left")],
        "metric": METRIC_CONSTRAINTS,
    }

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        metric: str | Callable[..., NDArray[Any]] = "auto",
        metric_params: dict[str, Any] | None = None,
        max_iter: int = 300,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.metric = metric
        self.metric_params = metric_params
        self.max_iter = max_iter
        self.random_state = random_state
        self.n_jobs = n_jobs

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: ArrayLike | Matrix, y: ArrayLike | None = None) -> Self:
        """Find the clusters.

        {fit}
        """
        with unchanged_on_error(self):
            space, rows = self._training(X)
            D = space.distances(rows, rows).astype(np.float64, copy=False)
            finite(D, range(len(D)))
            random = check_random_state(self.random_state)
            medoids = np.array(seeds(self.n_clusters, len(D), lambda i: D[:, i], random))
            gain = self._swap(D, medoids)
            self.medoid_indices_ = medoids
            self.cluster_centers_ = space.kept(rows[medoids])
            self.labels_ = np.argmin(D[:, medoids], axis=1).astype(np.int64)
            self.inertia_ = float(D[:, medoids].min(axis=1).sum())
        if gain > 0.0:
            warn(
                f"KMedoids stopped after {self.n_iter_} swaps, but one more swap would lower the "
                f"sum of distances, {self.inertia_:.6g}, by {gain:.2g}; raise max_iter.",
                ConvergenceWarning,
            )
        return self

    def _swap(self, D: Array, medoids: NDArray[np.intp]) -> float:
        """Change the medoids while that lowers the sum; return what one more swap would gain."""
        self.n_iter_ = 0
        while True:
            change, best = _best_swap(D, medoids)
            if -change <= _LEAST_GAIN * D[:, medoids].min(axis=1).sum():
                return 0.0
            if self.n_iter_ == self.max_iter:
                return -change
            medoids[best[0]] = best[1]
            self.n_iter_ += 1


def _best_swap(D: Array, medoids: NDArray[np.intp]) -> tuple[float, tuple[int, int]]:
    """Return by how much the best swap changes the sum, and which medoid goes for which sample."""
    k = len(medoids)
    to_medoids = D[:, medoids]
    order = np.argsort(to_medoids, axis=1, kind="stable")
    first = np.take_along_axis(to_medoids, order[:, :1], axis=1)
    second = np.full_like(first, np.inf)
    if k > 1:
        second = np.take_along_axis(to_medoids, order[:, 1:2], axis=1)
    # Samples that the new one is nearer to go to it, whichever leaves; others of a medoid that
    # leaves go to the nearer of the new one and their second.
    joined = np.minimum(D - first, 0.0).sum(axis=0)
    lost = np.clip(D, first, second) - first
    members = order[:, 0] == np.arange(k)[:, None]
    change = members.astype(np.float64) @ lost + joined
    change[:, medoids] = np.inf
    best = np.unravel_index(np.argmin(change), change.shape)
    return float(change[best]), (int(best[0]), int(best[1]))
