"""The likelihood of one kernel matrix under every noise and amplitude.

With `s = noise / amplitude`, the spaces that Lanczos builds from the targets and from random
vectors are the same for `K` and `K + s I`. So one run serves every noise and amplitude, and their
likelihood costs no further product.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg

from histrs._solvers.lanczos import Lanczos
from histrs._solvers.log_det import rademacher
from histrs._typing import Array
from histrs.gaussian_process._learning.hyperparameters import Scales

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
    n_repeats: float = 0.0
    """Rows that equal others in all but their noise."""

    def log_likelihood(self, values: Scales) -> float:
        """Return the log marginal likelihood (eq. 4), summed over the outputs."""
        n, n_outputs = self.shape
        a = values.amplitude
        determinant = self.log_det + n * float(np.log(2.0 * np.pi * a))
        determinant += self.n_repeats * float(np.log(2.0 * np.pi * values.noise))
        return -0.5 * (self.data / a + n_outputs * determinant)

    def gradient(self, values: Scales) -> dict[str, Any]:
        """Return its derivatives by the logarithms of noise and amplitude."""
        n, n_outputs = self.shape
        a = values.amplitude
        noise = 0.5 * (values.noise / a) * (self.data_slope / a - n_outputs * self.trace_inverse)
        amplitude = 0.5 * (self.data / a - n_outputs * n) - noise
        return {"noise": noise - 0.5 * n_outputs * self.n_repeats, "amplitude": amplitude}


@dataclass(frozen=True)
class Measure:
    """`sum(weights * f(nodes))` stands for a quadratic form, or a trace, of `f(K)`."""

    nodes: Array
    weights: Array

    def inverse(self, s: float, power: int = 1) -> float:
        """Return the form of `(K + s I)^-power`."""
        nodes, terms = self.nodes + s, self.weights
        # A ratio so small that the form overflows is no candidate.
        with np.errstate(over="ignore"):
            for _ in range(power):
                # One by one: no power of a large node.
                terms = terms / nodes
            return float(np.sum(terms))

    def log(self, s: float) -> float:
        """Return the form of `log(K + s I)`."""
        return float(np.sum(self.weights * np.log(self.nodes + s)))

    @classmethod
    def mean(cls, measures: list[Measure]) -> Measure:
        """Return the mean of some measures."""
        nodes = np.concatenate([m.nodes for m in measures])
        return cls(nodes, np.concatenate([m.weights for m in measures]) / len(measures))


def profiled_costs(nodes: Array, squares: Array, ratios: Array, n_repeats: float = 0.0) -> Array:
    """Return -2 times the log likelihood at ratios of noise to signal variance, less a constant.

    It is that of one target, of shape (n_ratios, n_groups): of a ratio `s` the best signal variance
    is the mean of `squares / (nodes + s)`. `nodes` are eigenvalues of the kernel matrix, and
    `squares`, of shape (n_samples, n_groups), those of targets in its eigenvectors, or sums over
    targets that share a noise.
    """
    unit = float(nodes.mean()) or 1.0
    # What nodes are counted in cancels.
    A = (ratios[:, None] + nodes) / unit
    determinant = np.sum(np.log(A), axis=1)[:, None]
    determinant += n_repeats * np.log(ratios / unit)[:, None]
    return np.asarray((len(nodes) + n_repeats) * np.log((1.0 / A) @ squares) + determinant)


@dataclass
class Spectrum:
    """What is known of the kernel matrix: a measure for each target, and some for its trace."""

    data: list[Measure]
    traces: list[Measure]
    n_rows: int
    log_jacobian: float = 0.0
    """What is added to the likelihood of each target."""
    n_repeats: float = 0.0
    """Rows that equal others in all but their noise."""

    def evaluate(self, values: Scales, outputs: slice) -> Evaluation:
        """Return the log marginal likelihood of some outputs, and its slopes by `values`."""
        data = self.data[outputs]
        s = values.noise / values.amplitude
        trace = Measure.mean(self.traces)
        terms = Terms(
            (self.n_rows, len(data)),
            data=sum(measure.inverse(s) for measure in data),
            log_det=trace.log(s),
            data_slope=sum(measure.inverse(s, power=2) for measure in data),
            trace_inverse=trace.inverse(s),
            n_repeats=self.n_repeats,
        )
        logs = [measure.log(s) for measure in self.traces]
        std = np.std(logs, ddof=1) / np.sqrt(len(logs)) if len(logs) > 1 else 0.0
        value = terms.log_likelihood(values) + len(data) * self.log_jacobian
        return Evaluation(value, 0.5 * len(data) * float(std), terms.gradient(values))

    def best_amplitude(self, s: float, outputs: slice) -> float:
        """Return the amplitude of largest marginal likelihood with `noise = s amplitude`."""
        data = self.data[outputs]
        n_rows = self.n_rows + self.n_repeats
        return sum(measure.inverse(s) for measure in data) / (n_rows * len(data))

    def refine(self) -> bool:
        """Come nearer to the spectrum; say whether there was anything to come nearer to."""
        return False


class ExactSpectrum(Spectrum):
    """All eigenvalues of the matrix of a system, and the targets in its eigenvectors."""

    def __init__(
        self, system: Any, Y: Array, log_jacobian: float = 0.0, n_repeats: float = 0.0
    ) -> None:
        nodes, Q = linalg.eigh(system.kernel_matrix(), overwrite_a=True, check_finite=False)
        nodes = np.maximum(nodes, 0.0)
        data = [Measure(nodes, weights) for weights in ((Q.T @ Y) ** 2).T]
        traces = [Measure(nodes, np.ones(len(nodes)))]
        super().__init__(data, traces, len(Y), log_jacobian, n_repeats)


class LanczosSpectrum(Spectrum):
    """Gauss quadratures of a system's matrix for targets and for vectors of random signs."""

    def __init__(
        self,
        system: Any,
        Y: Array,
        rng: np.random.Generator,
        log_jacobian: float = 0.0,
        n_repeats: float = 0.0,
    ) -> None:
        n, self._n_outputs = Y.shape
        super().__init__([], [], n, log_jacobian, n_repeats)
        width = _WIDTH if n <= _MANY_ROWS else _WIDTH // 2
        n_probes = max(-self._n_outputs % width, 2)
        V = np.hstack([Y, rademacher(n, n_probes, rng)])
        self._lanczos = Lanczos(system.product, V, keep_basis=False, max_steps=_MAX_STEPS)
        self._run(_FIRST_STEPS)

    def _run(self, n_steps: int) -> None:
        self._lanczos.run(n_steps)
        known = list(self._lanczos.tridiagonals())
        # The inverse is bounded from above, as the logarithm is: noise that the steps do not
        # resolve is no likelier than it is.
        data = [t.with_node_at_zero() for t in known[: self._n_outputs]]
        pairs = [t.measure() for t in (*data, *known[self._n_outputs :])]
        measures = [Measure(np.maximum(nodes, 0.0), weights) for nodes, weights in pairs]
        self.data, self.traces = measures[: self._n_outputs], measures[self._n_outputs :]

    def refine(self) -> bool:
        """Take half as many steps again; say whether there were any to take."""
        if self._lanczos.done:
            return False
        self._run(self._lanczos.n_steps // 2)
        return True
