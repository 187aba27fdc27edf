"""The linear kernel."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from histrs._typing import Array
from histrs.gaussian_process._kernels.base import Kernel
from histrs.gaussian_process._learning.hyperparameters import Bounds


class Linear(Kernel):
    r"""The inner product of centred rows, :math:`v\, (x - m)^\top (x' - m)`.

    With the means `m` of the training rows, it is the covariance of linear functions whose slopes
    have the variance `v` each.

    Parameters
    ----------
    variance : float or "scale", default="scale"
        Variance of a slope, where the search starts. "scale" is one over the mean squared length
        of a centred training row.
    variance_bounds : pair or "fixed", default=(1e-6, 1e6)
        Least and greatest variance in the search, as multiples of the unit: 1, or what "scale" is.
        "fixed" keeps the start.

    Attributes
    ----------
    variance_ : float
        The variance of a fit.
    mean_ : ndarray of shape (n_features,)
        `m`.

    Examples
    --------
    >>> from histrs.gaussian_process.kernels import Linear
    >>> Linear(1.0)([[0.0], [2.0]])
    array([[ 1., -1.],
           [-1.,  1.]])
    """

    may_end: ClassVar[tuple[str, ...]] = ("variance",)

    def __init__(
        self, variance: float | str = "scale", variance_bounds: Bounds = (1e-6, 1e6)
    ) -> None:
        self.variance = variance
        self.variance_bounds = variance_bounds

    def _take(self, X: Any, weights: Array | None, n_threads: int) -> None:
        X = np.asarray(X, dtype=np.float64)
        self.mean_ = np.average(X, axis=0, weights=weights)
        self._unit = 1.0
        if self.variance == "scale":
            size = float(np.mean(np.sum((X - self.mean_) ** 2, axis=1)))
            self._unit = self.variance_ = 1.0 / size if size > 0.0 else 1.0

    def parts(self, X: Array, Y: Array | None, n_threads: int) -> tuple[Array, ...]:
        """Return inner products."""
        X = self._centred(X)
        return (X @ (X if Y is None else self._centred(Y)).T,)

    def matrix(self, parts: Any) -> Array:
        """Return the kernel matrix."""
        matrix: Array = parts[0] * self.variance_
        return matrix

    def derivative(self, name: str, parts: Any) -> Array:
        """Return the derivative by the logarithm of the variance: the matrix."""
        return self.matrix(parts)

    def diagonal(self, X: Array, n_threads: int) -> Array:
        """Return the kernel of every row with itself."""
        X = self._centred(X)
        diagonal: Array = self.variance_ * np.einsum("ij,ij->i", X, X)
        return diagonal

    def _centred(self, X: Any) -> Array:
        return np.asarray(X, dtype=np.float64) - self.mean_

    def scale_is_among(self, names: Any) -> bool:
        """Say whether the variance is."""
        return "variance" in names
