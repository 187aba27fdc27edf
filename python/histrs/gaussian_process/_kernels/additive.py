"""The terms of an additive kernel, which is never formed: functions of features, and pairs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from histrs import _histrs
from histrs.gaussian_process._kernels.algebra import Constant, Sum
from histrs.gaussian_process._kernels.base import Kernel
from histrs.gaussian_process._kernels.generalized import (
    GeneralizedKernel,
    SmoothnessName,
    weighted_kernel,
)
from histrs.gaussian_process._kernels.interactions import Interactions
from histrs.gaussian_process._kernels.intersection import Intersection
from histrs.gaussian_process._kernels.splines import Splines


@dataclass(frozen=True)
class AdditiveTerms:
    """What is asked of functions of features, and of pairs."""

    scale: Constant
    """The signal variance."""
    functions: Intersection | Splines
    pairs: Interactions | None

    @classmethod
    def of(cls, scale: Constant, kernel: Kernel) -> AdditiveTerms:
        """Take an expression apart, and look at its terms; `scale` multiplies all of it.

        Raises
        ------
        ValueError
            If what a term asks for means nothing, or goes without another.
        """
        functions, pairs = _taken_apart(kernel)
        if functions is None:
            raise ValueError(f"{kernel!r} is no sum of functions of features and of pairs.")
        found = cls(scale, functions, pairs)
        found.check()
        return found

    @staticmethod
    def suit(kernel: Kernel) -> bool:
        """Say whether an expression is Intersection or Splines, with or without Interactions."""
        functions, pairs = _taken_apart(kernel)
        alone = isinstance(functions, Intersection) and functions.transform == "identity"
        return functions is not None and (pairs is None or alone)

    def start(self, columns: _histrs.SortedColumns, n_threads: int) -> GeneralizedKernel:
        """Return the kernel that a search starts from; `columns` are those of training rows."""
        of_features = self.transform, self.exponent, self.feature_weights
        kernel = weighted_kernel(*of_features, columns, n_threads)
        names = ("exponent", "feature_weights", "slope_weight", "rough_weight")
        bounds: dict[str, Any] = {
            name: getattr(self.functions, f"{name}_bounds", "fixed") for name in names
        }
        if self.feature_weights_are_kept:
            bounds["feature_weights"] = "fixed"
        if self.pairs is not None:
            bounds["interaction_weight"] = self.pairs.weight_bounds
        return replace(kernel, bounds=bounds)

    @property
    def feature_weights_are_kept(self) -> bool:
        """Whether weights of features are no hyper-parameters of a search."""
        return not (isinstance(self.feature_weights, str) and self.feature_weights == "ard")

    def check(self) -> None:
        """Refuse terms that mean nothing, alone or together."""
        self.functions.check()
        given: Any = self.pairs
        if self.levels is not None and given is not None and given.weight_bounds != (1e-6, 1e6):
            raise ValueError(
                f"{given!r}: on levels each pair has a weight of its own, which is learned; leave "
                "weight_bounds as they are by default."
            )
        if self.pairs is None:
            return
        self.pairs.check()

    @property
    def has_pairs(self) -> bool:
        """Whether there may be pairs."""
        return self.pairs is not None and not self.pairs.has_none

    @property
    def levels(self) -> Any:
        """Levels of columns; None for every value."""
        return getattr(self.functions, "levels", None)

    @property
    def smoothness(self) -> SmoothnessName:
        """How smooth functions are."""
        if isinstance(self.functions, Intersection):
            return "linear"
        return "both" if self.functions.rough_weight > 0.0 else "cubic"

    @property
    def transform(self) -> Any:
        """The transform of features."""
        return getattr(self.functions, "transform", "identity")

    @property
    def exponent(self) -> float:
        """Its exponent."""
        return float(getattr(self.functions, "exponent", 1.0))

    @property
    def feature_weights(self) -> Any:
        """Weights of features, or how they are found."""
        return self.functions.feature_weights

    @property
    def intercept_variance(self) -> Any:
        """Variance of an intercept, or "auto"."""
        return getattr(self.functions, "intercept_variance", "auto")


def _taken_apart(
    kernel: Kernel,
) -> tuple[Intersection | Splines | None, Interactions | None]:
    """Return the functions of features and of pairs; none where there are others."""
    functions: Intersection | Splines | None = None
    pairs: Interactions | None = None
    for term in _summands(kernel):
        if isinstance(term, Intersection | Splines) and functions is None:
            functions = term
        elif isinstance(term, Interactions) and pairs is None:
            pairs = term
        else:
            return None, None
    return functions, pairs


def _summands(kernel: Kernel) -> list[Kernel]:
    if isinstance(kernel, Sum):
        return [*_summands(kernel.k1), *_summands(kernel.k2)]
    return [kernel]
