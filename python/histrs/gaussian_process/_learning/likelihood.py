"""The log marginal likelihood of hyper-parameters, and its gradient."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

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
from histrs.gaussian_process._learning.hyperparameters import Hyperparameters, Scales
from histrs.gaussian_process._learning.spectrum import (
    Evaluation,
    ExactSpectrum,
    LanczosSpectrum,
    Spectrum,
    Terms,
)
from histrs.gaussian_process._options import LogDetName, Solver
from histrs.gaussian_process._rows import repeats
from histrs.gaussian_process._systems.system import System

# Eigenvalues of more rows take longer than factors.
_MAX_EIGEN_ROWS = 1024
# Hyper-parameters of which every pair has its own.
_OF_PAIRS = ("noise", "amplitude")
# Steps towards the largest eigenvalues, of which the bound takes one per output at least.
_BOUND_STEPS = 30


class BaseLikelihood:
    """The log marginal likelihood of targets as a function of the hyper-parameters.

    Parameters
    ----------
    Y : ndarray of shape (n_samples, n_outputs)
        Targets.
    row_scale : ndarray of shape (n_samples,), default=None
        Roots of the weights of rows, as the systems have them; None for 1.
    stays : ndarray of shape (n_samples,), default=None
        What part of each row one of its copies leaves, where copies tell noise; None for 0.
    """

    why_no_gradient: ClassVar[str] = "log_det='bound' has no gradient; choose log_det='lanczos'."

    def __init__(
        self, Y: Array, row_scale: Array | None = None, stays: Array | None = None
    ) -> None:
        self._Y = scaled(row_scale, Y)
        self._row_scale, self._stays = row_scale, stays
        self.n_repeats = repeats(stays)
        self._log_jacobian = 0.0 if row_scale is None else float(np.sum(np.log(row_scale)))

    @property
    def targets(self) -> Array:
        """The targets."""
        return self._Y

    @property
    def row_scale(self) -> Array | None:
        """Roots of the weights of rows; None for 1."""
        return self._row_scale

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the targets."""
        return self._Y.shape

    @property
    def targets_are_constant(self) -> bool:
        """Whether there is nothing to explain."""
        return not np.any(self._Y)

    @property
    def has_gradient(self) -> bool:
        """Whether there is a gradient."""
        return True

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
        outputs = values.outputs(self._Y.shape[1])
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
        value = sum(part.value for part in parts) + self._Y.shape[1] * self._log_jacobian
        return Evaluation(value, std, gradient, solved)

    def _evaluate_pair(
        self, values: Hyperparameters, outputs: slice, names: Collection[str]
    ) -> Evaluation:
        """Return the likelihood of the outputs that share a noise and an amplitude."""
        raise NotImplementedError


