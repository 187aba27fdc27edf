r"""The mode of a latent function that targets follow, and the Gaussian that is like it there.

The log density of a row is :math:`w l(f) / \phi`, of its weight `w` and the dispersion
:math:`\phi`; the prior is :math:`f \sim N(b, a K)`, where `b` is normal too. Newton's method finds
the mode of the posterior (Rasmussen and Williams, 2006, section 3.4). Each step is a regression: of
targets :math:`z = f + l'(f) / i(f)`, with the information :math:`i`, whose noise is :math:`\phi`
over the curvature :math:`W = w i(f)`. So products, factors, tables and variances are those of rows
with weights.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from histrs._calibration import fit_calibration, logits_of_classes
from histrs._solvers.row_scale import scale_both_sides
from histrs._threads import blas_threads_at_most
from histrs._typing import Array
from histrs._weights import index_of_best
from histrs.gaussian_process._learning.hyperparameters import Hyperparameters
from histrs.gaussian_process._learning.likelihood import BaseLikelihood
from histrs.gaussian_process._learning.spectrum import Evaluation
from histrs.gaussian_process._likelihoods.families import Bernoulli, Family
from histrs.gaussian_process._systems.system import System

# Prior variance of the bias.
BIAS_VARIANCE = 4.0
MAX_STEPS = 60
# Rows of a small matrix.
SMALL = 1024
_LEAST_STEP = 1e-6
_ROUNDING = 1e-13
# Of a row that is certain: less would be lost beside others.
LEAST_CURVATURE = 1e-14
# Variances of the logit that are tried, in units of the kernel's mean variance over the rows.
_LEAST_UNIT = 1e-8
_AMPLITUDES = np.logspace(-0.5, 2.5, 7)


@dataclass(frozen=True)
class BiasSolution:
    """What a constant beside the kernel adds to it, by the formula of Sherman and Morrison."""

    weights: Array
    """`(K + W^-1 / a)^-1 1`."""
    determinant: float
    """Prior variance of the bias over its posterior one."""

    def root_covariance(self, seen: Array, prior: float) -> Array:
        """Return `r`, where `r r^T` is what it adds to the covariance of functions of rows.

        `seen` are scores of the rows by its weights; `prior` is what it adds to the functions: 1,
        or 0 to the term of a feature.
        """
        return np.asarray((BIAS_VARIANCE / self.determinant) ** 0.5 * (prior - seen))


@dataclass(frozen=True)
class Mode:
    """The mode of one output, and the regression that has it for its mean."""

    system: System
    """With the roots of `W` for the scale of its rows, and a noise variance of 1."""
    targets: Array
    """`z`."""
    weights: Array
    """`(K + W^-1 / a)^-1 (z - b)`."""
    bias: float
    """`b`."""
    residual: float
    """Largest entry of `w l'(f) / phi - weights / a`, which is 0 at the mode, in its unit."""
    n_steps: int
    log_posterior: float
    """`log p(y | f) + log p(f)` but for determinants."""
    of_bias: BiasSolution

    def left_out(self, stays: Array | None) -> Array:
        """Return the mean of each row by a fit without it, less the bias of all."""
        targets = self.targets - self.bias
        return left_out(self.system, targets, self.weights, self.of_bias, stays)

    @property
    def log_evidence(self) -> float:
        """Logarithm of the marginal likelihood by Laplace's approximation."""
        n = len(self.weights)
        half_log_det: float = 0.5 * self.system.factor.log_det()
        of_bias = 0.5 * float(np.log(self.of_bias.determinant))
        return self.log_posterior - half_log_det - of_bias + 0.5 * n * float(np.log(self.system.s))


def left_out(
    system: System, targets: Array, weights: Array, of_bias: BiasSolution, stays: Array | None
) -> Array:
    """Return means of targets, which are less the bias, of each row by a regression without it.

    `stays` is what part of each row it keeps; None for 0.
    """
    of_constant = BIAS_VARIANCE / system.amplitude / of_bias.determinant * of_bias.weights**2
    diagonal = system.inverse_diagonal - of_constant
    return np.asarray(targets - weights / system.left_out(diagonal, stays))


