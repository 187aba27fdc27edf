"""Where covariance matrices are seen from: means that can be updated."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning

from histrs import _histrs
from histrs._checks.validation import count_threads
from histrs._progress import StepProgress
from histrs._warnings import warn
from histrs.spd._distances import check_definite
from histrs.spd._mean import Float64, MetricName, exponential, mean_of, roots, unpacked
from histrs.spd._stack import Stack, as_stack, symmetric

_TOL = 1e-8
_MAX_ITER = 100


def reference_mean(
    owner: str,
    stack: Stack,
    weights: Float64,
    metric: MetricName,
    n_jobs: int | None,
    progress: StepProgress | None = None,
) -> Float64:
    """Return a mean, with a warning where it did not converge; `weights` add up to 1."""
    found = mean_of(stack, weights, metric, tol=_TOL, max_iter=_MAX_ITER, n_jobs=n_jobs)
    if progress is not None:
        progress(
            f"mean of {len(stack)} matrices, {found.n_iter} steps, residual {found.residual:.1e}"
        )
    if found.residual > _TOL:
        warn(
            f"{owner}: the mean stopped after {found.n_iter} iterations with a residual of "
            f"{found.residual:.2e}, above the tolerance {_TOL:.2e}; look for matrices that are "
            "nearly singular, and shrink them.",
            ConvergenceWarning,
        )
    return np.asarray(found.matrix, dtype=np.float64)


def between(A: Float64, B: Float64, t: float, metric: MetricName) -> Float64:
    """Return the point at `t` of the way from `A` to `B`: the mean with weights 1 - t and t.

    Of "jbld" it is taken on the geodesic of "airm", which has no closed form of its own and is
    close to it.
    """
    if metric == "euclid":
        return symmetric((1.0 - t) * A + t * B)
    if metric == "logeuclid":
        rows = _histrs.tangent_vectors(np.stack([A, B]), None, 1)
        return exponential(unpacked((1.0 - t) * rows[:1] + t * rows[1:])[0])
    root, whitener = roots(A)
    S = t * logarithms(B[None], whitener, 1)[0]
    half = root @ exponential(0.5 * S)
    return symmetric(half @ half.T)


class Running(NamedTuple):
    """A mean of a stream, and the weight of what it was made of."""

    matrix: Float64
    weight: float

    def updated(
        self, mean: Float64, weight: float, forgetting: float, metric: MetricName
    ) -> Running:
        """Return it with another mean of some weight; older weights fade by `forgetting`."""
        old = (1.0 - forgetting) * self.weight
        total = old + weight
        return Running(between(self.matrix, mean, weight / total, metric), total)


def tangent_rows(stack: Stack, whitener: Float64 | None, n_jobs: int | None) -> NDArray[Any]:
    """Return coordinates in the tangent space, a row for each matrix."""
    rows: NDArray[Any] = _histrs.tangent_vectors(stack, whitener, count_threads(n_jobs))
    return rows


def logarithms(stack: Stack, whitener: Float64, n_jobs: int | None) -> Float64:
    """Return ``log(W X W)`` of each matrix."""
    return unpacked(tangent_rows(stack, whitener, n_jobs))


def given_reference(reference: ArrayLike, p: int) -> Float64:
    """Return a matrix that the user gave, checked."""
    stack = as_stack(np.asarray(reference, dtype=np.float64)[None], "reference")
    if stack.shape[1] != p:
        raise ValueError(
            f"reference has {stack.shape[1]} rows, and the matrices of X have {p}: give a matrix "
            "of their size."
        )
    try:
        check_definite(stack)
    except ValueError as error:
        raise ValueError(str(error).replace("X[0]", "reference")) from None
    return np.asarray(symmetric(stack[0]))
