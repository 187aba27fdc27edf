"""Kernels in which all columns are alike: lines, a Laplace kernel and curves, mixed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from scipy.spatial.distance import cdist

from histrs._typing import Array
from histrs.gaussian_process._kernels.base import Takes

# Where the Brownian motions of curves begin, in standard deviations below the mean.
BEGIN = 3.0
# Variance of the level, in units of the noise: any level is as likely. It is so many amplitudes at
# least.
_LEVEL, _AMPLITUDES_OF_LEVEL = 1e4, 9.0


@dataclass(frozen=True)
class EvenMixture:
    r"""Kernels of lines, of distances and of curves, mixed.

    .. math:: a\,\Big(r_1 \frac{x^T x'}{D} + r_2\, e^{-|x - x'| / m}
              + \frac{r_3}{D} \sum_d b(x_d, x'_d)\Big)

    Here `D` is the number of columns, `m` a length, and :math:`b` the covariance of a Brownian
    motion. Categories are equal or not, and a constant of any size is added.
    """

    n_numbers: int
    length: float
    mix: tuple[float, float, float]
    amplitude: float

    takes: ClassVar[Takes] = "numbers"
    leaves_level: ClassVar[bool] = False
    n_parts: ClassVar[int] = 3

    @classmethod
    def start(cls, X: Array, n_numbers: int) -> Self:
        """Return the kernel with the length that suits rows."""
        unit = cls(n_numbers, 1.0, (0.0, 0.0, 0.0), 1.0)
        distances = unit._distances(X, X, unit._equal(X, X))
        apart = distances[np.triu_indices(len(X), 1)]
        length = float(np.median(apart)) if len(apart) > 0 else 1.0
        return cls(n_numbers, length if length > 0.0 else 1.0, (0.0, 0.0, 0.0), 1.0)

    @property
    def level(self) -> float:
        """Variance of the level."""
        return max(_LEVEL, _AMPLITUDES_OF_LEVEL * self.amplitude)

    def _equal(self, X: Array, Y: Array) -> Array:
        equal = np.zeros((len(X), len(Y)))
        for own, others in zip(X[:, self.n_numbers :].T, Y[:, self.n_numbers :].T, strict=True):
            equal += own[:, None] == others
        return equal

    def _distances(self, X: Array, Y: Array, equal: Array) -> Array:
        n = self.n_numbers
        unequal = X.shape[1] - n - equal
        squares = cdist(X[:, :n], Y[:, :n], "sqeuclidean") if n > 0 else 0.0
        return np.asarray(np.sqrt(squares + 2.0 * unequal))

    def parts(self, X: Array, Y: Array | None, n_threads: int) -> Any:
        """Return the matrices that are mixed."""
        Y = X if Y is None else Y
        n, equal, n_columns = self.n_numbers, self._equal(X, Y), max(X.shape[1], 1)
        lines = X[:, :n] @ Y[:, :n].T + equal
        begun, others = (np.maximum(Z[:, :n] + BEGIN, 0.0) / BEGIN for Z in (X, Y))
        # A minimum is half of the sum less half of the distance.
        sums = begun.sum(axis=1)[:, None] + others.sum(axis=1)
        apart = cdist(begun, others, "cityblock") if n > 0 else 0.0
        curves = equal + 0.5 * (sums - apart)
        distances = self._distances(X, Y, equal)
        return lines / n_columns, np.exp(-distances / self.length), curves / n_columns

    def matrix(self, parts: Any) -> Array:
        """Return the kernel matrix, as a new array in C order."""
        return self.of_mixed(self.mixed(parts))

    def mixed(self, parts: Any) -> Array:
        """Return the matrix of amplitude 1, without the level."""
        return np.asarray(sum(share * part for share, part in zip(self.mix, parts, strict=True)))

    def of_mixed(self, mixed: Array) -> Array:
        """Return the kernel matrix of what is mixed."""
        found = self.amplitude * mixed
        found += self.level
        return found

    def between(self, X: Array, Y: Array | None, n_threads: int) -> Array:
        """Return the kernel of rows of `X` with those of `Y`, or of `X`."""
        return self.matrix(self.parts(X, Y, n_threads))

    def diagonal(self, X: Array, n_threads: int) -> Array:
        """Return the kernel of every row with itself."""
        n, n_columns = self.n_numbers, max(X.shape[1], 1)
        n_categories = X.shape[1] - n
        lines = ((X[:, :n] ** 2).sum(axis=1) + n_categories) / n_columns
        begun = np.maximum(X[:, :n] + BEGIN, 0.0).sum(axis=1) / BEGIN
        curves = (begun + n_categories) / n_columns
        return self.matrix((lines, np.ones(len(X)), curves))
