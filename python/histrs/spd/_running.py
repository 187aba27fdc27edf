"""Means of groups of matrices, which may come in parts."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval

from histrs._checks.validation import NameOptions, naming_rows
from histrs._progress import StepProgress
from histrs.spd._base import StackEstimator
from histrs.spd._geometry import GEOMETRIES, MetricName
from histrs.spd._logarithms import Float64
from histrs.spd._stack import Stack

_TOL = 1e-8

MEAN_CONSTRAINT = NameOptions(GEOMETRIES)
UPDATE_CONSTRAINTS: Mapping[str, list[Any]] = {"forgetting": [Interval(Real, 0, 1, closed="left")]}


def reference_mean(
    owner: str,
    stack: Stack,
    weights: Float64,
    metric: MetricName,
    n_jobs: int | None,
    progress: StepProgress | None = None,
) -> Float64:
    """Return a weighted mean, with a warning where it did not converge."""
    found = GEOMETRIES[metric].mean(stack, weights, n_jobs, tol=_TOL)
    steps, residual = found.n_iter, found.residual
    if progress is not None:
        progress(f"mean of {len(stack)} matrices, {steps} steps, residual {residual:.1e}")
    cure = "; look for matrices that are nearly singular, and shrink them."
    found.warn_above(_TOL, f"{owner}: the mean", cure)
    return np.asarray(found.matrix, dtype=np.float64)


class Running(NamedTuple):
    """A mean of a stream, and the weight of what it was made of."""

    matrix: Float64
    weight: float


class RunningMeans(StackEstimator):
    """Learns a mean of each group of matrices, and moves it towards those of further ones."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "metric": [MEAN_CONSTRAINT],
        **UPDATE_CONSTRAINTS,
    }

    def __init__(
        self,
        metric: MetricName = "airm",
        *,
        forgetting: float = 0.0,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.metric = metric
        self.forgetting = forgetting
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _updated(
        self,
        known: Mapping[Any, Running],
        metric: MetricName,
        stack: Stack,
        groups: NDArray[Any],
        weights: Float64,
    ) -> dict[Any, Running]:
        """Return known means with those of further matrices, by their fraction of the weights."""
        means, owner = dict(known), type(self).__name__
        present = np.unique(groups).tolist()
        with StepProgress(owner, self.verbose, len(present)) as progress:
            for group in present:
                own = groups == group
                with naming_rows(np.flatnonzero(own)):
                    mean = reference_mean(
                        owner, stack[own], weights[own], metric, self.n_jobs, progress
                    )
                total = float(weights[own].sum())
                if group in known:
                    old = (1.0 - self.forgetting) * known[group].weight
                    share, total = total / (old + total), old + total
                    mean = GEOMETRIES[metric].between(known[group].matrix, mean, share)
                means[group] = Running(mean, total)
        return means


def places_among(
    known: NDArray[Any], values: NDArray[Any], name: str, cure: str
) -> NDArray[np.intp]:
    """Return where each value is among the known ones; errors name the first that is not."""
    places = {value: i for i, value in enumerate(known.tolist())}
    for i, value in enumerate(values.tolist()):
        if value not in places:
            raise ValueError(f"{name}[{i}] = {value!r} {cure}")
    return np.array([places[value] for value in values.tolist()], dtype=np.intp)
