"""A mixture of functions of one weighted distance between rows of numbers and categories."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Literal, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from histrs import _histrs
from histrs._typing import Array
from histrs.gaussian_process._kernels.base import Takes
from histrs.gaussian_process._kernels.kept_distances import KeptDistances
from histrs.gaussian_process._state import PickledByFields

Norm: TypeAlias = Literal["l1", "l2"]

# Lengths of the Laplace and of the Matern-3/2 kernels: weights of columns set the unit.
_LENGTHS: dict[Norm, tuple[list[float], list[float]]] = {
    "l1": ([0.25, 1.0, 4.0], []),
    "l2": ([0.15, 0.5, 1.5], [0.5, 1.5]),
}
# Where searches start: logarithms of amplitudes.
AMPLITUDE = -1.5


@dataclass(frozen=True)
class DistanceMixture(PickledByFields, KeptDistances):
    r"""The kernel :math:`\sum_k a_k \phi_k(D) + e\,(|x| + |x'| - D)/2 + c` of a distance `D`.

    The distance is :math:`\sum_d w_d |x_d - x'_d|` ("l1"), or the root of
    :math:`\sum_d w_d^2 (x_d - x'_d)^2` ("l2"); two categories are 0 or 1 apart. The functions are
    Laplace kernels of three lengths, and for "l2" Matern-3/2 kernels of two.
    """

    norm: Norm
    n_numbers: int
    """How many columns are numbers; those behind them are categories."""
    log_weights: Array
    """Logarithms of the weights of columns."""
    log_amplitudes: Array
    """Logarithms of `a`, `e` and `c`."""
    axes: Array | None = None
    """Orthonormal directions, a column each, along which numbers are taken; None for columns."""

    takes: ClassVar[Takes] = "numbers"
    leaves_level: ClassVar[bool] = False
    n_parts: ClassVar[int] = 1

    @classmethod
    def start(cls, norm: Norm, n_numbers: int, n_categories: int) -> Self:
        """Return the kernel that a search starts from, with all columns alike."""
        n = max(n_numbers + n_categories, 1)
        weight = 2.0 / n if norm == "l1" else n**-0.5
        amplitudes = np.full(sum(map(len, _LENGTHS[norm])) + 2, AMPLITUDE)
        amplitudes[-1] = 0.0
        return cls(norm, n_numbers, np.full(n_numbers + n_categories, np.log(weight)), amplitudes)

    def turned(self, X: Array) -> Array:
        """Return rows as the kernel takes them: numbers along its axes."""
        if self.axes is None:
            return X
        return np.hstack([X[:, : self.n_numbers] @ self.axes, X[:, self.n_numbers :]])

    def spreads(self, X: Array) -> Array:
        """Return the mean square that each column adds to distances of rows, which were turned."""
        squares, n = np.exp(2.0 * self.log_weights), self.n_numbers
        if self.axes is None:
            return np.asarray(squares * X.var(axis=0))
        numbers = self.axes**2 @ squares[:n] * (X[:, :n] @ self.axes.T).var(axis=0)
        return np.append(numbers, squares[n:] * X[:, n:].var(axis=0))

    def with_logs(self, logs: Array) -> Self:
        """Return the kernel of other parameters: weights, and behind them amplitudes."""
        n = len(self.log_weights)
        return replace(self, log_weights=logs[:n], log_amplitudes=logs[n:])

    @property
    def logs(self) -> Array:
        """All parameters that can be learned."""
        return np.concatenate([self.log_weights, self.log_amplitudes])

    @property
    def lengths(self) -> tuple[list[float], list[float]]:
        """Lengths of the Laplace and of the Matern-3/2 kernels."""
        return _LENGTHS[self.norm]

    @cached_property
    def _core(self) -> _histrs.DistanceKernel:
        laplace, matern = self.lengths
        weights, amplitudes = np.exp(self.log_weights), np.exp(self.log_amplitudes)
        of_rows = self.norm == "l1", self.n_numbers, weights.tolist()
        return _histrs.DistanceKernel(*of_rows, laplace, matern, amplitudes.tolist())

    def core(self, n_columns: int) -> _histrs.DistanceKernel:
        """Return the kernel of rows."""
        return self._core

    # ---- as bound kernels ask ------------------------------------------------------------------

    def parts(self, X: Array, Y: Array | None, n_threads: int) -> Any:
        """Return what the matrix is made of: the rows, since no part of it outlives parameters."""
        return X, Y, n_threads

    def matrix(self, parts: Any) -> Array:
        """Return the kernel matrix, as a new array in C order."""
        return self._core.matrix(*parts)

    def between(self, X: Array, Y: Array | None, n_threads: int) -> Array:
        """Return the kernel of rows of `X` with those of `Y`, or of `X`."""
        return self.matrix((X, Y, n_threads))

    def cross_product(self, X: Array, Y: Array, V: Array, n_threads: int) -> Array:
        """Return the product of the kernel of rows of `X` with those of `Y`, and `V`."""
        none = np.empty((len(V), 0), dtype=np.float32)
        return self.scores(Y, V, none).evaluate(X, n_threads)

    def scores(self, Y: Array, V: Array, singles: NDArray[np.float32]) -> _histrs.DistanceScores:
        """Return what multiplies the kernel of any rows with those of `Y` by weights.

        Weights are `V`, and behind them `singles`, which are multiplied in single precision.
        """
        return _histrs.DistanceScores(self._core, Y, V, singles)

    def diagonal(self, X: Array, n_threads: int) -> Array:
        """Return the kernel of every row with itself."""
        amplitudes = np.exp(self.log_amplitudes)
        shapes, energy, constant = amplitudes[:-2].sum(), amplitudes[-2], amplitudes[-1]
        weights = np.exp(self.log_weights)
        parts = np.abs(X * weights)
        parts[:, self.n_numbers :] = weights[self.n_numbers :]
        norms = parts.sum(axis=1) if self.norm == "l1" else np.sqrt((parts**2).sum(axis=1))
        diagonal: Array = shapes + constant + energy * norms
        return diagonal

    def slopes(self, X: Array, G: Array, n_threads: int) -> Array:
        """Return sums of the slopes of the matrix by `logs`, weighted by a lower triangle."""
        return np.concatenate(self._core.slopes(X, G, n_threads))