def find_mode(
    base: System,
    family: Family,
    y: NDArray[Any],
    sample_weight: Array | None,
    tol: float,
    start: Array | None = None,
    kernel_matrix: Array | None = None,
) -> Mode:
    """Return the mode by Newton's method, from `start` as weights that count the amplitude in.

    The base has no scale of rows, and the dispersion for its noise variance. With a kernel matrix,
    the systems of steps are factorised. No entry of the gradient that is left is above `tol`.
    """
    n = len(y)
    w = weights_or_ones(sample_weight, n)
    over, unit = 1.0 / base.noise, family.unit(y, w) / base.noise
    ratio = BIAS_VARIANCE / base.amplitude

    def product(v: Array) -> Array:
        if kernel_matrix is not None:
            return kernel_matrix @ v
        return base.product(np.ascontiguousarray(v[:, None]))[:, 0]

    def objective(weights: Array, f: Array, bias: float) -> float:
        prior = weights @ (f - bias) / base.amplitude + bias**2 / BIAS_VARIANCE
        with np.errstate(over="ignore"):
            return float(over * (w @ family.density(y, f)) - 0.5 * prior)

    weights, f, bias = np.zeros(n), np.zeros(n), 0.0
    value, at = objective(weights, f, bias), family.start(y, w)
    if start is not None:
        bias_then = ratio * float(start.sum())
        then = start, product(start) + bias_then, bias_then
        # Weights of another kernel may lead far away.
        if (reached := objective(*then)) > value:
            (weights, f, bias), value, at = then, reached, then[1]
    steps, stuck, last = 0, False, np.inf
    while True:
        gradient = w * family.slope(y, at)
        curvature = np.maximum(w * family.curvature(at), LEAST_CURVATURE)
        left = over * gradient - weights / base.amplitude
        residual = float(np.max(np.abs(left), initial=0.0)) / unit
        # At 0, no probability is off by more than a half, which a tolerance must not hide.
        done = residual <= tol and steps > 0
        done |= (stuck and residual > 0.5 * last) or steps == MAX_STEPS
        last = residual
        targets = at + gradient / curvature
        system = at_curvature(base, curvature, kernel_matrix)
        new_weights, new_bias, of_bias = regress(system, targets, tol)
        if done:
            return Mode(system, targets, new_weights, new_bias, residual, steps, value, of_bias)
        new_f = product(new_weights) + new_bias
        direction = new_weights - weights, new_f - f, new_bias - bias
        point, value, stuck = step_along(objective, (weights, f, bias), direction, value)
        weights, f, bias = point
        # The first step begins elsewhere than where it leads from.
        at, stuck = f, stuck and steps > 0
        steps += 1


def modes_of(
    base: System,
    family: Family,
    Y: NDArray[Any],
    sample_weight: Array | None,
    tol: float,
    start: Array | None,
) -> list[Mode]:
    """Return the mode of each output, from `start` as weights that count the amplitude in."""
    stored = base.uses_cholesky(Y.shape[1]) and not base.bound.has_weights
    K = base.kernel_matrix() if stored else None
    starts = [None] * Y.shape[1] if start is None else list(start.T)
    # On matrices of this size, BLAS's threads mostly wait for one another.
    with blas_threads_at_most(1) if len(Y) <= SMALL else nullcontext():
        return [
            find_mode(base, family, y, sample_weight, tol, of_y, K)
            for y, of_y in zip(Y.T, starts, strict=True)
        ]


def step_along(
    objective: Callable[..., float],
    point: tuple[Any, ...],
    direction: tuple[Any, ...],
    value: float,
) -> tuple[tuple[Any, ...], float, bool]:
    """Return where a step leads that is halved while it loses, and whether it gains nothing.

    Near the mode, rounding hides what is gained; there the gradient tells.
    """
    step, rounding = 1.0, _ROUNDING * (1.0 + abs(value))
    while step >= _LEAST_STEP:
        tried = tuple(at + step * of_step for at, of_step in zip(point, direction, strict=True))
        reached = objective(*tried)
        if reached > value - rounding:
            return tried, reached, reached < value + rounding
        step *= 0.5
    return point, value, True


def weights_or_ones(sample_weight: Array | None, n: int) -> Array:
    """Return weights of rows; None is 1."""
    return np.ones(n) if sample_weight is None else sample_weight


def at_curvature(base: System, curvature: Array, kernel_matrix: Array | None = None) -> System:
    """Return the system of the regression that is like the likelihood where it has a curvature."""
    system = base.with_row_scale(np.sqrt(curvature))
    if kernel_matrix is not None:
        K = kernel_matrix.copy()
        scale_both_sides(system.row_scale, K)
        vars(system)["factor"] = system.factor_of(K)
    return system


