"""The factor of a system whose kernel has fewer weights than there are rows."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Protocol

import numpy as np

from histrs._solvers.cholesky import CholeskyFactor, inverse_of
from histrs._solvers.row_scale import scaled
from histrs._typing import Array


class OfWeights(Protocol):
    r"""A kernel :math:`\Phi V \Phi^T` on its training rows."""

    @property
    def kernel(self) -> Any:
        """With the diagonal `V`, the `prior` of the weights, and the `part` of each feature."""

    @property
    def n_rows(self) -> int:
        """How many training rows there are."""

    @property
    def codes(self) -> Any:
        """The training rows as `forms` takes them."""

    def functions(self, W: Array) -> Array:
        """Return `Phi W`."""

    def weights(self, V: Array) -> Array:
        """Return `Phi^T V`."""

    def normal_matrix(self, row_scale: Array | None) -> Array:
        """Return `Phi^T R^2 Phi`."""

    def between_codes(self, S: Array) -> Array:
        """Return `S` between any two codes, as `forms` looks it up."""

    def forms(self, Q: Array, T: Any) -> Array:
        """Return the diagonal of `Phi S Phi^T` of rows, with `S` between codes."""


class WeightFactor:
    r"""What a Cholesky factor of `R K R + s I` tells, from a matrix of the weights alone.

    With :math:`M = s I + V^{1/2} \Phi^T R^2 \Phi V^{1/2}`,

    .. math:: (R \Phi V \Phi^T R + s I)^{-1}
              = (I - R \Phi V^{1/2} M^{-1} V^{1/2} \Phi^T R) / s.
    """

    def __init__(self, bound: OfWeights, s: float, row_scale: Array | None) -> None:
        self._bound, self._s, self._row_scale = bound, s, row_scale
        self._root = np.sqrt(bound.kernel.prior)
        M = self._root[:, None] * bound.normal_matrix(row_scale)
        M *= self._root
        self._factor = CholeskyFactor.with_noise(M, s, "Raise noise or lower amplitude.")

    def __getstate__(self) -> dict[str, Any]:
        """Return what cannot be computed again."""
        made = ("_covariance", "_between_codes")
        return {k: v for k, v in vars(self).items() if k not in made}

    def solve(self, B: Array) -> Array:
        """Return `(R K R + s I)^-1 B`."""
        r, root = self._row_scale, self._root[:, None]
        z = self._factor.solve(np.asfortranarray(root * self._bound.weights(scaled(r, B))))
        solved: Array = (B - scaled(r, self._bound.functions(root * z))) / self._s
        return solved

    def form(self, k: Array) -> Array:
        """Return `k^T (R K R + s I)^-1 k`."""
        form: Array = k.T @ self.solve(k)
        return form

    def forms(self, k: Array) -> Array:
        """Return the diagonal of that."""
        forms: Array = np.einsum("ij,ij->j", k, self.solve(k))
        return forms

    def log_det(self) -> float:
        """Return `log det (R K R + s I)`."""
        others = (self._bound.n_rows - len(self._root)) * float(np.log(self._s))
        return self._factor.log_det() + others

    @cached_property
    def _covariance(self) -> Array:
        """The posterior covariance of the weights, over `s`."""
        inverse = inverse_of(self._factor.whole())
        covariance: Array = self._root[:, None] * inverse * self._root
        return covariance

    @cached_property
    def _between_codes(self) -> Array:
        """The same between any two codes: rows are predicted a block at a time, and often."""
        return self._bound.between_codes(self._covariance)

    def function_variance(self, feature: int) -> Array:
        """Return the posterior variance of a feature's function at its codes."""
        ramps, weights = self._bound.kernel.part(feature)
        inner = self._covariance[weights, weights]
        variance: Array = self._s * np.einsum("ij,jk,ik->i", ramps, inner, ramps, optimize=True)
        return np.maximum(variance, 0.0)

    def inverse_diagonal(self) -> Array:
        """Return the diagonal of `(R K R + s I)^-1`."""
        leverages = self._bound.forms(self._between_codes, self._bound.codes)
        weights = 1.0 if self._row_scale is None else self._row_scale**2
        diagonal: Array = (1.0 - weights * leverages) / self._s
        return diagonal

    def variance(self, T: Any) -> Array:
        """Return the posterior variances of rows, without amplitude."""
        return self._s * self._bound.forms(self._between_codes, T)
