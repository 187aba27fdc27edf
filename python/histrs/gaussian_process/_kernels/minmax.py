"""The MinMax kernel of counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from histrs import _histrs
from histrs._checks.scale import may_overflow
from histrs._checks.validation import to_core
from histrs._typing import Array, Matrix
from histrs.gaussian_process._kernels.base import Kernel, Takes, as_matrix, double_pair
from histrs.gaussian_process._learning.hyperparameters import Bounds


@dataclass(repr=False, eq=False)
class MinMax(Kernel):
    r"""The MinMax kernel of counts, or a convex sum of it and the intersection kernel.

    .. math:: (1 - w) \frac{\sum_d \min(x_d, x'_d)}{\sum_d \max(x_d, x'_d)}
              + \frac{w}{m} \sum_d \min(x_d, x'_d)

    with the mean sum `m` of a training row in the first fit. The first, the Tanimoto coefficient of
    bits and counts [1]_, is the fraction of two rows that is in both, and the second the amount.

    Parameters
    ----------
    intersection_weight : float, default=0.5
        Weight `w` of the intersection kernel, between 0 and 1, where the search starts; 0 and 1
        are kept.
    intersection_weight_bounds : pair or "fixed", default=(1e-3, 1e3)
        Least and greatest odds `w / (1 - w)` in the search; "fixed" keeps the weight.

    Attributes
    ----------
    intersection_weight_ : float
        The weight of a fit.
    mean_sum_ : float
        `m`.

    References
    ----------
    .. [1] L. Ralaivola, S. J. Swamidass, H. Saigo and P. Baldi, "Graph kernels for chemical
       informatics", Neural Networks, 2005.

    Examples
    --------
    >>> from histrs.gaussian_process.kernels import MinMax
    >>> MinMax(0.0)([[1.0, 2.0], [2.0, 1.0]])
    array([[1. , 0.5],
           [0.5, 1. ]])
    """

    takes: ClassVar[Takes] = "histograms"
    ends_are_answers: ClassVar[frozenset[str]] = frozenset({"intersection_weight"})

    intersection_weight: float = 0.5
    intersection_weight_bounds: Bounds = (1e-3, 1e3)

    def _take(self, X: Any, weights: Array | None, n_threads: int) -> None:
        weight = self.intersection_weight
        if not 0.0 <= weight <= 1.0:
            raise ValueError(f"intersection_weight = {weight!r}: must be between 0 and 1.")
        sums = _histrs.row_sums(to_core(self.view(X, n_threads)), n_threads)
        # In units of the largest sums do not overflow; where all rows are empty, any size will do.
        unit = int(np.frexp(np.max(sums, initial=0.0))[1])
        self.mean_sum_ = float(np.ldexp(np.mean(np.ldexp(sums, -unit)), unit)) or 1.0

    def view(self, X: Any, n_threads: int) -> Any:
        """Return rows as a matrix."""
        return as_matrix(X)

    @property
    def n_parts(self) -> int:
        return 1 if self.intersection_weight == 0.0 else 2

    def parts(self, X: Matrix, Y: Matrix | None, n_threads: int) -> tuple[Array, ...]:
        """Return the MinMax kernel and, where it has a weight, the intersection kernel."""
        left, right = double_pair(X, Y)
        minmax = _histrs.minmax_gram(left, right, n_threads)
        if self.intersection_weight_ == 0.0:
            return (minmax,)
        return minmax, _histrs.intersection_gram(left, right, n_threads)

    def matrix(self, parts: Any) -> Array:
        matrix: Array = parts[0] * (1.0 - self.intersection_weight_)
        if self.intersection_weight_ > 0.0:
            # In this order: one over a tiny size overflows.
            matrix += self.intersection_weight_ * self._in_sizes(parts[1])
        return matrix

    def derivative(self, name: str, parts: Any) -> Array:
        weight, matrix = float(self.intersection_weight_), self._in_sizes(parts[1])
        matrix -= parts[0]
        matrix *= weight * (1.0 - weight)
        return matrix

    def diagonal(self, X: Matrix, n_threads: int) -> Array:
        sums = _histrs.row_sums(to_core(X), n_threads)
        weight = float(self.intersection_weight_)
        return 1.0 - weight + weight * self._in_sizes(sums)

    def stored(self, X: Matrix, n_threads: int) -> _histrs.StoredMinima:
        """Return the sums of minima of all pairs of rows."""
        return _histrs.StoredMinima(to_core(X.astype(np.float64, copy=False)), n_threads)

    def product(self, stored: _histrs.StoredMinima, V: Array, n_threads: int) -> Array:
        weight = self.intersection_weight_
        return stored.product(1.0 - weight, weight / self.mean_sum_, V, n_threads)

    def _in_sizes(self, sums: Array) -> Array:
        with may_overflow():
            relative: Array = sums / self.mean_sum_
        if not np.isfinite(relative).all():
            raise ValueError(
                f"the sum of a row of X is over {np.finfo(np.float64).max:.1e} times "
                f"{self.mean_sum_:.3g}, the mean of the first fit: give rows of one scale, or call "
                "fit with all rows."
            )
        return relative

    def free(self) -> dict[str, Bounds]:
        return super().free() if 0.0 < self.intersection_weight < 1.0 else {}

    def parameter(self, name: str) -> Any:
        """Return the odds of the intersection kernel."""
        return self.intersection_weight_ / (1.0 - self.intersection_weight_)

    def with_parameters(self, values: Mapping[str, Any]) -> Self:
        shares = {name: odds / (1.0 + odds) for name, odds in values.items()}
        return super().with_parameters(shares)
