"""Clusters around means."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import _fit_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags
from sklearn.utils._param_validation import Interval

from histrs._checks.rows import Checked
from histrs._checks.sparse import refuse_sparse
from histrs._checks.validation import NameOptions, check_random_state, unchanged_on_error
from histrs._estimator import documented
from histrs._typing import Array
from histrs._warnings import warn
from histrs.cluster._base import CLUSTERS, MetricClusters, seeds
from histrs.metrics._registry import METRICS
from histrs.neighbors._space import Space
from histrs.quantization._metrics import METRICS as CODE_METRICS
from histrs.spd._geometry import GEOMETRIES
from histrs.transport._arguments import finite_costs
from histrs.transport._barycenters import sinkhorn_barycenter
from histrs.transport._ground import GridDistance

# Of means within an iteration, which are only compared with.
_TOL = 1e-6
_TRANSPORT_TOL = 1e-3
# Least regularisation of a barycentre, as a fraction of the largest cost.
_LEAST_REG = 1 / 50

Mean = Callable[..., NDArray[Any]]


def _of_matrices(name: str) -> Mean:
    def mean(X: NDArray[Any], *, n_jobs: int | None) -> NDArray[Any]:
        return GEOMETRIES[name].mean(X, np.ones(len(X)), n_jobs, tol=_TOL, max_iter=1000).matrix

    return mean


def _of_rows(name: str) -> Mean:
    metric = CODE_METRICS[name]

    def mean(X: NDArray[Any], **_: Any) -> NDArray[Any]:
        wide = X.astype(np.float64)
        start = metric.values(metric.coordinates(wide).mean(axis=0))[None]
        if metric.centres is not None:
            start = metric.centres(wide, np.zeros(len(X), dtype=np.intp), start)
        return np.asarray(start[0])

    return mean


def _of_transport(
    X: NDArray[Any],
    *,
    M: ArrayLike | GridDistance | None = None,
    reg: float | None = None,
    n_jobs: int | None,
    **_: Any,
) -> NDArray[Any]:
    M, largest = finite_costs(M, X.shape[1])
    least = _LEAST_REG * largest or 1.0
    # Debiased, because the plain one is blurred: transport to it may cost more than to a sample.
    found = sinkhorn_barycenter(
        X,
        M=M,
        reg=least if reg is None else max(reg, least),
        debiased=isinstance(M, GridDistance) or bool(np.array_equal(M, np.transpose(M))),
        tol=_TRANSPORT_TOL,
        n_jobs=n_jobs,
    )
    # A distance asks for equal masses, to more digits than a barycentre has.
    return np.asarray(found * (X[0].sum(dtype=np.float64) / found.sum()))


# What makes the sum of costs least, or nearly so.
_MEANS: Mapping[str, Mean] = {
    **{name: _of_matrices(name) for name in GEOMETRIES if name in METRICS},
    **{name: _of_rows(name) for name in CODE_METRICS},
    "emd": _of_transport,
    "sinkhorn": _of_transport,
}
# Metrics whose squares are the costs.
_SQUARED = {"airm", "euclid", "euclidean", "logeuclid"}


class _Run(NamedTuple):
    """Centres, the nearest of each sample, and what all samples cost."""

    centres: NDArray[Any]
    labels: NDArray[np.int64]
    inertia: float
    n_iter: int
    has_converged: bool = False


@documented(CLUSTERS)
class MetricKMeans(MetricClusters):
    r"""Clusters around means, in the metrics of this package.

    The centres :math:`m_1 \ldots m_k` are to minimise the sum of costs of the samples :math:`x_i`,

    .. math:: \sum_i \min_c D(x_i, m_c).

    Lloyd's iteration [1]_ searches for the minimum. In turns, each sample goes to the centre with
    the smallest cost, and each centre becomes the mean of its samples. The iteration ends when the
    sum stops falling. The cost :math:`D` is the square of the distance "airm", "logeuclid",
    "euclid" or "euclidean". The other distances are squares already, or costs of transport, so they
    are the cost.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters.
    metric : str, default="auto"
        "auto" takes "jbld" for a stack of matrices, and "chi2" for rows. For covariance matrices,
        there are "airm" (with :func:`~histrs.spd.airm_mean`), "jbld"
        (:func:`~histrs.spd.jbld_mean`), "logeuclid" (:func:`~histrs.spd.log_euclidean_mean`) and
        "euclid"; for histograms "chi2", "hellinger", "intersection" (medians), "sinkhorn" and
        "emd". The last two use debiased barycentres
        (:func:`~histrs.transport.sinkhorn_barycenter`), with a `reg` of at least a fiftieth of the
        largest entry of `M`. For vectors, there is "euclidean". Other metrics have no mean: use
        :class:`KMedoids`.
    {metric_params}
    n_init : int, default=1
        Number of starts, of which the best is kept.
    max_iter : int, default=100
        Largest number of iterations for each start.
    tol : float, default=1e-4
        The iteration ends when the sum of costs falls by less than this fraction of the sum.
    {random_state}

    Attributes
    ----------
    cluster_centers_ : ndarray of shape (n_clusters, n_features) or (n_clusters, p, p)
        :math:`m_c`.
    labels_ : ndarray of shape (n_samples,)
        The cluster of each sample.
    inertia_ : float
        The sum of costs.
    n_iter_ : int
        Iterations of the best start.
    {metric_}

    Warns
    -----
    ConvergenceWarning
        If the sum still fell after `max_iter` iterations.

    Notes
    -----
    With transport, a centre is a debiased barycentre. It minimises a divergence, which is not quite
    the cost, so the sum of costs may rise. The fit then keeps the centres with the smallest sum.

    See Also
    --------
    KMedoids : Centres that are samples, in any metric.
    histrs.quantization.ProductQuantizer : Many rows as codes of many clusters.

    References
    ----------
    .. [1] S. P. Lloyd, "Least squares quantization in PCM", IEEE Transactions on Information Theory
       28, 1982.
    {arthur}

    Examples
    --------
    >>> import numpy as np
    >>> from histrs.cluster import MetricKMeans
    >>> rng = np.random.default_rng(0)
    >>> A = rng.standard_normal((40, 3, 50))
    >>> A[::2, 0] *= 3  # two kinds
    >>> X = A @ A.transpose(0, 2, 1) / 50
    >>> labels = MetricKMeans(2, metric="airm", random_state=0).fit_predict(X)
    >>> np.unique(labels[::2]).size, np.unique(labels[1::2]).size
    (1, 1)
    """

    labels_: NDArray[np.int64]
    inertia_: float
    n_iter_: int

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_clusters": [Interval(Integral, 1, None, closed="left")],
        "metric": [NameOptions({"auto", *_MEANS})],
        "n_init": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
    }

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        metric: str = "auto",
        metric_params: dict[str, Any] | None = None,
        n_init: int = 1,
        max_iter: int = 100,
        tol: float = 1e-4,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.metric = metric
        self.metric_params = metric_params
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.n_jobs = n_jobs

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:
        """Find the clusters.

        {fit}
        """
        with unchanged_on_error(self):
            refuse_sparse(X, "X")
            space, rows = self._training(X)
            random = check_random_state(self.random_state)
            runs = [self._run(space, rows, random) for _ in range(self.n_init)]
            best = min(runs, key=lambda run: run.inertia)
            self.cluster_centers_, self.labels_ = best.centres, best.labels
            self.inertia_, self.n_iter_ = best.inertia, best.n_iter
        if not best.has_converged:
            warn(
                f"MetricKMeans stopped after {best.n_iter} iterations with a sum of costs of "
                f"{best.inertia:.6g}, which was still falling; raise max_iter or tol.",
                ConvergenceWarning,
            )
        return self

    def _run(self, space: Space, rows: Checked, random: np.random.RandomState) -> _Run:
        """Return what one start leads to."""
        X: Any = rows.rows

        def beside(i: int) -> Array:
            return self._costs(space, rows, X[i : i + 1])[:, 0]

        first = seeds(self.n_clusters, len(X), beside, random)
        centres, best, before = X[first], None, np.full(len(X), -1)
        costs, changed = np.empty((len(X), self.n_clusters)), np.arange(self.n_clusters)
        for n_iter in range(1, self.max_iter + 1):
            costs[:, changed] = self._costs(space, rows, centres[changed])
            labels = np.argmin(costs, axis=1).astype(np.int64)
            least = costs[np.arange(len(costs)), labels]
            run = _Run(centres, labels, float(least.sum()), n_iter)
            if best is not None and run.inertia >= (1.0 - self.tol) * best.inertia:
                better = run if run.inertia < best.inertia else best
                return better._replace(n_iter=n_iter, has_converged=True)
            best, moved = run, labels != before
            if not moved.any():
                return best._replace(has_converged=True)
            # Where the samples are the same, so is the mean.
            changed = np.union1d(labels[moved], before[moved])
            changed = changed[changed >= 0]
            centres, before = self._moved(X, centres, labels, least, changed), labels
        return run

    def _costs(self, space: Space, rows: Checked, centres: NDArray[Any]) -> Array:
        D = space.distances(rows, centres).astype(np.float64)
        return np.square(D) if self.metric_ in _SQUARED else D

    def _moved(
        self,
        X: NDArray[Any],
        centres: NDArray[Any],
        labels: NDArray[np.int64],
        least: Array,
        changed: NDArray[np.int64],
    ) -> NDArray[Any]:
        """Return the means of clusters that changed; of empty ones the samples that cost most."""
        mean, options = _MEANS[self.metric_], {"n_jobs": self.n_jobs, **self.metric_params_}
        far = iter(np.argsort(-least, kind="stable"))
        centres = centres.copy()
        for c in changed:
            own = X[labels == c]
            centres[c] = mean(own, **options) if len(own) > 0 else X[next(far)]
        return centres

    def __sklearn_tags__(self) -> Tags:
        """Return what scikit-learn may expect of the estimator."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = False
        return tags
