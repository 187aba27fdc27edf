"""The kernels and metrics by name: what each is between, and what makes a search in it cheaper."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial, wraps
from inspect import Parameter, signature
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from histrs._checks.rows import Checked
from histrs._checks.validation import HISTOGRAM_CHECKS
from histrs._typing import Matrix
from histrs.metrics._additive import (
    additive_chi2_kernel,
    hellinger_kernel,
    intersection_kernel,
    jensen_shannon_kernel,
)
from histrs.metrics._bounds import Bounds, airm_bounds, emd_bounds, sinkhorn_bounds
from histrs.metrics._centroids import Centroid, jbld_centroid, mean_centroid, transport_centroid
from histrs.metrics._chi2 import chi2_distances, exp_chi2_kernel
from histrs.metrics._euclidean import euclidean_distances
from histrs.metrics._minmax import minmax_distances, minmax_kernel
from histrs.spd._distances import airm_distances, jbld_distances
from histrs.spd._geometry import EUCLIDEAN, LOG_EUCLIDEAN
from histrs.spd._kernels import jbld_kernel, log_euclidean_kernel
from histrs.spd._stack import STACK_CHECKS
from histrs.transport._distances import sinkhorn_distances
from histrs.transport._emd import emd_distances, emd_of_pairs
from histrs.transport._pairs import sinkhorn_of_pairs

# Rows whose kernel with themselves is computed at once.
_BLOCK = 64


def induced_by(kernel: Callable[..., NDArray[Any]]) -> Callable[..., NDArray[Any]]:
    """Return the squared distance ``k(x, x) + k(y, y) - 2 k(x, y)``."""

    @wraps(kernel)
    def distances(
        X: Matrix | Checked, Y: Matrix | Checked, *, n_jobs: int | None, **params: Any
    ) -> NDArray[Any]:
        def own(Z: Any) -> NDArray[np.float64]:
            blocks = (Z[start : start + _BLOCK] for start in range(0, Z.shape[0], _BLOCK))
            parts = [kernel(block, block, n_jobs=n_jobs, **params).diagonal() for block in blocks]
            return np.concatenate(parts)

        # Of checked rows what they have with themselves is computed once, however many others they
        # meet.
        wide = [_wide(Z) for Z in (X, Y)]
        left, right = (
            Z.once((kernel, *sorted(params.items())), partial(own, Z))
            if isinstance(Z, Checked)
            else own(Z)
            for Z in wide
        )
        with np.errstate(over="ignore", invalid="ignore"):
            D = left[:, None] + right - 2.0 * kernel(*wide, n_jobs=n_jobs, **params)
        if not np.isfinite(D).all():
            raise ValueError("sums of kernel values overflow; divide the columns by a scale.")
        return np.maximum(D, 0.0).astype(np.result_type(X.dtype, Y.dtype), copy=False)

    return distances


def _wide(Z: Any) -> Any:
    """Return rows in double precision, of which the difference takes half."""
    if not isinstance(Z, Checked):
        return Z.astype(np.float64, copy=False)
    return Z.once("wide", lambda: Checked(Z.rows.astype(np.float64, copy=False)))


Kind = Literal["covariances", "distances", "histograms", "vectors"]
# Names of those that have a kernel, by what it is between, and of those whose kernel is a sum over
# columns; and of those in which codewords are learned.
KernelName: TypeAlias = Literal[
    "intersection", "chi2", "hellinger", "jensen_shannon", "exp_chi2", "minmax"
]
AdditiveKernelName: TypeAlias = Literal["intersection", "chi2", "hellinger", "jensen_shannon"]
CovarianceKernelName: TypeAlias = Literal["jbld", "logeuclid"]
CodeMetricName: TypeAlias = Literal["euclidean", "hellinger", "chi2", "intersection"]
Pairwise: TypeAlias = Callable[..., NDArray[Any]]


class Metric(NamedTuple):
    """A distance `(X, Y, *, n_jobs, **metric_params) -> (n_X, n_Y)`, and what it is between.

    `bounds` are never above the distance. `of_pairs(X, Y, rows, columns, *, n_jobs,
    **metric_params)` computes the distances that bounds do not decide. `kernel` takes the arguments
    of the distance, and is positive semi-definite. Maps on landmarks approximate the kernels of
    histograms. A kernel `is_additive` if it is a sum over columns. For metrics that
    `has_codewords`, `quantization` has the steps of k-means. Means of matrices are in `spd`.
    """

    distances: Pairwise
    kind: Kind
    kernel: Pairwise | None = None
    is_additive: bool = False
    centroid: Centroid = mean_centroid
    bounds: Bounds | None = None
    of_pairs: Pairwise | None = None
    has_codewords: bool = False


def _of_kernel(
    kernel: Pairwise, *, is_additive: bool = False, has_codewords: bool = False
) -> Metric:
    return Metric(
        induced_by(kernel), "histograms", kernel, is_additive, has_codewords=has_codewords
    )


# A kernel or metric is one entry.
METRICS: Mapping[str, Metric] = {
    # The distance of "chi2", by way of its kernel.
    "additive_chi2": Metric(induced_by(additive_chi2_kernel), "histograms"),
    "airm": Metric(
        airm_distances,
        "covariances",
        centroid=jbld_centroid,
        bounds=airm_bounds,
        of_pairs=lambda X, Y, rows, columns, *, n_jobs: airm_distances(
            X[rows], Y[columns], paired=True, n_jobs=n_jobs
        ),
    ),
    "chi2": Metric(
        chi2_distances, "histograms", additive_chi2_kernel, is_additive=True, has_codewords=True
    ),
    "emd": Metric(
        emd_distances,
        "histograms",
        centroid=transport_centroid,
        bounds=emd_bounds,
        of_pairs=emd_of_pairs,
    ),
    # Of covariances, by pyRiemann's name.
    "euclid": Metric(EUCLIDEAN.distances, "covariances", centroid=EUCLIDEAN.centroid),
    "euclidean": Metric(euclidean_distances, "vectors", has_codewords=True),
    "exp_chi2": _of_kernel(exp_chi2_kernel),
    "hellinger": _of_kernel(hellinger_kernel, is_additive=True, has_codewords=True),
    "intersection": _of_kernel(intersection_kernel, is_additive=True, has_codewords=True),
    "jbld": Metric(jbld_distances, "covariances", jbld_kernel, centroid=jbld_centroid),
    "jensen_shannon": _of_kernel(jensen_shannon_kernel, is_additive=True),
    "logeuclid": Metric(
        LOG_EUCLIDEAN.distances,
        "covariances",
        log_euclidean_kernel,
        centroid=LOG_EUCLIDEAN.centroid,
    ),
    "minmax": Metric(minmax_distances, "histograms", minmax_kernel),
    "sinkhorn": Metric(
        sinkhorn_distances,
        "histograms",
        centroid=transport_centroid,
        bounds=sinkhorn_bounds,
        of_pairs=sinkhorn_of_pairs,
    ),
}


def _kernels(kind: Kind) -> Mapping[str, Pairwise]:
    return {
        name: metric.kernel
        for name, metric in METRICS.items()
        if metric.kernel is not None and metric.kind == kind
    }


KERNELS = _kernels("histograms")
COVARIANCE_KERNELS = _kernels("covariances")
ADDITIVE_KERNELS = {name for name, metric in METRICS.items() if metric.is_additive}
CODE_METRICS = {name for name, metric in METRICS.items() if metric.has_codewords}


def check_parameters(name: str, params: Mapping[str, Any] | None, what: str) -> None:
    """Fail where parameters are not those of a metric or kernel; `what` names them.

    Raises ValueError if there is one that it does not take, or one is missing that it needs.
    """
    metric, given = METRICS[name], {"n_jobs", *(params or {})}
    options = {
        option.name: option
        for option in list(signature(metric.distances).parameters.values())[2:]
        # All pairs are asked for, and nothing beside their distances, of which none may be missing;
        # who passes parameters on has none of its own.
        if option.name not in ("paired", "return_info", "on_error")
        and option.kind is not Parameter.VAR_KEYWORD
    }
    unknown = sorted(given - set(options))
    if unknown:
        raise ValueError(
            f"{what} has {unknown[0]!r}, which {name!r} does not take: it takes "
            f"{', '.join(sorted(options))}."
        )
    missing = sorted(
        option.name
        for option in options.values()
        if option.default is Parameter.empty and option.name not in given
    )
    if missing:
        raise ValueError(f"{name!r} needs {what}={{{missing[0]!r}: ...}}.")


CHECKS: dict[Kind, dict[str, Any]] = {
    "covariances": {**STACK_CHECKS},
    # Of "precomputed", which is no metric.
    "distances": {"dtype": [np.float64, np.float32]},
    "histograms": {**HISTOGRAM_CHECKS},
    "vectors": {"accept_sparse": "csr", "dtype": [np.float64, np.float32]},
}
