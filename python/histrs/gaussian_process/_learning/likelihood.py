"""The log marginal likelihood of hyper-parameters, and its gradient."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from scipy import linalg

from histrs._solvers.cholesky import CholeskyFactor
from histrs._solvers.lanczos import Lanczos
from histrs._solvers.log_det import (
    LogDet,
    count_probes,
    exact_log_det,
    lanczos_log_det,
    largest_eigenvalue_bound,
    log_det_bound,
    rademacher,
)
from histrs._solvers.row_scale import scaled
from histrs._typing import Array
from histrs.gaussian_process._bound.base import Bound
from histrs.gaussian_process._bound.levels import LevelBound
from histrs.gaussian_process._kernels.levels import LevelKernel
from histrs.gaussian_process._learning.hyperparameters import Hyperparameters, Scales
from histrs.gaussian_process._learning.spectrum import (
    Evaluation,
    ExactSpectrum,
    LanczosSpectrum,
    Measure,
    Spectrum,
    Terms,
)
from histrs.gaussian_process._rows import repeats
from histrs.gaussian_process._systems.system import System

# Eigenvalues of more rows take longer than factors.
_MAX_EIGEN_ROWS = 1024
# Hyper-parameters of which every pair has its own.
_OF_PAIRS = ("noise", "amplitude")
# Steps towards the largest eigenvalues, of which the bound takes one per output at least.
_BOUND_STEPS = 30
# Eigenvalues of more weights take longer than factors.
_MAX_EIGEN_WEIGHTS = 512
# Part of the largest eigenvalue below which one is rounding.
_ROUNDING = 1e-13


class BaseLikelihood:
    """The log marginal likelihood of targets as a function of the hyper-parameters.

    `row_scale` holds the square roots of the weights of rows, or is None for 1. `stays` is the
    fraction of each row that one of its copies leaves, where copies tell the noise, or None for 0.
    """

    why_no_gradient: ClassVar[str] = "log_det='bound' has no gradient; choose log_det='lanczos'."
    has_gradient: bool = True

    def __init__(
        self, Y: Array, row_scale: Array | None = None, stays: Array | None = None
    ) -> None:
        self.targets = scaled(row_scale, Y)
        self.row_scale = row_scale
        self.n_repeats = repeats(stays)
        self._log_jacobian = 0.0 if row_scale is None else float(np.sum(np.log(row_scale)))

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the targets."""
        return self.targets.shape

    @property
    def targets_are_constant(self) -> bool:
        """Whether there is nothing to explain."""
        return not np.any(self.targets)

    @property
    def has_spectrum(self) -> bool:
        """Whether noise and amplitude are searched by themselves first, which is quick then."""
        return self.has_gradient

    def diagonal_mean(self, values: Hyperparameters) -> float:
        """Return the mean of the kernel matrix's diagonal, without amplitude."""
        raise NotImplementedError

    def spectrum(self, kernel: Any) -> Spectrum:
        """Return the likelihood of this kernel under every noise and amplitude."""
        raise NotImplementedError

    def evaluate(self, values: Hyperparameters, names: Collection[str] = ()) -> Evaluation:
        """Return the likelihood, and its derivatives by the logarithms of what is named."""
        outputs = values.outputs(self.targets.shape[1])
        parts = [
            self._evaluate_pair(values.pair(k), outputs[k], names) for k in range(len(outputs))
        ]
        gradient: dict[str, Any] = {}
        for name in names:
            slopes = [part.gradient[name] for part in parts]
            gradient[name] = np.array(slopes) if name in _OF_PAIRS else sum(slopes)
        # One draw of random vectors serves all pairs, so that their errors add up.
        std = sum(part.std for part in parts)
        solved = all(part.solved for part in parts)
        value = sum(part.value for part in parts) + self.targets.shape[1] * self._log_jacobian
        return Evaluation(value, std, gradient, solved)

    def _evaluate_pair(
        self, values: Hyperparameters, outputs: slice, names: Collection[str]
    ) -> Evaluation:
        """Return the likelihood of the outputs that share a noise and an amplitude."""
        raise NotImplementedError


