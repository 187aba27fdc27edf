"""How a kernel of distances is learned: by evidence, and by rows that are left out on the way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

from histrs._solvers import lapack
from histrs._threads import blas_threads_at_most
from histrs._typing import Array
from histrs.gaussian_process._kernels.distances import AMPLITUDE, DistanceMixture
from histrs.gaussian_process._rows import repeats, rows_of

# Rows of each search, which starts from where the last one ended: few first, since most of what a
# search costs buys little. And steps at most.
_SCHEDULE = (500, 1500)
_STEPS = 25
# What a search must gain for each row in so many steps to go on, in units of the log evidence.
_LEAST_GAIN = 0.002
_STEPS_OF_GAIN = 3
# Logarithms of parameters, and of noise.
_BOUNDS = (-14.0, 7.0)
_NOISE_BOUNDS = (-16.0, 2.0)
_NOISE = np.log(0.2)
# Prior standard deviations of logarithms: of weights about their mean, of amplitudes about their
# start.
_PULL_WEIGHTS = 2.0
_PULL_AMPLITUDES = 4.0
# Most that a logarithm of a weight is from its start.
_PULL_MOST = 5.0
# How a search begins: curvatures that each row adds to those of the prior.
_CURVATURES = (0.02, 0.02, 0.5)
# Part of the usual eigenvalue of an inverse Hessian that none is below.
_LEAST_EIGENVALUE = 1e-3
# What an evaluation says where the matrix is not positive definite.
_WORST = 1e10


@dataclass
class _Found:
    """What hyper-parameters are worth: slopes and left-out rows take an inverse, once asked for."""

    value: float
    """The negative log evidence, and what pulls parameters to one another."""
    _rest: Callable[[], tuple[Array, float]]
    _known: tuple[Array, float] | None = None

    @property
    def slopes(self) -> Array:
        """The gradient of that."""
        return self._of_inverse[0]

    @property
    def left_out(self) -> float:
        """The mean squared error of rows that are left out."""
        return self._of_inverse[1]

    @property
    def _of_inverse(self) -> tuple[Array, float]:
        # A `cached_property` of Python 3.11 would keep out other threads meanwhile.
        if self._known is None:
            self._known = self._rest()
        return self._known


@dataclass(frozen=True)
class _Evidence:
    """The negative log evidence of some rows, with what pulls parameters to one another."""

    kernel: DistanceMixture
    X: Array
    Y: Array
    row_noise: Array
    """Noise of each row, as multiple of the noise."""
    n_repeats: float
    """Rows that tell noise beside these, to which they are equal."""
    n_threads: int

    def __call__(self, theta: Array) -> _Found:
        """Evaluate logarithms of parameters, and of noise."""
        kernel, noise = self.kernel.with_logs(theta[:-1]), np.exp(theta[-1])
        n_targets, own = self.Y.shape[1], noise * self.row_noise
        L = self.factor(kernel, noise)
        if L is None:
            return _Found(_WORST, lambda: (np.zeros_like(theta), np.inf))
        alpha = lapack.solved(L, self.Y, lower=False)
        log_det = 2.0 * float(np.log(np.diag(L)).sum())
        value = 0.5 * float(np.sum(self.Y * alpha)) + 0.5 * n_targets * log_det
        value += 0.5 * n_targets * self.n_repeats * theta[-1]
        pull, of_pull = self._pull(theta)

        def of_inverse() -> tuple[Array, float]:
            lapack.invert_factorised(L, lower=False)
            G = L.T
            squares = np.mean((alpha / np.diag(G)[:, None]) ** 2, axis=1)
            left_out = float(np.average(squares, weights=1.0 / self.row_noise))
            G *= 0.5 * n_targets
            G -= 0.5 * (alpha @ alpha.T)
            slopes = kernel.slopes(self.X, G, self.n_threads)
            gradient = np.append(slopes, np.sum(np.diag(G) * own))
            gradient[-1] += 0.5 * n_targets * self.n_repeats
            return gradient + of_pull, left_out

        return _Found(value + pull, of_inverse)

    def factor(self, kernel: DistanceMixture, noise: float) -> Array | None:
        """Return the factor of the matrix, as LAPACK takes it; None if it is not definite."""
        K = kernel.between(self.X, None, self.n_threads)
        K[np.diag_indices_from(K)] += noise * self.row_noise
        # The transpose has the order that LAPACK wants, and is the same matrix.
        return K.T if lapack.factorised(K.T, lower=False) else None

    def _pull(self, theta: Array) -> tuple[float, Array]:
        n = len(self.kernel.log_weights)
        off = theta[:n] - np.mean(theta[:n]) if n > 0 else theta[:n]
        away = theta[n:-1] - AMPLITUDE
        pulls = off / _PULL_WEIGHTS**2, away / _PULL_AMPLITUDES**2
        value, gradient = off @ pulls[0] + away @ pulls[1], np.concatenate([*pulls, [0.0]])
        return 0.5 * float(value), gradient


@dataclass(frozen=True)
class Sample:
    """Rows and targets that a kernel of distances is learned from."""

    X: Array
    Y: Array
    """Standardised targets, which share kernel and noise, of shape (n_samples, n_targets)."""
    weights: Array | None
    """Weights of rows: the noise of a row is divided by its; None for 1."""
    stays: Array | None
    """What part of each row one of its copies leaves; None for 0."""
    order: NDArray[np.intp]
    """The order in which rows are taken, where some are enough."""
    n_threads: int

    @property
    def n_searched(self) -> int:
        """How many rows the last search takes."""
        return min(len(self.X), _SCHEDULE[-1])

    def evidence(self, kernel: DistanceMixture, n_rows: int) -> _Evidence:
        """Return the evidence of so many rows."""
        some = np.sort(self.order[:n_rows])
        weights = rows_of(self.weights, some)
        return _Evidence(
            kernel,
            self.X[some],
            np.asfortranarray(self.Y[some]),
            np.ones(len(some)) if weights is None else 1.0 / weights,
            repeats(rows_of(self.stays, some)),
            self.n_threads,
        )


class LearnedKernel(NamedTuple):
    """A kernel of distances that was learned."""

    kernel: DistanceMixture
    noise: float
    left_out: float = np.inf
    """The mean squared error of the rows of the last search, each left out."""

    @property
    def theta(self) -> Array:
        """Logarithms of parameters, and of noise."""
        return np.append(self.kernel.logs, np.log(self.noise))


def learn(
    kernel: DistanceMixture,
    sample: Sample,
    before: LearnedKernel | None = None,
    worst: float = np.inf,
) -> LearnedKernel:
    """Return the kernel and the noise that predict left-out rows best, on the way of the evidence.

    The search starts at `kernel`, which weights are kept near, or at `before`, which was learned
    already, if that is better. It ends where it starts if the error of left-out rows is not below
    `worst` there.
    """
    theta = start = np.append(kernel.logs, _NOISE)
    n_weights, n_amplitudes = len(kernel.log_weights), len(kernel.log_amplitudes)
    lowest = [*(kernel.log_weights - _PULL_MOST), *[_BOUNDS[0]] * n_amplitudes, _NOISE_BOUNDS[0]]
    highest = [*(kernel.log_weights + _PULL_MOST), *[_BOUNDS[1]] * n_amplitudes, _NOISE_BOUNDS[1]]
    bounds = np.array(lowest), np.array(highest)
    few, many = min(len(sample.X), _SCHEDULE[0]), sample.n_searched
    stages = [many] if before is not None or few == many else [few, many]
    if before is not None:
        theta = np.clip(before.theta, *bounds)
    precisions = np.array([_PULL_WEIGHTS**-2, _PULL_AMPLITUDES**-2, 0.0])
    curvatures = precisions + stages[0] * sample.Y.shape[1] * np.array(_CURVATURES)
    inverse = np.diag(1.0 / np.repeat(curvatures, [n_weights, n_amplitudes, 1]))
    # On matrices of this size, BLAS's threads mostly wait for one another.
    with blas_threads_at_most(sample.n_threads):
        for n_rows in stages:
            evidence = sample.evidence(kernel, n_rows)
            # What few rows say may be worse than nothing.
            is_kernel = before is not None and before.kernel is kernel
            begins = [theta] if theta is start or is_kernel else [theta, start]
            found = [(evidence(theta), theta) for theta in begins]
            first, theta = min(found, key=lambda one: one[0].value)
            best = first.left_out, theta
            if best[0] < worst:
                theta, best, inverse = _descended(evidence, theta, first, inverse, bounds)
            inverse *= n_rows / many
    left_out, logs = best
    return LearnedKernel(kernel.with_logs(logs[:-1]), float(np.exp(logs[-1])), left_out)


def _descended(
    evidence: _Evidence, start: Array, first: _Found, inverse: Array, bounds: tuple[Array, Array]
) -> tuple[Array, tuple[float, Array], Array]:
    """Search from `start`, where `first` was found (BFGS).

    Return where the search ends, where rows that are left out were predicted best on the way, with
    their error, and the inverse of the Hessian. Where targets have heavy tails, evidence may lead
    astray.
    """
    best = first.left_out, start
    passed = [first.value]

    def value(theta: Array) -> tuple[float, Array]:
        nonlocal best
        inside = np.clip(theta, *bounds)
        found = first if np.array_equal(theta, start) else evidence(inside)
        best = min(best, (found.left_out, inside), key=lambda one: one[0])
        beyond = theta - inside
        slopes = np.where(beyond == 0.0, found.slopes, 2.0 * beyond)
        return found.value + float(beyond @ beyond), slopes

    def has_gained(intermediate_result: optimize.OptimizeResult) -> None:
        passed.append(intermediate_result.fun)
        last = passed[-1 - _STEPS_OF_GAIN :]
        if len(last) > _STEPS_OF_GAIN and last[0] - last[-1] < _LEAST_GAIN * len(evidence.X):
            raise StopIteration

    options: Any = {"maxiter": _STEPS, "hess_inv0": _definite(inverse)}
    found = optimize.minimize(
        value, start, jac=True, method="BFGS", callback=has_gained, options=options
    )
    return np.clip(found.x, *bounds), best, np.asarray(found.hess_inv)


def _definite(matrix: Array) -> Array:
    """Return a symmetric matrix with no eigenvalue much below the usual ones."""
    values, vectors = np.linalg.eigh(0.5 * (matrix + matrix.T))
    root = vectors * np.sqrt(np.maximum(values, _LEAST_EIGENVALUE * np.median(values)))
    return np.asarray(root @ root.T)
