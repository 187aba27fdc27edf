"""What Gaussian processes of covariance matrices share."""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import Tags
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from histrs._row_weights import in_units_of_mean
from histrs._solvers.block_cg import Array
from histrs._sparse import refuse_sparse
from histrs._validation import NameOptions, validate_data, validate_fit
from histrs.gaussian_process._dense.base import BaseDenseGP
from histrs.gaussian_process._dense.spd_kernels import DivergenceKernel, GaussianKernel
from histrs.gaussian_process._hyperparameters import Bounds
from histrs.gaussian_process._optimizer import OptimizerName
from histrs.metrics._registry import COVARIANCE_KERNELS, CovarianceKernelName
from histrs.spd._distances import check_definite
from histrs.spd._mean import roots
from histrs.spd._reference import reference_mean, tangent_rows
from histrs.spd._stack import STACK_CHECKS, Stack, flattened, stacked

KernelName: TypeAlias = Literal["tangent"] | CovarianceKernelName

# Kernel coefficient of the Gaussian, in units of one over the mean squared distance of training
# rows.
_SCALED_GAMMA = (1e-3, 1e2)
# Of the divergence; below 1/2 the kernel is not positive definite.
_GAMMA = (0.5, 1e3)


class BaseSPDGP(BaseDenseGP):
    """Gaussian processes on covariance matrices."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **BaseDenseGP._parameter_constraints,
        "kernel": [NameOptions({"tangent", *COVARIANCE_KERNELS})],
        "gamma": [StrOptions({"learned"}), Interval(Real, 0, None, closed="neither")],
    }

    def __init__(
        self,
        kernel: KernelName = "tangent",
        *,
        gamma: Literal["learned"] | float = "learned",
        noise: float | ArrayLike = 0.1,
        amplitude: float | ArrayLike = 1.0,
        optimizer: OptimizerName | None = "l-bfgs-b",
        shared_hyperparameters: bool | None = None,
        noise_bounds: Bounds = (1e-6, 1e12),
        amplitude_bounds: Bounds = (1e-12, 1e12),
        n_restarts_optimizer: int = 0,
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(
            noise=noise,
            amplitude=amplitude,
            optimizer=optimizer,
            shared_hyperparameters=shared_hyperparameters,
            noise_bounds=noise_bounds,
            amplitude_bounds=amplitude_bounds,
            n_restarts_optimizer=n_restarts_optimizer,
            random_state=random_state,
            n_jobs=n_jobs,
            verbose=verbose,
        )
        self.kernel = kernel
        self.gamma = gamma

    def _rows_to_fit(
        self, X: ArrayLike, y: ArrayLike, *, reset: bool = True, **checks: Any
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        refuse_sparse(X, "X")
        flat = flattened(X, None if reset else self)
        data, y = validate_fit(self, flat, y, reset=reset, **checks)
        stack = stacked(np.asarray(data))
        # Before equal matrices are one, so that what is named is where it is in the argument.
        check_definite(stack, self.n_jobs)
        return stack, y

    def _coordinates(self, X: Stack, weights: Array | None, *, reset: bool) -> NDArray[Any]:
        if reset:
            self.kernel_ = self.kernel
            self.reference_ = self._reference(X, weights)
            self.whitener_ = None if self.reference_ is None else roots(self.reference_)[1]
        return self._rows(X)

    def _check_test(self, X: ArrayLike) -> NDArray[Any]:
        check_is_fitted(self)
        refuse_sparse(X, "X")
        flat = flattened(X, self)
        stack = stacked(validate_data(self, flat, reset=False, **STACK_CHECKS))
        return self._rows(stack)

    def _reference(self, stack: Stack, weights: Array | None) -> Array | None:
        if self.kernel != "tangent":
            return None
        of_mean, _ = in_units_of_mean(weights)
        shares = np.full(len(stack), 1.0 / len(stack))
        shares = shares if of_mean is None else shares * of_mean
        return reference_mean(type(self).__name__, stack, shares, "airm", self.n_jobs)

    def _rows(self, stack: Stack) -> NDArray[Any]:
        """Return what the kernel is between: coordinates, or the matrices themselves."""
        stack = stack.astype(np.float64)
        if self.kernel_ == "jbld":
            check_definite(stack, self.n_jobs)
            return stack
        return tangent_rows(stack, self.whitener_, self.n_jobs)

    def _start_kernel(self, X: Any) -> GaussianKernel | DivergenceKernel:
        if self.kernel == "jbld":
            given = 0.5 if self.gamma == "learned" else float(self.gamma)
            kernel = DivergenceKernel(given, X.shape[1])
            if given < _GAMMA[0] and X.shape[1] > 1:
                raise ValueError(
                    f"gamma = {given:g}: exp(-gamma D_J) is not positive definite below 1/2; take "
                    '1/2, gamma="learned" or kernel="tangent".'
                )
            return kernel
        # The mean over all pairs, from the two moments; less one of them, equal rows are all 0.
        X = X - X[0]
        spread = 2.0 * float(np.mean(np.sum((X - X.mean(axis=0)) ** 2, axis=1)))
        scale = spread if spread > 0.0 else 1.0
        scaled_gamma = 1.0 if self.gamma == "learned" else float(self.gamma) * scale
        return GaussianKernel(scaled_gamma, scale)

    def _kernel_bounds(self) -> dict[str, Bounds]:
        if self.gamma != "learned":
            return {}
        return {"gamma": _GAMMA} if self.kernel == "jbld" else {"scaled_gamma": _SCALED_GAMMA}

    def _keep_kernel(self, kernel: Any) -> None:
        self.gamma_ = float(kernel.gamma)
        self.distance_scale_ = float(getattr(kernel, "scale", 1.0))
        self.constant_ = float(getattr(kernel, "constant", 0.0))

    def _kernel(self, state: dict[str, Any]) -> GaussianKernel | DivergenceKernel:
        if state["kernel_"] == "jbld":
            return DivergenceKernel(state["gamma_"], state["X_fit_"].shape[1])
        scale = state["distance_scale_"]
        return GaussianKernel(state["gamma_"] * scale, scale, state["constant_"])

    def __sklearn_tags__(self) -> Tags:
        """Return what scikit-learn may expect of the estimator."""
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        return tags
