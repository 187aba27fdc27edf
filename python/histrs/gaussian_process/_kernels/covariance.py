"""Kernels between covariance matrices: of coordinates, and of a divergence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from scipy.spatial.distance import cdist

from histrs import _histrs
from histrs._typing import Array
from histrs._weights import in_units_of_mean
from histrs.gaussian_process._kernels.base import Kernel, Takes
from histrs.gaussian_process._learning.hyperparameters import Bounds
from histrs.spd._distances import check_definite
from histrs.spd._kernels import nearest_definite
from histrs.spd._logarithms import roots, tangent_rows
from histrs.spd._running import reference_mean
from histrs.spd._stack import Stack, as_stack


@dataclass(repr=False, eq=False)
class LogEuclidean(Kernel):
    r"""The Gaussian of logarithms, :math:`e^{-\gamma \| \log X - \log X' \|^2}`.

    It is that of :func:`histrs.metrics.log_euclidean_kernel`.

    Parameters
    ----------
    gamma : float or "scale", default="scale"
        Kernel coefficient, where the search starts. "scale" is one over the mean squared distance
        between training matrices.
    gamma_bounds : pair or "fixed", default=(1e-3, 1e2)
        Least and greatest coefficient in the search, as multiples of the unit: 1, or what "scale"
        is. "fixed" keeps the start.

    Attributes
    ----------
    gamma_ : float
        The coefficient of a fit.
    distance_scale_ : float
        Mean squared distance between the first training matrices.

    Examples
    --------
    >>> import numpy as np
    >>> from histrs.gaussian_process.kernels import LogEuclidean
    >>> X = np.array([np.eye(2), np.e * np.eye(2)])
    >>> LogEuclidean(0.5)(X).round(3)
    array([[1.   , 0.368],
           [0.368, 1.   ]])
    """

    takes: ClassVar[Takes] = "covariances"
    leaves_level: ClassVar[bool] = True
    classes_by: ClassVar[Literal["likelihood", "leave-one-out"]] = "leave-one-out"
    ends_are_answers: ClassVar[frozenset[str]] = frozenset({"gamma"})

    gamma: float | Literal["scale"] = "scale"
    gamma_bounds: Bounds = (1e-3, 1e2)

    def _take(self, X: Any, weights: Array | None, n_threads: int) -> None:
        self._take_reference(as_stack(X), weights, n_threads)
        V = self.view(X, n_threads)
        # The mean over all pairs, from the two moments; less one of them, equal rows are all 0.
        V = V - V[0]
        spread = 2.0 * float(np.mean(np.sum((V - V.mean(axis=0)) ** 2, axis=1)))
        self.distance_scale_ = spread if spread > 0.0 else 1.0
        self._unit = 1.0
        if self.gamma == "scale":
            self._unit = self.gamma_ = 1.0 / self.distance_scale_

    def _take_reference(self, X: Stack, weights: Array | None, n_threads: int) -> None:
        self._whitener: Array | None = None

    def view(self, X: Any, n_threads: int) -> Array:
        """Return the coordinates of matrices."""
        return np.asarray(tangent_rows(X.astype(np.float64), self._whitener, n_threads))

    def parts(self, X: Array, Y: Array | None, n_threads: int) -> tuple[Array, ...]:
        """Return squared distances of coordinates."""
        return (cdist(X, X if Y is None else Y, "sqeuclidean"),)

    def matrix(self, parts: Any) -> Array:
        K: Array = parts[0] * -self.gamma_
        return np.asarray(np.exp(K, out=K))

    def derivative(self, name: str, parts: Any) -> Array:
        exponents: Array = parts[0] * -self.gamma_
        return np.asarray(exponents * np.exp(exponents))

    def diagonal(self, X: Array, n_threads: int) -> Array:
        """Return ones."""
        return np.ones(len(X))


class Tangent(LogEuclidean):
    r"""The Gaussian in the tangent space at the geometric mean of the first training matrices.

    :math:`e^{-\gamma \| v(X) - v(X') \|^2}` of the coordinates `v` of
    :class:`histrs.spd.TangentSpace`: units and bases of the signals do not matter.

    Parameters
    ----------
    gamma : float or "scale", default="scale"
        As of `LogEuclidean`.
    gamma_bounds : pair or "fixed", default=(1e-3, 1e2)
        As of `LogEuclidean`.

    Attributes
    ----------
    gamma_, distance_scale_ : float
        As of `LogEuclidean`.
    reference_ : ndarray of shape (p, p)
        The mean.

    Examples
    --------
    >>> import numpy as np
    >>> from histrs.gaussian_process.kernels import Tangent
    >>> X = np.array([np.eye(2), np.e * np.eye(2)])
    >>> Tangent(0.5)(X).round(3)
    array([[1.   , 0.368],
           [0.368, 1.   ]])
    """

    reference_: Array

    def _take_reference(self, X: Stack, weights: Array | None, n_threads: int) -> None:
        of_mean, _ = in_units_of_mean(weights)
        shares = np.full(len(X), 1.0 / len(X))
        shares = shares if of_mean is None else shares * of_mean
        self.reference_ = reference_mean("Tangent", X, shares, "airm", n_threads)
        self._whitener = roots(self.reference_)[1]


@dataclass(repr=False, eq=False)
class Divergence(Kernel):
    r"""The kernel of the Jensen-Bregman log-determinant divergence, :math:`e^{-\gamma D_J}`.

    It is that of :func:`histrs.metrics.jbld_kernel`; between values of `gamma` at which it is
    positive definite, the two next to it are mixed.

    Parameters
    ----------
    gamma : float, default=0.5
        Kernel coefficient, where the search starts: 1/2 at least.
    gamma_bounds : pair or "fixed", default=(0.5, 1e3)
        Least and greatest coefficient in the search; "fixed" keeps the start.

    Attributes
    ----------
    gamma_ : float
        The coefficient of a fit.

    Examples
    --------
    >>> import numpy as np
    >>> from histrs.gaussian_process.kernels import Divergence
    >>> X = np.array([np.eye(2), 3.0 * np.eye(2)])
    >>> Divergence()(X).round(3)
    array([[1.   , 0.866],
           [0.866, 1.   ]])
    """

    takes: ClassVar[Takes] = "covariances"
    leaves_level: ClassVar[bool] = True
    ends_are_answers: ClassVar[frozenset[str]] = frozenset({"gamma"})

    gamma: float = 0.5
    gamma_bounds: Bounds = (0.5, 1e3)

    def _take(self, X: Any, weights: Array | None, n_threads: int) -> None:
        self._p = X.shape[1]
        if self.gamma < 0.5 and self._p > 1:
            raise ValueError(
                f"gamma = {self.gamma:g}: exp(-gamma D_J) is not positive definite below 1/2; take "
                "1/2, or the kernel Tangent."
            )

    def view(self, X: Any, n_threads: int) -> Stack:
        """Return the matrices, looked at."""
        stack: Stack = X.astype(np.float64)
        check_definite(stack, n_threads)
        return stack

    def parts(self, X: Stack, Y: Stack | None, n_threads: int) -> tuple[Array, ...]:
        """Return divergences."""
        return (_histrs.jbld_distances(X, Y, n_threads),)

    def matrix(self, parts: Any) -> Array:
        K: Array = np.zeros_like(parts[0])
        for gamma, weight in self._terms():
            K += weight * np.exp(-gamma * parts[0])
        return K

    def derivative(self, name: str, parts: Any) -> Array:
        D, terms = parts[0], self._terms()
        if len(terms) == 1 and self.gamma_ >= (self._p - 1) / 2:
            return np.asarray(-self.gamma_ * D * np.exp(-self.gamma_ * D))
        # Of a mean of two, by its weights; at a value that is definite, towards the next.
        below = terms[0][0]
        rise: Array = np.exp(-(below + 0.5) * D) - np.exp(-below * D)
        rise *= 2.0 * self.gamma_
        return rise

    def diagonal(self, X: Stack, n_threads: int) -> Array:
        """Return ones."""
        return np.ones(len(X))

    def _terms(self) -> list[tuple[float, float]]:
        """Return values of gamma with weights."""
        near = nearest_definite(self.gamma_, self._p)
        if len(near) == 1:
            return [(near[0], 1.0)]
        share = 2.0 * (self.gamma_ - near[0])
        return [(near[0], 1.0 - share), (near[1], share)]