class Likelihood(BaseLikelihood):
    """The likelihood of targets under a kernel on its rows.

    Parameters
    ----------
    bound : Bound
        A kernel on the training rows.
    Y : ndarray of shape (n_samples, n_outputs)
        Targets.
    solver : Solver
        How systems are solved.
    tol : float
        Tolerance of the solver, for targets of scale 1.
    log_det : {"lanczos", "bound"}
        How the log-determinant is found.
    seed : callable
        Returns that of the random vectors, which are the same for all hyper-parameters.
    row_scale : ndarray of shape (n_samples,), default=None
        Roots of the weights of rows, as the systems have them; None for 1.
    stays : ndarray of shape (n_samples,), default=None
        What part of each row one of its copies leaves, where copies tell noise; None for 0.
    """

    def __init__(
        self,
        bound: Bound,
        Y: Array,
        *,
        solver: Solver,
        tol: float,
        log_det: LogDetName,
        seed: Callable[[], int],
        row_scale: Array | None = None,
        stays: Array | None = None,
    ) -> None:
        super().__init__(Y, row_scale, stays)
        self._known, self._solver = bound, solver
        self._scale = np.max(np.abs(self._Y), axis=0, initial=0.0)
        self._scale[self._scale == 0.0] = 1.0
        self._tol = tol
        self._log_det_name = log_det
        self._seed = seed
        # Of the last evaluation: where the next one starts from.
        self._solutions: dict[int, Array] = {}

    @property
    def has_gradient(self) -> bool:
        """Whether there is a gradient."""
        return self._log_det_name != "bound"

    @property
    def is_exact(self) -> bool:
        """Whether all is computed from the factor: few rows, or factorised anyway."""
        if self._solver.name != "auto":
            return self._solver.name == "cholesky"
        return self._known.is_small

    def bound(self, kernel: Any) -> Bound:
        """Return a kernel on the rows, with what is known of them from the last one."""
        if kernel is not self._known.kernel:
            self._known = self._known.with_kernel(kernel)
        return self._known

    def system(self, kernel: Any, scales: Scales) -> System:
        """Return the linear system of some hyper-parameters."""
        solver = replace(self._solver, name="cholesky") if self.is_exact else self._solver
        return System(
            bound=self.bound(kernel),
            noise=scales.noise,
            amplitude=scales.amplitude,
            solver=solver,
            row_scale=self.row_scale,
        )

    def diagonal_mean(self, values: Hyperparameters) -> float:
        """Return the mean of the kernel matrix's diagonal, without amplitude."""
        return self.system(values.kernel, values.scales()[0]).mean_variance

    def spectrum(self, kernel: Any) -> Spectrum:
        """Return the likelihood of this kernel under every noise and amplitude."""
        system = self.system(kernel, Scales(1.0, 1.0))
        if self.is_exact and len(self._Y) <= _MAX_EIGEN_ROWS:
            return ExactSpectrum(system, self._Y, self._log_jacobian, self.n_repeats)
        rng = np.random.default_rng(self._seed())
        return LanczosSpectrum(system, self._Y, rng, self._log_jacobian, self.n_repeats)

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
            gradient |= system.bound.slopes(of_kernel, *self._directions(values, B, V))
        std = 0.5 * B.shape[1] * log_det.std
        return Evaluation(terms.log_likelihood(scales), std, gradient, solved)

    def _solve(self, system: System, outputs: slice) -> tuple[Array, float, bool]:
        """Return `B = A^-1 Y`, `tr(Y^T A^-1 Y)`, and whether they could be found."""
        Y, scale = np.ascontiguousarray(self._Y[:, outputs]), self._scale[outputs]
        tol = np.full(Y.shape[1], self._tol)
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

    def _rng(self) -> np.random.Generator:
        return np.random.default_rng(self._seed())

    def _log_det(self, system: System, n_outputs: int, *, derivative: bool) -> LogDet:
        n = len(self._Y)
        if self._log_det_name == "bound":
            return LogDet(self._log_det_bound(system, n_outputs), 0.0, np.empty((n, 0)))
        if self.is_exact:
            return exact_log_det(system.factor, derivative=derivative)
        Z = rademacher(n, count_probes(n), self._rng())
        return lanczos_log_det(system.multiply, Z, derivative=derivative)

    def _log_det_bound(self, system: System, n_outputs: int) -> float:
        """Return the bound of eq. 23; Ritz values are below eigenvalues, as `mu_2` needs."""
        n = len(self._Y)
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

    def _directions(self, values: Hyperparameters, B: Array, V: Array) -> tuple[Array, Array]:
        """Return vectors, and how much the quadratic form of each counts in a derivative.

        Along `dK` the likelihood changes by half of `tr(B^T dK B) / amplitude - n_outputs
        tr(A^-1 dK)`, a sum of quadratic forms, which one pass takes apart by columns.
        """
        n_outputs = B.shape[1]
        panel = scaled(self._row_scale, np.hstack([B / np.sqrt(values.amplitude[0]), V]))
        signs = np.append(np.full(n_outputs, 0.5), np.full(V.shape[1], -0.5 * n_outputs))
        return panel, signs
