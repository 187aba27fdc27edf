"""How a kernel of distances is learned: weights, amplitudes and noise of largest evidence."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import optimize
from scipy.linalg import lapack

from histrs._threads import blas_threads_at_most
from histrs._typing import Array
from histrs.gaussian_process._kernels.distances import AMPLITUDE, DistanceMixture
from histrs.gaussian_process._rows import repeats, rows_of

# Rows and steps, each search from where the last one ended: few rows first, since most of what a
# search costs buys little. So many steps where no search on more rows follows.
_SCHEDULE = ((500, 15), (1500, 20))
_LAST_STEPS = 25
# Steps from what was learned of another target of the same rows.
_FURTHER_STEPS = 12
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
# What an evaluation says where the matrix is not positive definite.
_WORST = 1e10


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

    def __call__(self, theta: Array) -> tuple[float, Array]:
        """Return the value and the gradient, for each row and target."""
        kernel, noise = self.kernel.with_logs(theta[:-1]), np.exp(theta[-1])
        (n, n_targets), own = self.Y.shape, noise * self.row_noise
        K = kernel.between(self.X, None, self.n_threads)
        K[np.diag_indices_from(K)] += own
        # The transpose has the order that LAPACK wants, and is the same matrix.
        L, info = lapack.dpotrf(K.T, lower=0, clean=0, overwrite_a=1)
        if info != 0:
            return _WORST, np.zeros_like(theta)
        alpha = lapack.dpotrs(L, self.Y, lower=0)[0]
        log_det = 2.0 * float(np.log(np.diag(L)).sum())
        value = 0.5 * float(np.sum(self.Y * alpha)) + 0.5 * n_targets * log_det
        G = lapack.dpotri(L, lower=0, overwrite_c=1)[0].T
        G *= 0.5 * n_targets
        G -= 0.5 * (alpha @ alpha.T)
        slopes = kernel.slopes(self.X, G, self.n_threads)
        gradient = np.append(slopes, np.sum(np.diag(G) * own))
        value += 0.5 * n_targets * self.n_repeats * theta[-1]
        gradient[-1] += 0.5 * n_targets * self.n_repeats
        pull, of_pull = self._pull(theta)
        size = n * n_targets
        return (value + pull) / size, (gradient + of_pull) / size

    def _pull(self, theta: Array) -> tuple[float, Array]:
        n = len(self.kernel.log_weights)
        off = theta[:n] - np.mean(theta[:n]) if n > 0 else theta[:n]
        away = theta[n:-1] - AMPLITUDE
        pulls = off / _PULL_WEIGHTS**2, away / _PULL_AMPLITUDES**2
        value, gradient = off @ pulls[0] + away @ pulls[1], np.concatenate([*pulls, [0.0]])
        return 0.5 * float(value), gradient


def learn(
    kernel: DistanceMixture,
    X: Array,
    Y: Array,
    weights: Array | None,
    stays: Array | None,
    order: NDArray[np.intp],
    n_threads: int,
    before: tuple[DistanceMixture, float] | None = None,
) -> tuple[DistanceMixture, float]:
    """Return the kernel and the noise of largest evidence.

    Parameters
    ----------
    kernel : DistanceMixture
        Where the search starts, and what weights are kept near.
    X : ndarray of shape (n_samples, n_columns)
        Rows.
    Y : ndarray of shape (n_samples, n_targets)
        Standardised targets, which share the kernel and the noise.
    weights : ndarray of shape (n_samples,) or None
        Weights of rows: the noise of a row is divided by its.
    stays : ndarray of shape (n_samples,) or None
        What part of each row one of its copies leaves; None for 0.
    order : ndarray of shape (n_samples,)
        The order in which rows are taken, where some are enough.
    n_threads : int
        Threads.
    before : tuple, default=None
        Kernel and noise that were learned of another target, which the search starts from if they
        are better.
    """
    theta = start = np.append(kernel.logs, _NOISE)
    bounds = (
        [(w - _PULL_MOST, w + _PULL_MOST) for w in kernel.log_weights]
        + [_BOUNDS] * len(kernel.log_amplitudes)
        + [_NOISE_BOUNDS]
    )
    row_noise = np.ones(len(X)) if weights is None else 1.0 / weights
    if before is not None:
        theta = np.append(before[0].logs, np.log(before[1]))
        theta = np.clip(theta, *np.transpose(bounds))
    # On matrices of this size, BLAS's threads mostly wait for one another.
    with blas_threads_at_most(n_threads):
        for n_rows, n_steps in _stages(len(X), before is not None):
            some = np.sort(order[:n_rows])
            evidence = _Evidence(
                kernel,
                X[some],
                np.asfortranarray(Y[some]),
                row_noise[some],
                repeats(rows_of(stays, some)),
                n_threads,
            )
            # What few rows say may be worse than nothing.
            if theta is not start:
                theta = min((theta, start), key=lambda theta: evidence(theta)[0])
            found = optimize.minimize(
                evidence,
                theta,
                jac=True,
                method="L-BFGS-B",
                bounds=bounds,
                options={"maxiter": n_steps},
            )
            theta = found.x
    return kernel.with_logs(theta[:-1]), float(np.exp(theta[-1]))


def _stages(n_rows: int, has_before: bool) -> list[tuple[int, int]]:
    """Return how many rows each search has, and how many steps."""
    few, many = _SCHEDULE
    if has_before:
        return [(many[0], _FURTHER_STEPS)]
    if n_rows <= few[0]:
        return [(n_rows, _LAST_STEPS)]
    return [few, many if n_rows > many[0] else (many[0], _LAST_STEPS)]
