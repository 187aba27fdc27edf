"""The generalised intersection kernel: transformed and weighted features on one sort."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
from scipy import sparse

from histrs import _histrs
from histrs._dask import is_dask
from histrs._solvers.block_cg import Array
from histrs._validation import Matrix, to_core
from histrs.gaussian_process._distributed.arrays import weighted
from histrs.gaussian_process._interactions.kernel import PairKernel, PairRows

TransformName: TypeAlias = Literal["identity", "power", "exponential"]
SmoothnessName: TypeAlias = Literal["linear", "cubic", "both"]


@dataclass(frozen=True)
class GeneralizedKernel:
    """`sum_d w_d min(g(x(d)), g(x'(d)))` with an increasing `g` (eqs. 14 to 17), and a constant."""

    transform: TransformName = "identity"
    exponent: float = 1.0
    weights: Array | None = None
    pairs: PairKernel | None = None
    """Pairs of features, whose kernel is added, times `interaction_weight`."""
    interaction_weight: float = 1.0
    smoothness: SmoothnessName = "linear"
    """Other than "linear": a `SmoothTerm` takes the place of the minima."""
    slope_weight: float = 1.0
    rough_weight: float = 0.0
    intercept_variance: float = 0.0
    """A constant that is added: the prior variance of an intercept."""

    ends_are_answers: ClassVar[frozenset[str]] = frozenset({"slope_weight", "rough_weight"})
    """Parameters that a search may well leave at a bound."""

    def parameter(self, name: str) -> Any:
        """Return a parameter that can be learned."""
        return self.weights if name == "feature_weights" else getattr(self, name)

    def with_parameters(self, values: Mapping[str, Any]) -> GeneralizedKernel:
        """Return the kernel with some parameters replaced."""
        exponent = values.get("exponent", self.exponent)
        weights = values.get("feature_weights", self.weights)
        others = {
            name: values.get(name, getattr(self, name))
            for name in ("interaction_weight", "slope_weight", "rough_weight")
        }
        return replace(self, exponent=exponent, weights=weights, **others)

    def scale_is_among(self, names: Collection[str]) -> bool:
        """Say whether some parameters multiply the kernel, as its variance does."""
        return "feature_weights" in names

    @property
    def is_smooth(self) -> bool:
        """Whether functions of features are smooth, or have a smooth part."""
        return self.smoothness != "linear"

    @property
    def is_plain(self) -> bool:
        """Whether this is the kernel of eq. 5."""
        return self.transform == "identity" and self.weights is None

    @cached_property
    def _core(self) -> _histrs.Transform:
        return _histrs.Transform(self.transform, self.exponent)

    def same_as(self, other: GeneralizedKernel) -> bool:
        """Whether the two take minima of the same columns."""
        same_transform = (self.transform, self.exponent) == (other.transform, other.exponent)
        if self.weights is None or other.weights is None:
            return same_transform and self.weights is other.weights
        return same_transform and np.array_equal(self.weights, other.weights)

    def columns(self, base: _histrs.SortedColumns, n_threads: int) -> _histrs.SortedColumns:
        """Return the sorted columns of the features that the kernel takes minima of."""
        if self.is_plain:
            return base
        return base.transformed(self._core, self.weights, n_threads)

    def pair_rows(self, rows: Matrix) -> PairRows | None:
        """Return transformed rows as the pairs see them."""
        return None if self.pairs is None else PairRows(self.pairs, rows, self.weights)

    def slope_columns(
        self, base: _histrs.SortedColumns, n_threads: int
    ) -> tuple[_histrs.SortedColumns, float]:
        """Return columns and `c` with which the derivative by the exponent is `K_columns + c K`."""
        slope = self._core.exponent_slope(base.smallest())
        if slope is None:
            raise ValueError(f"transform = {self.transform!r} has no exponent.")
        transform, offset = slope
        return base.transformed(transform, self.weights, n_threads), offset

    def evaluate(self, functions: _histrs.ShapeFunctions, X: Matrix, n_threads: int) -> Array:
        """Return the sums of functions at the rows as the kernel sees them, without a copy."""
        return functions.evaluate_transformed(to_core(X), self._core, self.weights, n_threads)

    def rows(self, X: Matrix, n_threads: int) -> Matrix:
        """Return `w_d g(x(d))` in place of every entry, in double precision."""
        if self.is_plain:
            return X
        if is_dask(X):
            lazy: Matrix = weighted(X, self.weights)
            return lazy
        rows = _histrs.transform_rows(to_core(X), self._core, self.weights, n_threads)
        if isinstance(rows, tuple):
            return sparse.csr_array(rows, shape=X.shape)
        return rows
