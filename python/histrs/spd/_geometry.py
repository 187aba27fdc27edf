"""The geometry of each metric: distances, a mean, and the way from one matrix to another."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from sklearn.exceptions import ConvergenceWarning

from histrs import _histrs
from histrs._checks.rows import Checked, rows_of
from histrs._checks.validation import count_threads
from histrs._warnings import warn
from histrs.spd._distances import airm_distances, check_definite, jbld_distances
from histrs.spd._logarithms import Float64, exponential, from_tangent, roots, tangent_rows, unpacked
from histrs.spd._stack import Stack, symmetric

MetricName: TypeAlias = Literal["airm", "riemann", "jbld", "logeuclid", "euclid"]
Stacks: TypeAlias = Stack | Checked


class Mean(NamedTuple):
    """A mean, with the iterations that it took and what is left of the gradient."""

    matrix: NDArray[Any]
    n_iter: int = 0
    residual: float = 0.0

    def warn_above(self, tol: float, what: str, cure: str) -> None:
        """Warn if the gradient is above a tolerance."""
        if self.residual > tol:
            warn(
                f"{what} stopped after {self.n_iter} iterations with a residual of "
                f"{self.residual:.2e}, above the tolerance {tol:.2e}{cure}",
                ConvergenceWarning,
            )


class Curved:
    """Of the affine-invariant distance, or of the divergence that stands for its square."""

    def __init__(self, name: str, distances: Callable[..., NDArray[Any]], power: int) -> None:
        self._name = name
        self.distances = distances
        self._power = power

    def mean(
        self,
        stack: Stack,
        weights: Float64,
        n_jobs: int | None,
        *,
        tol: float = 1e-8,
        max_iter: int = 100,
        start: Float64 | None = None,
    ) -> Mean:
        """Return the weighted mean in double precision; a `start` is near it, if given."""
        some = weights > 0.0
        if len(stack) == 1 or not some.all():
            # The search itself looks at all that have weight.
            check_definite(stack, n_jobs)
            stack, weights = stack[some], weights[some]
        if len(stack) == 1:
            return Mean(symmetric(stack[0].astype(np.float64)))
        shares, n_threads = _shares(weights), count_threads(n_jobs)
        found = _histrs.dispersion_mean(stack, shares, self._name, start, tol, max_iter, n_threads)
        return Mean(*found)

    def between(self, A: Float64, B: Float64, t: float) -> Float64:
        """Return the point at `t` of the way from `A` to `B`: the mean with weights 1 - t and t.

        On the geodesic of the affine-invariant distance: that of the divergence has no closed form,
        and is close to it.
        """
        root, whitener = roots(A)
        return from_tangent(root, t * unpacked(tangent_rows(B[None], whitener, 1))[0])

    def squares(self, stack: Stack, means: Float64, n_jobs: int | None) -> Float64:
        """Return squared distances to means, a row for each matrix."""
        try:
            # Columns are computed a vector at a time, so that there should be many.
            wide = Checked(stack.astype(np.float64, copy=False))
            D = self.distances(Checked(means), wide, n_jobs=n_jobs)
        except ValueError:
            check_definite(stack, n_jobs)
            raise
        return np.ascontiguousarray(D.T) ** self._power


class Flat(ABC):
    """Of coordinates in which distances are Euclidean."""

    _average: Callable[..., Float64] = staticmethod(np.matmul)

    @abstractmethod
    def coordinates(self, stack: Stack, n_jobs: int | None) -> NDArray[Any]:
        """Return a row for each matrix, in their precision."""

    @abstractmethod
    def matrix(self, row: Float64) -> Float64:
        """Return the matrix of some coordinates."""

    def mean(self, stack: Stack, weights: Float64, n_jobs: int | None, **search: Any) -> Mean:
        """Return the weighted mean, in double precision, which needs no search."""
        check_definite(stack, n_jobs)
        return Mean(self._mean(stack, weights, n_jobs))

    def centroid(self, X: Stack, *, n_jobs: int | None) -> Stack:
        """Return the mean of matrices, which are not looked at, as a stack of one."""
        return self._mean(X, np.ones(len(X)), n_jobs)[None].astype(X.dtype)

    def between(self, A: Float64, B: Float64, t: float) -> Float64:
        """Return the point at `t` of the way from `A` to `B`, which is straight."""
        rows = self.coordinates(np.stack([A, B]), 1)
        return self.matrix((1.0 - t) * rows[0] + t * rows[1])

    def distances(self, X: Stacks, Y: Stacks, *, n_jobs: int | None) -> NDArray[Any]:
        """Return the distances of all pairs, in the wider precision."""

        def rows(Z: Stacks) -> NDArray[Any]:
            if isinstance(Z, Checked):
                return Z.once(self, lambda: self.coordinates(rows_of(Z), n_jobs))
            return self.coordinates(Z, n_jobs)

        left, right = rows(X), rows(Y)
        D = cdist(left.astype(np.float64), right.astype(np.float64))
        return D.astype(np.result_type(left, right), copy=False)

    def squares(self, stack: Stack, means: Float64, n_jobs: int | None) -> Float64:
        """Return squared distances to means, a row for each matrix."""
        rows = self.coordinates(stack.astype(np.float64, copy=False), n_jobs)
        squares: Float64 = cdist(rows, self.coordinates(means, 1), "sqeuclidean")
        return squares

    def _mean(self, stack: Stack, weights: Float64, n_jobs: int | None) -> Float64:
        some = weights > 0.0
        rows = self.coordinates(stack[some], n_jobs)
        return self.matrix(self._average(_shares(weights[some]), rows))


class LogEuclidean(Flat):
    """Of the logarithms of matrices."""

    def coordinates(self, stack: Stack, n_jobs: int | None) -> NDArray[Any]:
        return tangent_rows(stack, None, n_jobs)

    def matrix(self, row: Float64) -> Float64:
        return exponential(unpacked(row[None])[0])


class Euclidean(Flat):
    """Of the matrices themselves."""

    # Makes no copy of them in double precision.
    _average = staticmethod(partial(np.einsum, "n,nk->k"))

    def coordinates(self, stack: Stack, n_jobs: int | None) -> NDArray[Any]:
        return stack.reshape(len(stack), -1)

    def matrix(self, row: Float64) -> Float64:
        p = math.isqrt(len(row))
        return symmetric(row.reshape(p, p))


def _shares(weights: Float64) -> Float64:
    """Return weights that add up to 1."""
    relative = weights / weights.max()
    return np.asarray(relative / relative.sum())


Geometry: TypeAlias = Curved | Flat

EUCLIDEAN = Euclidean()
LOG_EUCLIDEAN = LogEuclidean()
_AIRM = Curved("airm", airm_distances, 2)
# "riemann" is pyRiemann's name of "airm".
GEOMETRIES: Mapping[str, Geometry] = {
    "airm": _AIRM,
    "euclid": EUCLIDEAN,
    "jbld": Curved("jbld", jbld_distances, 1),
    "logeuclid": LOG_EUCLIDEAN,
    "riemann": _AIRM,
}