class Likelihood(BaseLikelihood):
    """The likelihood of a problem's targets under a kernel on its rows."""

    def __init__(self, bound: Bound, problem: Any) -> None:
        super().__init__(problem.Y, problem.row_scale, problem.stays)
        name = problem.solver.name
        self.is_exact = bound.is_small if name == "auto" else name == "cholesky"
        """Whether all is computed from the factor: few rows, or factorised anyway."""
        if self.is_exact:
            problem = replace(problem, solver=replace(problem.solver, name="cholesky"))
        self._known, self._problem = bound, problem
        self._scale = np.max(np.abs(self.targets), axis=0, initial=0.0)
        self._scale[self._scale == 0.0] = 1.0
        self.has_gradient = problem.log_det != "bound"
        # Of the last evaluation: where the next one starts from.
        self._solutions: dict[int, Array] = {}

    def bound(self, kernel: Any) -> Bound:
        """Return a kernel on the rows, with what is known of them from the last one."""
        if kernel is not self._known.kernel:
            self._known = self._known.with_kernel(kernel)
        return self._known

    def system(self, kernel: Any, scales: Scales) -> System:
        """Return the linear system of some hyper-parameters."""
        system: System = self._problem.system(self.bound(kernel), scales)
        return system

    def diagonal_mean(self, values: Hyperparameters) -> float:
        return self.system(values.kernel, values.scales()[0]).mean_variance

    def spectrum(self, kernel: Any) -> Spectrum:
        system = self.system(kernel, Scales(1.0, 1.0))
        if self.is_exact and len(self.targets) <= _MAX_EIGEN_ROWS:
            return ExactSpectrum(system, self.targets, self._log_jacobian, self.n_repeats)
        rng = np.random.default_rng(self._problem.seed())
        return LanczosSpectrum(system, self.targets, rng, self._log_jacobian, self.n_repeats)

    def _evaluate_pair(
        self, values: Hyperparameters, outputs: slice, names: Collection[str]
    ) -> Evaluation:
        (scales,) = values.scales()
        system = self.system(values.kernel, scales)
        system.check()
        B, data, solved = self._solve(system, outputs)
        log_det = self._log_det(system, B.shape[1], derivative=bool(names))
        V = log_det.V
        terms = Terms(
            B.shape,
            data=data,
            log_det=log_det.value,
            data_slope=float(np.sum(B * B)),
            trace_inverse=float(np.sum(V * V)),
            n_repeats=self.n_repeats,
        )
        gradient = terms.gradient(scales) if names else {}
        of_kernel = set(names) - set(gradient)
        if of_kernel:
            # Along `dK`, it changes by half of `tr(B^T dK B) / amplitude - n_outputs tr(A^-1 dK)`:
            # a sum of quadratic forms, which one pass takes apart by columns.
            n = B.shape[1]
            panel = scaled(self.row_scale, np.hstack([B / np.sqrt(scales.amplitude), V]))
            signs = np.append(np.full(n, 0.5), np.full(V.shape[1], -0.5 * n))
            gradient |= system.bound.slopes(of_kernel, panel, signs)
        std = 0.5 * B.shape[1] * log_det.std
        return Evaluation(terms.log_likelihood(scales), std, gradient, solved)

    def _solve(self, system: System, outputs: slice) -> tuple[Array, float, bool]:
        """Return `B = A^-1 Y`, `tr(Y^T A^-1 Y)`, and whether they could be found."""
        Y, scale = np.ascontiguousarray(self.targets[:, outputs]), self._scale[outputs]
        tol = np.full(Y.shape[1], self._problem.tol)
        start = self._solutions.get(outputs.start)
        solution = system.solve(Y / scale, tol, None if start is None else start / scale)
        B = self._solutions[outputs.start] = solution.X * scale
        data = float(np.sum(Y * B))
        if system.bound.refines:
            # The error of this is of second order in that of B.
            data += float(np.sum((Y - system.multiply(B)) * B))
        # Nothing comes closer than a factor.
        within = bool(np.all(solution.residual <= system.tolerance(tol)))
        solved = system.uses_cholesky(B.shape[1]) or within
        return B, data, solved

    def _log_det(self, system: System, n_outputs: int, *, derivative: bool) -> LogDet:
        n = len(self.targets)
        if not self.has_gradient:
            return LogDet(self._log_det_bound(system, n_outputs), 0.0, np.empty((n, 0)))
        if self.is_exact:
            return exact_log_det(system.factor, derivative=derivative)
        Z = rademacher(n, count_probes(n), np.random.default_rng(self._problem.seed()))
        return lanczos_log_det(system.multiply, Z, derivative=derivative)

    def _log_det_bound(self, system: System, n_outputs: int) -> float:
        """Return the bound of eq. 23; Ritz values are below eigenvalues, as `mu_2` needs."""
        n = len(self.targets)
        start = np.ones((n, 1))
        lanczos = Lanczos(system.multiply, start, keep_basis=True, max_steps=_BOUND_STEPS)
        lanczos.run(_BOUND_STEPS)
        values, vectors = next(iter(lanczos.tridiagonals())).eigen()
        trace = float(system.diagonal.sum() + n * system.s)
        top = lanczos.basis(0).T @ vectors[:, -1]
        largest = largest_eigenvalue_bound(system.multiply, top, trace)
        # In a unit in which squares stay within the range; a power of 2 rounds nothing.
        unit = float(np.ldexp(1.0, int(np.frexp(trace)[1])))
        squares = float(np.sum((values[-max(n_outputs, 1) :] / unit) ** 2))
        bound = log_det_bound(n, largest / unit, trace / unit, squares)
        return bound + n * float(np.log(unit))


