"""The process of projections some of whose kernels are smooth, by a stored kernel matrix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from histrs._solvers.block_cg import Array
from histrs._validation import HISTOGRAM_CHECKS, validate_data, validate_fit
from histrs.gaussian_process._dense.base import BaseDenseGP
from histrs.gaussian_process._dense.kernel import DenseKernel
from histrs.gaussian_process._hyperparameters import Bounds
from histrs.gaussian_process._regression import RealTargets
from histrs.gaussian_process._sliced.projections import kernel_matrix


@dataclass(frozen=True)
class ProjectedKernel(DenseKernel):
    """The weighted sum of minima, or of cubic splines' kernels, of projections."""

    weights: Array
    smooth: NDArray[np.bool_]

    def parts(self, X: Array, Y: Array | None, n_threads: int) -> tuple[Array, ...]:
        """Return the kernel matrix, which has no parameters."""
        if Y is None:
            return (kernel_matrix(X, self.weights, self.smooth, n_threads),)
        return (kernel_matrix(Y, self.weights, self.smooth, n_threads, X),)

    def matrix(self, parts: tuple[Array, ...]) -> Array:
        """Return the kernel matrix."""
        return parts[0].copy()

    def diagonal(self, X: Array, n_threads: int) -> Array:
        """Return the kernel of every row with itself."""
        terms = np.where(self.smooth, X**3 / 3.0, X)
        diagonal: Array = terms @ self.weights
        return diagonal


class ProjectedGPRegressor(RealTargets, BaseDenseGP):
    """Gaussian process regressor on projections, with the weights that were learned for them."""

    def __init__(
        self,
        weights: ArrayLike = (),
        smooth: ArrayLike = (),
        *,
        noise: float | ArrayLike = 0.1,
        amplitude: float | ArrayLike = 1.0,
        optimizer: Any = None,
        noise_bounds: Bounds = (1e-6, 1e12),
        amplitude_bounds: Bounds = (1e-12, 1e12),
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(
            noise=noise,
            amplitude=amplitude,
            optimizer=optimizer,
            noise_bounds=noise_bounds,
            amplitude_bounds=amplitude_bounds,
            random_state=random_state,
            n_jobs=n_jobs,
            verbose=verbose,
        )
        self.weights = weights
        self.smooth = smooth

    std_error_ = 0.0

    def _rows_to_fit(
        self, X: ArrayLike, y: ArrayLike, *, reset: bool = True, **checks: Any
    ) -> tuple[Any, NDArray[Any]]:
        return validate_fit(self, X, y, reset=reset, **checks)

    def _check_test(self, X: ArrayLike) -> Any:
        check_is_fitted(self)
        return validate_data(self, X, reset=False, **HISTOGRAM_CHECKS)

    def _start_kernel(self, X: Any) -> ProjectedKernel:
        return ProjectedKernel(np.asarray(self.weights), np.asarray(self.smooth))

    def _kernel_bounds(self) -> dict[str, Bounds]:
        return {}

    def _keep_kernel(self, kernel: Any) -> None:
        self.weights_, self.smooth_ = kernel.weights, kernel.smooth

    def _kernel(self, state: dict[str, Any]) -> ProjectedKernel:
        return ProjectedKernel(state["weights_"], state["smooth_"])
