"""The metrics by name: what each is between, and what makes a search in it cheaper."""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import pairwise_distances

from histrs._validation import HISTOGRAM_CHECKS, Matrix, count_threads
from histrs.metrics import (
    additive_chi2_kernel,
    airm_distances,
    chi2_distances,
    emd_distances,
    exp_chi2_kernel,
    hellinger_kernel,
    intersection_kernel,
    jbld_distances,
    jensen_shannon_kernel,
    minmax_distances,
    sinkhorn_distances,
)
from histrs.neighbors._bounds import Bounds, airm_bounds, emd_bounds, sinkhorn_bounds
from histrs.neighbors._centroids import Centroid, jbld_centroid, mean_centroid, transport_centroid
from histrs.spd._stack import STACK_CHECKS
from histrs.transport._emd import emd_of_pairs
from histrs.transport._pairs import sinkhorn_of_pairs

Kind = Literal["covariances", "histograms", "vectors"]
# `(X, Y, rows, columns, *, n_jobs, **metric_params)` to the distances of some pairs.
OfPairs = Callable[..., NDArray[Any]]

# Rows whose kernel with themselves is computed at once.
_BLOCK = 64
# Up to here sums of very many squares are far from the end of single precision.
_LARGEST_SINGLE = 1e12


class Metric(NamedTuple):
    """A distance `(X, Y, *, n_jobs, **metric_params) -> (n_X, n_Y)`, and what it is between.

    `bounds` are never above the distance, and `of_pairs` computes it where they leave it open.
    """

    distances: Callable[..., NDArray[Any]]
    kind: Kind
    centroid: Centroid = mean_centroid
    bounds: Bounds | None = None
    of_pairs: OfPairs | None = None


def _euclidean(X: Matrix, Y: Matrix, *, n_jobs: int | None, **params: Any) -> NDArray[Any]:
    """Return Euclidean distances; in double precision where single holds no squares."""
    if X.dtype == Y.dtype == np.float32 and max(map(_largest, (X, Y))) > _LARGEST_SINGLE:
        X, Y = X.astype(np.float64), Y.astype(np.float64)
    # joblib would start as many threads as it is asked for.
    n_threads = None if n_jobs is None else count_threads(n_jobs)
    distances: NDArray[Any] = pairwise_distances(X, Y, n_jobs=n_threads, **params)
    return distances


def _largest(X: Matrix) -> float:
    sizes: Any = abs(X)
    return float(sizes.max()) if X.shape[0] else 0.0


def _induced_by(kernel: Callable[..., NDArray[Any]]) -> Callable[..., NDArray[Any]]:
    """Return the squared distance ``k(x, x) + k(y, y) - 2 k(x, y)``."""

    def distances(X: Matrix, Y: Matrix, *, n_jobs: int | None, **params: Any) -> NDArray[Any]:
        # In double precision, of which the difference takes half.
        wide = [Z.astype(np.float64, copy=False) for Z in (X, Y)]

        def own(Z: Matrix) -> NDArray[np.float64]:
            blocks = (Z[start : start + _BLOCK] for start in range(0, Z.shape[0], _BLOCK))
            parts = [kernel(block, block, n_jobs=n_jobs, **params).diagonal() for block in blocks]
            return np.concatenate(parts)

        with np.errstate(over="ignore", invalid="ignore"):
            D = own(wide[0])[:, None] + own(wide[1]) - 2.0 * kernel(*wide, n_jobs=n_jobs, **params)
        if not np.isfinite(D).all():
            raise ValueError("sums of kernel values overflow; divide the columns by a scale.")
        return np.maximum(D, 0.0).astype(np.result_type(X.dtype, Y.dtype), copy=False)

    return distances


def _airm_of_pairs(
    X: NDArray[Any], Y: NDArray[Any], rows: Any, columns: Any, *, n_jobs: int | None
) -> NDArray[Any]:
    return airm_distances(X[rows], Y[columns], paired=True, n_jobs=n_jobs)


# A metric is one line.
METRICS = {
    "additive_chi2": Metric(_induced_by(additive_chi2_kernel), "histograms"),
    "airm": Metric(airm_distances, "covariances", jbld_centroid, airm_bounds, _airm_of_pairs),
    "chi2": Metric(chi2_distances, "histograms"),
    "emd": Metric(emd_distances, "histograms", transport_centroid, emd_bounds, emd_of_pairs),
    "euclidean": Metric(_euclidean, "vectors"),
    "exp_chi2": Metric(_induced_by(exp_chi2_kernel), "histograms"),
    "hellinger": Metric(_induced_by(hellinger_kernel), "histograms"),
    "intersection": Metric(_induced_by(intersection_kernel), "histograms"),
    "jbld": Metric(jbld_distances, "covariances", jbld_centroid),
    "jensen_shannon": Metric(_induced_by(jensen_shannon_kernel), "histograms"),
    "minmax": Metric(minmax_distances, "histograms"),
    "sinkhorn": Metric(
        sinkhorn_distances, "histograms", transport_centroid, sinkhorn_bounds, sinkhorn_of_pairs
    ),
}

CHECKS: dict[Kind, dict[str, Any]] = {
    "covariances": {**STACK_CHECKS},
    "histograms": {**HISTOGRAM_CHECKS},
    "vectors": {"accept_sparse": "csr", "dtype": [np.float64, np.float32]},
}