class LevelLikelihood(Likelihood):
    r"""The likelihood of targets under a kernel on levels, from sums over weights.

    With :math:`M = s I + V^{1/2} \Phi^T \Phi V^{1/2}`, :math:`c = V^{1/2} \Phi^T y` and
    :math:`z = M^{-1} c`, its slope by the logarithm of a prior variance :math:`v_j` is
    :math:`(z_j^2 / a - \gamma_j) / 2` for a target, :math:`\gamma_j = 1 - s [M^{-1}]_{jj}`.
    """

    def __init__(self, bound: LevelBound, problem: Any) -> None:
        super().__init__(bound, problem)
        self.has_gradient = True
        self._normal = bound.normal_matrix(self.row_scale)
        self._of_targets = bound.weights(scaled(self.row_scale, self.targets))
        self._squares = np.einsum("ij,ij->j", self.targets, self.targets)

    @property
    def has_spectrum(self) -> bool:
        """Whether eigenvalues are worth computing."""
        return len(self._normal) <= _MAX_EIGEN_WEIGHTS

    def _scaled(self, kernel: LevelKernel) -> tuple[Array, Array]:
        root = np.sqrt(kernel.prior)
        M = self._normal * root
        M *= root[:, None]
        return M, root[:, None] * self._of_targets

    def spectrum(self, kernel: Any) -> Spectrum:
        n = len(self.targets)
        M, c = self._scaled(kernel)
        nodes, Q = linalg.eigh(M, overwrite_a=True, check_finite=False)
        real = nodes > _ROUNDING * max(float(np.max(nodes, initial=0.0)), 0.0)
        nodes, Q = nodes[real], Q[:, real]
        inside = (Q.T @ c) ** 2 / nodes[:, None]
        rest = np.maximum(self._squares - inside.sum(axis=0), 0.0)
        # Outside the span of the functions, eigenvalues are 0.
        with_zero = np.append(nodes, 0.0)
        data = [Measure(with_zero, np.append(*pair)) for pair in zip(inside.T, rest, strict=True)]
        counts = np.append(np.ones(len(nodes)), float(n - len(nodes)))
        traces = [Measure(with_zero, counts)]
        return Spectrum(data, traces, n, self._log_jacobian, self.n_repeats)

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
        n_rows, n_outputs = len(self.targets), c.shape[1]
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
