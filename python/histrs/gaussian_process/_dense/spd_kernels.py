"""Kernels between covariance matrices: of coordinates, and of divergences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.spatial.distance import cdist

from histrs import _histrs
from histrs._solvers.block_cg import Array
from histrs.gaussian_process._dense.kernel import DenseKernel
from histrs.spd._kernels import nearest_definite
from histrs.spd._stack import Stack


@dataclass(frozen=True)
class GaussianKernel(DenseKernel):
    """``exp(-scaled_gamma / scale |v - w|^2) + constant`` of coordinates."""

    scaled_gamma: float
    scale: float
    """Mean squared distance of training rows."""
    constant: float = 0.0

    ends_are_answers: ClassVar[frozenset[str]] = frozenset({"scaled_gamma"})

    def parts(self, X: Array, Y: Array | None, n_threads: int) -> tuple[Array, ...]:
        """Return squared distances."""
        return (cdist(X, X if Y is None else Y, "sqeuclidean"),)

    def matrix(self, parts: tuple[Array, ...]) -> Array:
        """Return the kernel matrix."""
        K: Array = parts[0] * (-self.scaled_gamma / self.scale)
        np.exp(K, out=K)
        K += self.constant
        return K

    def derivative(self, name: str, parts: tuple[Array, ...]) -> Array:
        """Return the derivative by the logarithm of `scaled_gamma`."""
        exponents: Array = parts[0] * (-self.scaled_gamma / self.scale)
        derivative: Array = exponents * np.exp(exponents)
        return derivative

    def diagonal(self, X: Array, n_threads: int) -> Array:
        """Return the kernel of every row with itself."""
        return np.full(len(X), 1.0 + self.constant)

    @property
    def gamma(self) -> float:
        """The factor of the squared distance."""
        return self.scaled_gamma / self.scale


@dataclass(frozen=True)
class DivergenceKernel(DenseKernel):
    """``exp(-gamma D_J)``, or a mean of two where that is not definite."""

    gamma: float
    p: int
    """Rows of a matrix."""

    ends_are_answers: ClassVar[frozenset[str]] = frozenset({"gamma"})

    def parts(self, X: Stack, Y: Stack | None, n_threads: int) -> tuple[Array, ...]:
        """Return divergences."""
        return (_histrs.jbld_distances(X, Y, n_threads),)

    def matrix(self, parts: tuple[Array, ...]) -> Array:
        """Return the kernel matrix."""
        K = np.zeros_like(parts[0])
        for gamma, weight in self._terms():
            K += weight * np.exp(-gamma * parts[0])
        return K

    def derivative(self, name: str, parts: tuple[Array, ...]) -> Array:
        """Return the derivative by the logarithm of gamma."""
        D = parts[0]
        terms = self._terms()
        if len(terms) == 1 and self.gamma >= (self.p - 1) / 2:
            derivative: Array = -self.gamma * D * np.exp(-self.gamma * D)
            return derivative
        # Of a mean of two, by its weights; at a value that is definite, towards the next.
        below = terms[0][0]
        rise: Array = np.exp(-(below + 0.5) * D) - np.exp(-below * D)
        rise *= 2.0 * self.gamma
        return rise

    def diagonal(self, X: Stack, n_threads: int) -> Array:
        """Return ones."""
        return np.ones(len(X))

    def _terms(self) -> list[tuple[float, float]]:
        """Return values of gamma with weights."""
        near = nearest_definite(self.gamma, self.p)
        if len(near) == 1:
            return [(near[0], 1.0)]
        share = 2.0 * (self.gamma - near[0])
        return [(near[0], 1.0 - share), (near[1], share)]