def regress(system: System, targets: Array, tol: float) -> tuple[Array, float, BiasSolution]:
    """Return weights, and the bias that they are the residual of."""
    ratio = BIAS_VARIANCE / system.amplitude
    Y = np.column_stack([targets, np.ones(len(targets))])
    solved = system.solve_targets(Y, np.full(2, 0.1 * tol)).X
    determinant = 1.0 + ratio * float(solved[:, 1].sum())
    bias = ratio * float(solved[:, 0].sum()) / determinant
    weights: Array = solved[:, 0] - bias * solved[:, 1]
    return weights, bias, BiasSolution(solved[:, 1], determinant)


def evidence_of_modes(
    base: System, family: Family, Y: NDArray[Any], sample_weight: Array | None, tol: float
) -> tuple[float, float]:
    """Return the sum of outputs' log marginal likelihoods, and the largest residual of a mode."""
    given = sample_weight, tol, None, base.kernel_matrix()
    modes = [find_mode(base, family, y, *given) for y in Y.T]
    return sum(mode.log_evidence for mode in modes), max(mode.residual for mode in modes)


class LaplaceLikelihood(BaseLikelihood):
    """The log marginal likelihood of targets by Laplace's approximation.

    `evidence` returns it, and the residual of a mode, of hyper-parameters.
    """

    why_no_gradient = "This likelihood has no gradient: leave eval_gradient out."
    has_gradient = False

    def __init__(
        self, evidence: Callable[[Hyperparameters], tuple[float, float]], Y: Array, tol: float
    ) -> None:
        super().__init__(Y)
        self._evidence, self._tol = evidence, tol

    def evaluate(self, values: Hyperparameters, names: Collection[str] = ()) -> Evaluation:
        """Return the likelihood, but for what only targets tell."""
        value, residual = self._evidence(values)
        return Evaluation(value, 0.0, {}, residual <= self._tol)


def best_amplitude(
    loss: Callable[[float, Any], tuple[float, Any]],
    kernel_matrix: Array,
    bounds: tuple[float, float],
) -> float:
    """Return the variance of the logit of least loss, within bounds.

    `loss` returns the loss of a variance, and where the next one may start; it is given where the
    one before said, at first None. Variances are tried in the unit of the kernel matrix.
    """
    mean = float(np.mean(np.diag(kernel_matrix)))
    unit = mean - float(np.mean(kernel_matrix))
    if not unit > _LEAST_UNIT * mean:
        # Of rows that hardly differ, what is left of the kernel is rounding.
        unit = mean if mean > 0.0 else 1.0
    with np.errstate(over="ignore"):
        tried = np.unique(np.clip(_AMPLITUDES / unit, *bounds))
    start, losses = None, []
    for amplitude in tried.tolist():
        value, start = loss(amplitude, start)
        losses.append(value)
    return float(tried[int(np.argmin(losses))])


def loss_by_left_out(
    make_base: Callable[[float], System],
    kernel_matrix: Array,
    Y: Array,
    sample_weight: Array | None,
    tol: float,
    stays: Array | None = None,
) -> Callable[[float, Any], tuple[float, Any]]:
    """Return the log loss of rows by fits without each, calibrated, as `best_amplitude` takes it.

    `make_base` returns the system of a variance; `Y` is +1 where a row is of the class of an
    output, else -1.
    """
    labels = index_of_best(Y)

    def loss(amplitude: float, starts: list[Any] | None) -> tuple[float, list[Array]]:
        base = make_base(amplitude)
        modes = [
            find_mode(base, Bernoulli(), y > 0, sample_weight, tol, start, kernel_matrix)
            for y, start in zip(Y.T, starts or [None] * Y.shape[1], strict=True)
        ]
        scores = np.column_stack([mode.left_out(stays) for mode in modes])
        return _calibrated_loss(scores, labels, sample_weight), [mode.weights for mode in modes]

    return loss


def _calibrated_loss(scores: Array, labels: NDArray[np.intp], weights: Array | None) -> float:
    readout = fit_calibration(scores, labels, weights=weights)
    logits = logits_of_classes(scores @ readout.matrix + readout.offset)
    of_labels = logits[np.arange(len(labels)), labels]
    losses = np.logaddexp.reduce(logits, axis=1) - of_labels
    return float(np.average(losses, weights=weights))
