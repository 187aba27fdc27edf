"""The kernel of projections some of whose functions are smooth, with weights that were learned."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from histrs._typing import Array
from histrs.gaussian_process._kernels.base import Kernel, Takes
from histrs.gaussian_process._sliced.projections import kernel_matrix


class Projected(Kernel):
    """The weighted sum of minima, or of cubic splines' kernels, of projections.

    Parameters
    ----------
    weights : array-like of shape (n_projections,)
        Weights.
    smooth : array-like of shape (n_projections,)
        Whether functions of each projection are splines.
    """

    takes: ClassVar[Takes] = "projections"

    def __init__(self, weights: ArrayLike, smooth: ArrayLike) -> None:
        self.weights = weights
        self.smooth = smooth

    def parts(self, X: Array, Y: Array | None, n_threads: int) -> tuple[Array, ...]:
        """Return the kernel matrix, which has no parameters."""
        weights, smooth = np.asarray(self.weights), np.asarray(self.smooth)
        if Y is None:
            return (kernel_matrix(X, weights, smooth, n_threads),)
        return (kernel_matrix(Y, weights, smooth, n_threads, X),)

    def matrix(self, parts: Any) -> Array:
        """Return the kernel matrix."""
        matrix: Array = parts[0].copy()
        return matrix

    def diagonal(self, X: Array, n_threads: int) -> Array:
        """Return the kernel of every row with itself."""
        terms = np.where(np.asarray(self.smooth), X**3 / 3.0, X)
        diagonal: Array = terms @ np.asarray(self.weights)
        return diagonal
