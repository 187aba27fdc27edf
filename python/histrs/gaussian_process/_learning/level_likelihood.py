"""The likelihood of targets under a kernel on levels of columns, from sums over its weights."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
from scipy import linalg

from histrs._solvers.cholesky import CholeskyFactor
from histrs._solvers.row_scale import scaled
from histrs._typing import Array
from histrs.gaussian_process._bound.levels import LevelBound
from histrs.gaussian_process._kernels.levels import LevelKernel
from histrs.gaussian_process._learning.hyperparameters import Hyperparameters, Scales
from histrs.gaussian_process._learning.likelihood import BaseLikelihood
from histrs.gaussian_process._learning.spectrum import Evaluation, Measure, Spectrum, Terms
from histrs.gaussian_process._options import Solver
from histrs.gaussian_process._systems.system import System

# Eigenvalues of more weights take longer than factors.
_MAX_EIGEN_WEIGHTS = 512
# Part of the largest eigenvalue below which one is rounding.
_ROUNDING = 1e-13


class LevelLikelihood(BaseLikelihood):
    r"""The likelihood of targets under a kernel on levels, from sums over weights.

    With :math:`M = s I + V^{1/2} \Phi^T \Phi V^{1/2}`, :math:`c = V^{1/2} \Phi^T y` and
    :math:`z = M^{-1} c`, its slope by the logarithm of a prior variance :math:`v_j` is
    :math:`(z_j^2 / a - \gamma_j) / 2` for a target, :math:`\gamma_j = 1 - s [M^{-1}]_{jj}`.

    Parameters
    ----------
    bound : LevelBound
        The kernel on the training rows.
    Y : ndarray of shape (n_samples, n_outputs)
        Targets.
    row_scale : ndarray of shape (n_samples,), default=None
        Roots of the weights of rows; None for 1.
    stays : ndarray of shape (n_samples,), default=None
        What part of each row one of its copies leaves, where copies tell noise; None for 0.
    """

    def __init__(
        self,
        bound: LevelBound,
        Y: Array,
        row_scale: Array | None = None,
        stays: Array | None = None,
    ) -> None:
        super().__init__(Y, row_scale, stays)
        self._bound = bound
        self._normal = bound.normal_matrix(row_scale)
        self._of_targets = bound.weights(scaled(row_scale, self._Y))
        self._squares = np.einsum("ij,ij->j", self._Y, self._Y)

    @property
    def has_spectrum(self) -> bool:
        """Whether eigenvalues are worth computing."""
        return len(self._normal) <= _MAX_EIGEN_WEIGHTS

    def system(self, kernel: Any, scales: Scales) -> System:
        """Return the linear system of some hyper-parameters."""
        return System(
            bound=self._bound.with_kernel(kernel),
            noise=scales.noise,
            amplitude=scales.amplitude,
            solver=Solver(),
            row_scale=self.row_scale,
        )

    def diagonal_mean(self, values: Hyperparameters) -> float:
        """Return the mean of the kernel matrix's diagonal, without amplitude."""
        variances = self._bound.with_kernel(values.kernel).variances
        weights = 1.0 if self.row_scale is None else self.row_scale**2
        return float(np.mean(weights * variances))

    def _scaled(self, kernel: LevelKernel) -> tuple[Array, Array]:
        root = np.sqrt(kernel.prior)
        M = self._normal * root
        M *= root[:, None]
        return M, root[:, None] * self._of_targets

    def spectrum(self, kernel: Any) -> Spectrum:
        """Return the likelihood of this kernel under every noise and amplitude."""
        return WeightSpectrum(
            *self._scaled(kernel),
            self._squares,
            n_rows=len(self._Y),
            log_jacobian=self._log_jacobian,
            n_repeats=self.n_repeats,
        )

    def _evaluate_pair(
        self, values: Hyperparameters, outputs: slice, names: Collection[str]
    ) -> Evaluation:
        (scales,) = values.scales()
        scales.check()
        s, kernel = scales.noise / scales.amplitude, values.kernel
        M, c = self._scaled(kernel)
        c = np.asfortranarray(c[:, outputs])
        factor = CholeskyFactor.with_noise(M, s, "Raise noise or lower amplitude.")
        z = factor.solve(c)
        n_rows, n_outputs = len(self._Y), c.shape[1]
        data = (float(np.sum(self._squares[outputs])) - float(np.sum(c * z))) / s
        gamma = np.zeros(len(c))
        if names:
            gamma = 1.0 - s * factor.inverse_diagonal()
        terms = Terms(
            (n_rows, n_outputs),
            data=data,
            log_det=factor.log_det() + (n_rows - len(c)) * float(np.log(s)),
            data_slope=(data - float(np.sum(z * z))) / s,
            trace_inverse=(n_rows - float(gamma.sum())) / s,
            n_repeats=self.n_repeats,
        )
        gradient = terms.gradient(scales) if names else {}
        if "level_weights" in names:
            slopes = 0.5 * (np.sum(z * z, axis=1) / scales.amplitude - n_outputs * gamma)
            shares = kernel.of_measures[:, :-1] / kernel.prior[:-1]
            gradient["level_weights"] = shares @ slopes[:-1]
        return Evaluation(terms.log_likelihood(scales), 0.0, gradient)


class WeightSpectrum(Spectrum):
    """All eigenvalues of a kernel matrix, from those of a matrix of its weights."""

    def __init__(
        self,
        M: Array,
        c: Array,
        squares: Array,
        *,
        n_rows: int,
        log_jacobian: float,
        n_repeats: float,
    ) -> None:
        self.n_rows, self.log_jacobian, self.n_repeats = n_rows, log_jacobian, n_repeats
        nodes, Q = linalg.eigh(M, overwrite_a=True, check_finite=False)
        real = nodes > _ROUNDING * max(float(np.max(nodes, initial=0.0)), 0.0)
        nodes, Q = nodes[real], Q[:, real]
        inside = (Q.T @ c) ** 2 / nodes[:, None]
        rest = np.maximum(squares - inside.sum(axis=0), 0.0)
        with_zero = np.append(nodes, 0.0)
        self.data = [
            Measure(with_zero, np.append(*pair)) for pair in zip(inside.T, rest, strict=True)
        ]
        counts = np.append(np.ones(len(nodes)), float(n_rows - len(nodes)))
        self.traces = [Measure(with_zero, counts)]

    def refine(self) -> bool:
        """Say that nothing is left to refine."""
        return False
