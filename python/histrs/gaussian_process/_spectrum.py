"""The likelihood of one kernel matrix under every noise and amplitude.

With `s = noise / amplitude`, the spaces that Lanczos builds from the targets and from random
vectors are the same for `K` and `K + s I`. So one run serves every noise and amplitude, and their
likelihood costs no further product.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy import linalg

from histrs._solvers.block_cg import Array
from histrs._solvers.lanczos import Lanczos
from histrs._solvers.log_det import rademacher
from histrs.gaussian_process._hyperparameters import Hyperparameters
from histrs.gaussian_process._system import KernelSystem

_FIRST_STEPS = 32
_MAX_STEPS = 512
# Columns that one pass over the data serves well, and from how many rows on half as many.
_WIDTH = 16
_MANY_ROWS = 1 << 14


@dataclass(frozen=True)
class Evaluation:
    """A log marginal likelihood at some hyper-parameters."""

    value: float
    std: float
    """Standard error of the value; 0 where it is exact."""
    gradient: dict[str, Any]
    """Derivatives by the logarithms of the hyper-parameters, by name."""
    solved: bool = True
    """Whether the solver reached its tolerance; if not, the value is too large."""


@dataclass(frozen=True)
class Terms:
    """What the likelihood is made of, with `A = K + s I` and `s = noise / amplitude`."""

    shape: tuple[int, int]
    """Of the targets `Y`."""
    data: float
    """`tr(Y^T A^-1 Y)`."""
    log_det: float
    """`log det A`."""
    data_slope: float
    """`tr(Y^T A^-2 Y)`."""
    trace_inverse: float
    """`tr(A^-1)`."""

    def log_likelihood(self, values: Hyperparameters) -> float:
        """Return the log marginal likelihood (eq. 4), summed over the outputs."""
        n, n_outputs = self.shape
        a = values.amplitude
        determinant = self.log_det + n * float(np.log(2.0 * np.pi * a))
        return -0.5 * (self.data / a + n_outputs * determinant)

    def gradient(self, values: Hyperparameters) -> dict[str, Any]:
        """Return its derivatives by the logarithms of noise and amplitude."""
        n, n_outputs = self.shape
        a = values.amplitude
        noise = 0.5 * (values.noise / a) * (self.data_slope / a - n_outputs * self.trace_inverse)
        return {"noise": noise, "amplitude": 0.5 * (self.data / a - n_outputs * n) - noise}


@dataclass(frozen=True)
class Measure:
    """`sum(weights * f(nodes))` stands for a quadratic form, or a trace, of `f(K)`."""

    nodes: Array
    weights: Array

    def inverse(self, s: float, power: int = 1) -> float:
        """Return the form of `(K + s I)^-power`."""
        return float(np.sum(self.weights / (self.nodes + s) ** power))

    def log(self, s: float) -> float:
        """Return the form of `log(K + s I)`."""
        return float(np.sum(self.weights * np.log(self.nodes + s)))

    @classmethod
    def mean(cls, measures: list["Measure"]) -> "Measure":
        """Return the mean of some measures."""
        nodes = np.concatenate([m.nodes for m in measures])
        return cls(nodes, np.concatenate([m.weights for m in measures]) / len(measures))


class _Spectrum:
    """What is known of the kernel matrix: a measure for the targets, and some for its trace."""

    shape: tuple[int, int]
    data: Measure
    traces: list[Measure]

    def evaluate(self, values: Hyperparameters) -> Evaluation:
        """Return the log marginal likelihood with its derivatives by noise and amplitude."""
        n_outputs = self.shape[1]
        s = values.noise / values.amplitude
        trace = Measure.mean(self.traces)
        terms = Terms(
            self.shape,
            data=self.data.inverse(s),
            log_det=trace.log(s),
            data_slope=self.data.inverse(s, power=2),
            trace_inverse=trace.inverse(s),
        )
        logs = [measure.log(s) for measure in self.traces]
        std = np.std(logs, ddof=1) / np.sqrt(len(logs)) if len(logs) > 1 else 0.0
        value = terms.log_likelihood(values)
        return Evaluation(value, 0.5 * n_outputs * float(std), terms.gradient(values))

    def best_amplitude(self, s: float) -> float:
        """Return the amplitude of largest likelihood among those with `noise = s amplitude`."""
        n, n_outputs = self.shape
        return self.data.inverse(s) / (n * n_outputs)


class ExactSpectrum(_Spectrum):
    """All eigenvalues of the kernel matrix, and the targets in its eigenvectors."""

    def __init__(self, system: KernelSystem, Y: Array) -> None:
        self.shape = Y.shape
        nodes, Q = linalg.eigh(system.kernel_matrix(), overwrite_a=True, check_finite=False)
        nodes = np.maximum(nodes, 0.0)
        self.data = Measure(nodes, np.sum((Q.T @ Y) ** 2, axis=1))
        self.traces = [Measure(nodes, np.ones(len(nodes)))]

    def refine(self) -> bool:
        """Say that nothing is left to refine."""
        return False


class LanczosSpectrum(_Spectrum):
    """Gauss quadratures for the targets and for vectors of random signs."""

    def __init__(self, system: KernelSystem, Y: Array, rng: np.random.Generator) -> None:
        n, n_outputs = self.shape = Y.shape
        width = _WIDTH if n <= _MANY_ROWS else _WIDTH // 2
        n_probes = max(-n_outputs % width, 2)
        V = np.hstack([Y, rademacher(n, n_probes, rng)])
        multiply = partial(system.columns.product, n_threads=system.n_threads)
        self._lanczos = Lanczos(multiply, V, keep_basis=False, max_steps=_MAX_STEPS)
        self._run(_FIRST_STEPS)

    def _run(self, n_steps: int) -> None:
        self._lanczos.run(n_steps)
        pairs = [tridiagonal.measure() for tridiagonal in self._lanczos.tridiagonals()]
        measures = [Measure(np.maximum(nodes, 0.0), weights) for nodes, weights in pairs]
        n_outputs = self.shape[1]
        data = Measure.mean(measures[:n_outputs])
        self.data = Measure(data.nodes, data.weights * n_outputs)
        self.traces = measures[n_outputs:]

    def refine(self) -> bool:
        """Take half as many steps again; say whether there were any to take."""
        if self._lanczos.done:
            return False
        self._run(self._lanczos.n_steps // 2)
        return True
