"""The terms of an additive kernel, which is never formed: functions of features, and pairs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from histrs.gaussian_process._hyperparameters import Bounds
from histrs.gaussian_process._kernel import SmoothnessName
from histrs.gaussian_process._kernels.algebra import Constant, Sum
from histrs.gaussian_process._kernels.base import Kernel
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
            If a term is none of an additive kernel, or what a term asks for goes without another.
        """
        functions: Intersection | Splines | None = None
        pairs: Interactions | None = None
        for term in _summands(kernel):
            if isinstance(term, Intersection | Splines) and functions is None:
                functions = term
            elif isinstance(term, Interactions) and pairs is None:
                pairs = term
            else:
                raise ValueError(
                    f"{term!r} is no term of {kernel!r}, whose matrix is never formed: it is "
                    "Intersection or Splines, once, and Interactions beside it. GPRegressor and "
                    "GPClassifier take any sum."
                )
        if functions is None:
            raise ValueError(f"{kernel!r} has no functions of features: add Intersection().")
        found = cls(scale, functions, pairs)
        found.check()
        return found

    def check(self) -> None:
        """Refuse terms that mean nothing, alone or together."""
        self.functions.check()
        if self.pairs is None:
            return
        self.pairs.check()
        if isinstance(self.functions, Splines):
            raise ValueError(
                "Splines goes without Interactions: take Intersection, or leave pairs out."
            )
        if self.transform != "identity":
            raise ValueError(
                f"Intersection(transform={self.transform!r}) goes without Interactions: transform "
                "the features before the fit."
            )

    @property
    def has_pairs(self) -> bool:
        """Whether there may be pairs."""
        return self.pairs is not None and not self.pairs.has_none

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

    def bounds_of(self, name: str) -> Bounds:
        """Return the bounds of a hyper-parameter of the kernel."""
        if name == "interaction_weight":
            found: Bounds = self.pairs.weight_bounds if self.pairs is not None else "fixed"
        elif name == "amplitude":
            found = self.scale.value_bounds
        else:
            found = getattr(self.functions, f"{name}_bounds")
        return found


def _summands(kernel: Kernel) -> list[Kernel]:
    if isinstance(kernel, Sum):
        return [*_summands(kernel.k1), *_summands(kernel.k2)]
    return [kernel]
