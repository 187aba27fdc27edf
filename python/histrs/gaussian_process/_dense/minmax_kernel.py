"""The MinMax kernel of whole numbers, parts and sums of minima."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse

from histrs import _histrs
from histrs._scale import may_overflow
from histrs._solvers.block_cg import Array
from histrs._validation import (
    CoreMatrix,
    Matrix,
    to_core,
)
from histrs.gaussian_process._dense.kernel import DenseKernel


@dataclass(frozen=True)
class MinMaxKernel(DenseKernel):
    """The MinMax kernel, or a convex sum of it and the intersection kernel."""

    weight: float
    """Of the intersection kernel."""
    size: float
    """Mean sum of a training row, by which the intersection kernel is divided."""

    ends_are_answers: ClassVar[frozenset[str]] = frozenset({"odds"})

    @property
    def n_parts(self) -> int:
        """How many matrices `parts` returns."""
        return 1 if self.weight == 0.0 else 2

    def parts(self, X: Matrix, Y: Matrix | None, n_threads: int) -> tuple[Array, ...]:
        """Return the MinMax kernel and, where it has a weight, the intersection kernel."""
        left, right = _double_pair(X, Y)
        minmax = _histrs.minmax_gram(left, right, n_threads)
        if self.weight == 0.0:
            return (minmax,)
        return minmax, _histrs.intersection_gram(left, right, n_threads)

    def matrix(self, parts: tuple[Array, ...]) -> Array:
        """Return the kernel matrix."""
        matrix: Array = parts[0] * (1.0 - self.weight)
        if self.weight > 0.0:
            # In this order: one over a tiny size overflows.
            matrix += self.weight * self._in_sizes(parts[1])
        return matrix

    def derivative(self, name: str, parts: tuple[Array, ...]) -> Array:
        """Return the derivative by the logarithm of the odds."""
        matrix = self._in_sizes(parts[1])
        matrix -= parts[0]
        matrix *= self.weight * (1.0 - self.weight)
        return matrix

    def stored(self, X: Matrix, n_threads: int) -> _histrs.StoredMinima:
        """Return the sums of minima of all pairs of rows."""
        return _histrs.StoredMinima(to_core(X.astype(np.float64, copy=False)), n_threads)

    def product(self, stored: _histrs.StoredMinima, V: Array, n_threads: int) -> Array:
        """Return the product of the kernel matrix with `V`."""
        return stored.product(1.0 - self.weight, self.weight / self.size, V, n_threads)

    def diagonal(self, X: Matrix, n_threads: int) -> Array:
        """Return the kernel of every row with itself."""
        sums = _histrs.row_sums(to_core(X), n_threads)
        return 1.0 - self.weight + self.weight * self._in_sizes(sums)

    def _in_sizes(self, sums: Array) -> Array:
        with may_overflow():
            relative: Array = sums / self.size
        if not np.isfinite(relative).all():
            raise ValueError(
                f"The sum of a row of X is over {np.finfo(np.float64).max:.1e} times that of the "
                f"rows of the first fit, whose mean is {self.size:.3g}: give rows of one scale, or "
                "call fit with all."
            )
        return relative

    def parameter(self, name: str) -> Any:
        """Return the odds of the intersection kernel."""
        return self.weight / (1.0 - self.weight)

    def with_parameters(self, values: Mapping[str, Any]) -> Self:
        """Return the kernel with other odds."""
        return replace(self, weight=values["odds"] / (1.0 + values["odds"]))


def _double_pair(X: Matrix, Y: Matrix | None) -> tuple[CoreMatrix, CoreMatrix | None]:
    """Return both as the core takes them: in double precision and of one kind."""
    X = X.astype(np.float64, copy=False)
    if Y is None:
        return to_core(X), None
    Y = Y.astype(np.float64, copy=False)
    if sparse.issparse(X) != sparse.issparse(Y):
        X, Y = sparse.csr_array(X), sparse.csr_array(Y)
    return to_core(X), to_core(Y)
