"""The likelihood of a stored kernel matrix, and its gradient."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from histrs._solvers.block_cg import Array
from histrs._solvers.log_det import exact_log_det
from histrs._solvers.row_scale import scaled
from histrs.gaussian_process._dense.system import DenseSystem
from histrs.gaussian_process._hyperparameters import Hyperparameters, Scales
from histrs.gaussian_process._kernels.base import Kernel
from histrs.gaussian_process._likelihood import BaseLikelihood
from histrs.gaussian_process._row_weights import rows_of
from histrs.gaussian_process._spectrum import Evaluation, Spectrum, Terms


class DenseLikelihood(BaseLikelihood):
    """The exact likelihood of targets, by factors of the kernel matrix.

    Parameters
    ----------
    X : rows
        The training rows.
    parts : tuple
        What their kernel matrix is made of.
    Y : ndarray of shape (n_samples, n_outputs)
        Targets.
    kernel : Kernel
        One of those that the parts are of.
    seed : callable
        Returns that of the random vectors for the spectrum of many rows.
    row_scale : ndarray of shape (n_samples,), default=None
        Roots of the weights of rows; None for 1.
    stays : ndarray of shape (n_samples,), default=None
        What part of each row one of its copies leaves, where copies tell noise; None for 0.
    """

    def __init__(
        self,
        X: Any,
        parts: Any,
        Y: Array,
        kernel: Kernel,
        *,
        seed: Callable[[], int],
        row_scale: Array | None = None,
        stays: Array | None = None,
    ) -> None:
        super().__init__(Y, row_scale, stays)
        self._X, self._parts, self._kernel, self._seed = X, parts, kernel, seed

    @property
    def targets(self) -> Array:
        """The targets, times the roots of the weights of rows."""
        return self._Y

    @property
    def row_scale(self) -> Array | None:
        """Roots of the weights of rows; None for 1."""
        return self._row_scale

    def of_some(self, rows: NDArray[np.intp]) -> Self:
        """Return the likelihood of some rows."""
        scale = self._row_scale
        return type(self)(
            self._X[rows],
            self._kernel.some(self._parts, rows),
            self._Y[rows] if scale is None else self._Y[rows] / scale[rows, None],
            self._kernel,
            seed=self._seed,
            row_scale=rows_of(scale, rows),
            stays=rows_of(self._stays, rows),
        )

    def system(self, kernel: Kernel, scales: Scales) -> DenseSystem:
        """Return the linear system of some hyper-parameters."""
        # Its rows are not looked at, so that threads do not matter.
        return DenseSystem(
            self._X, scales.noise, scales.amplitude, kernel, 1, self._parts, self._row_scale
        )

    def kernel_matrix(self, kernel: Kernel) -> Array:
        """Return the kernel matrix, without amplitude and the scale of rows."""
        return kernel.matrix(self._parts)

    def diagonal_mean(self, values: Hyperparameters) -> float:
        """Return the mean of the kernel matrix's diagonal, without amplitude."""
        return float(np.mean(values.kernel.diagonal(self._X, 1)))

    def spectrum(self, kernel: Kernel) -> Spectrum:
        """Return the likelihood of this kernel under every noise and amplitude."""
        return self._spectrum_of(self.system(kernel, Scales(1.0, 1.0)), self._seed, exact=True)

    def _evaluate_pair(
        self, values: Hyperparameters, outputs: slice, names: Collection[str]
    ) -> Evaluation:
        (scales,) = values.scales()
        system = self.system(values.kernel, scales)
        Y = np.ascontiguousarray(self._Y[:, outputs])
        B = system.factor.solve(Y)
        log_det = exact_log_det(system.factor, derivative=bool(names))
        V = log_det.V
        terms = Terms(
            B.shape,
            data=float(np.sum(Y * B)),
            log_det=log_det.value,
            data_slope=float(np.sum(B * B)),
            trace_inverse=float(np.sum(V * V)),
            n_repeats=self.n_repeats,
        )
        if not names:
            return Evaluation(terms.log_likelihood(scales), 0.0, {})
        gradient = terms.gradient(scales)
        others = [name for name in names if name not in gradient]
        if others:
            # Along `dK` the likelihood changes by half of the sum of its products with this.
            B, V = (scaled(self._row_scale, vectors) for vectors in (B, V))
            slopes = B @ (B.T / scales.amplitude) - B.shape[1] * (V @ V.T)
        for name in others:
            derivative = values.kernel.derivative(name, self._parts)
            gradient[name] = 0.5 * float(np.vdot(derivative, slopes))
        return Evaluation(terms.log_likelihood(scales), 0.0, gradient)
