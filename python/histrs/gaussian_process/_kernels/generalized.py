"""The generalised intersection kernel: transformed and weighted features on one sort."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from histrs import _histrs
from histrs._checks.validation import to_core
from histrs._distributed.rows import is_dask
from histrs._typing import Array, Matrix
from histrs.gaussian_process._bound.pairs import PairKernel, PairRows
from histrs.gaussian_process._distributed.arrays import weighted
from histrs.gaussian_process._kernels.base import Parametrised
from histrs.gaussian_process._learning.hyperparameters import Bounds
from histrs.gaussian_process._state import PickledByFields

TransformName: TypeAlias = Literal["identity", "power", "exponential"]
SmoothnessName: TypeAlias = Literal["linear", "cubic", "both"]
WeightsName: TypeAlias = Literal["auto", "scale", "relevance", "ard"]

# Weights that a search begins with the best of: lines that explain much or little, and, with both
# kinds of kernel, nearly all of one or of the other.
_SLOPES = (1e-2, 1.0, 1e2)
_ROUGH = (1e-3, 1.0, 1e3)


@dataclass(frozen=True)
class GeneralizedKernel(PickledByFields, Parametrised):
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
    bounds: Mapping[str, Bounds] = field(default_factory=dict, compare=False)
    """Of the parameters that a search may move, where they have a part in the kernel."""

    multiplies: ClassVar[str] = "feature_weights"
    ends_are_answers: ClassVar[frozenset[str]] = frozenset({"slope_weight", "rough_weight"})

    def parameter(self, name: str) -> Any:
        """Return a parameter that can be learned."""
        return self.weights if name == "feature_weights" else getattr(self, name)

    def _bounds(self) -> Mapping[str, Any]:
        has_part = {
            "exponent": self.transform != "identity",
            "feature_weights": True,
            "interaction_weight": self.pairs is not None,
            "slope_weight": self.is_smooth,
            "rough_weight": self.smoothness == "both",
        }
        return {k: self.bounds[k] for k, has in has_part.items() if has and k in self.bounds}

    def starts(self, bounds: Mapping[str, tuple[float, float]]) -> list[GeneralizedKernel]:
        """Return kernels between whose weights the likelihood may have several maxima."""
        kernels = [self]
        for name, weights in (("slope_weight", _SLOPES), ("rough_weight", _ROUGH)):
            if name in bounds:
                low, high = bounds[name]
                others = [w for w in weights if low <= w <= high and w != self.parameter(name)]
                kernels += [self.with_parameters({name: weight}) for weight in others]
        return kernels if len(kernels) > 1 else []

    @property
    def learned(self) -> dict[str, Any]:
        """What a fit tells of the kernel, by the names of its attributes."""
        pairs = self.pairs
        return {
            "feature_transform_": self.transform,
            "exponent_": self.exponent,
            "feature_weights_": self.weights,
            "intercept_variance_": self.intercept_variance,
            "interactions_": np.empty((0, 2), np.intp) if pairs is None else pairs.pairs,
            "interaction_weight_": 0.0 if pairs is None else self.interaction_weight,
            "interaction_knots_": [] if pairs is None else list(pairs.knots),
            "smoothness_": self.smoothness,
            "slope_weight_": self.slope_weight if self.is_smooth else 0.0,
            "rough_weight_": self.rough_weight,
        }

    def with_parameters(self, values: Mapping[str, Any]) -> GeneralizedKernel:
        """Return the kernel with some parameters replaced."""
        fields_of = {"feature_weights": "weights"}
        return replace(self, **{fields_of.get(name, name): v for name, v in values.items()})

    @property
    def leaves_level(self) -> bool:
        """Whether a level that rows share is open, as smooth functions have a mean of 0."""
        return self.is_smooth

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
            raise ValueError(
                f"transform = {self.transform!r} has no exponent: choose 'power' or 'exponential'."
            )
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


def weighted_kernel(
    transform: TransformName,
    exponent: float,
    feature_weights: ArrayLike | str | None,
    columns: _histrs.SortedColumns,
    n_threads: int,
) -> GeneralizedKernel:
    """Return the kernel with given weights, or, by any name, those that spreads of columns ask for.

    `columns` are those of the training rows.
    """
    kernel = GeneralizedKernel(transform, float(exponent))
    if feature_weights is None:
        return kernel
    if isinstance(feature_weights, str):
        weights = kernel.columns(columns, n_threads).inverse_spreads(n_threads)
    else:
        weights = _check_weights(np.array(feature_weights, dtype=np.float64), columns.n_columns)
    return replace(kernel, weights=weights)


def _check_weights(weights: Array, n_features: int) -> Array:
    if weights.shape != (n_features,):
        raise ValueError(
            f"feature_weights has shape {weights.shape}, and X has {n_features} features: give "
            "one weight for each."
        )
    bad = np.flatnonzero(~((weights > 0.0) & (weights < np.inf)))
    if len(bad) > 0:
        raise ValueError(
            f"feature_weights[{bad[0]}] = {weights[bad[0]]}: weights must be positive and finite; "
            "drop a column to leave it out."
        )
    return weights
