"""A constant beside the kernel, whose variance no kernel matrix holds."""

from __future__ import annotations

from dataclasses import dataclass

from histrs._typing import Array

# Prior variance of the bias.
BIAS_VARIANCE = 4.0


@dataclass(frozen=True)
class BiasSolution:
    """What a constant beside the kernel adds to it, by the formula of Sherman and Morrison."""

    weights: Array
    """`(K + W^-1 / a)^-1 1`."""
    determinant: float
    """Prior variance of the bias over its posterior one."""

    def in_inverse(self, amplitude: float) -> Array:
        """Return what it takes from the diagonal of the inverse."""
        taken: Array = BIAS_VARIANCE / amplitude / self.determinant * self.weights**2
        return taken

    def root_covariance(self, seen: Array, prior: float) -> Array:
        """Return `r`, where `r r^T` is what it adds to the covariance of functions of rows.

        `seen` are scores of the rows by its weights; `prior` is what it adds to the functions: 1,
        or 0 to the term of a feature.
        """
        root: Array = (BIAS_VARIANCE / self.determinant) ** 0.5 * (prior - seen)
        return root
