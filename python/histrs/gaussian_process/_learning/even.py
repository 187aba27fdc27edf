"""Averages over kernels in which all columns are alike, by the evidence of each."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import NamedTuple

import numpy as np

from histrs._solvers import lapack
from histrs._solvers.cholesky import cholesky
from histrs._typing import Array
from histrs.gaussian_process._kernels.even import EvenMixture
from histrs.gaussian_process._rows import repeats

# What is tried: parts of lines, of the Laplace kernel and of curves, and amplitudes in units of the
# noise.
_MIXES = (
    (1.0, 0.0, 0.0),
    (0.5, 0.5, 0.0),
    (0.5, 0.0, 0.5),
    (0.0, 0.5, 0.5),
    (0.34, 0.33, 0.33),
    (0.0, 1.0, 0.0),
    (0.0, 0.0, 1.0),
)
_AMPLITUDES = np.exp(np.linspace(-3.0, 7.0, 16))
# More of them where the largest suits best: there is next to no noise. And the least noise.
_LARGER = np.exp(np.linspace(7.0, 16.0, 14)[1:])
_LEAST_NOISE = 1e-6
# The most probable kernels that are kept, up to so many rows and of more, and least probability as
# part of the largest.
_MOST, _FEW_ROWS, _MOST_OF_MANY = 12, 200, 4
_LEAST = 0.02


class Likely(NamedTuple):
    """A kernel, the noise that suits it, and how probable both are."""

    kernel: EvenMixture
    noise: float
    probability: float


def likely_kernels(
    start: EvenMixture, X: Array, T: Array, weights: Array | None, stays: Array | None
) -> list[Likely]:
    r"""Return the kernels that targets make probable.

    The level and the common scale :math:`\sigma^2` are integrated out under a flat prior of
    :math:`\log \sigma^2`. The marginal likelihood of a kernel with noise 1 is then
    :math:`|A|^{-1/2} (t^T A^{-1} t)^{-(N - 1)/2}`, and its noise is :math:`t^T A^{-1} t / (N - 1)`.
    If this noise is below a least noise :math:`\sigma_0^2`, the scale is fixed at
    :math:`\sigma_0^2`. Otherwise the amplitudes of a target without noise would run to the end of
    the grid. Several targets share the kernel and the noise: determinants and degrees of freedom
    are multiplied by their number, and sums are over all.

    Parameters
    ----------
    start : EvenMixture
        With the length that suits the rows.
    X : ndarray of shape (n_samples, n_columns)
        Rows.
    T : ndarray of shape (n_samples, n_targets)
        Standardised targets.
    weights : ndarray of shape (n_samples,) or None
        Weights of rows, by which their noise is divided.
    stays : ndarray of shape (n_samples,) or None
        What part of each row one of its copies leaves; None for 0.
    """
    parts, (n, n_targets) = start.parts(X, None, 1), T.shape
    own = np.ones(n) if weights is None else 1.0 / weights
    n_free = n_targets * max(n + repeats(stays) - 1, 1)
    found: list[tuple[EvenMixture, float, float]] = []
    mixes = [replace(start, mix=mix) for mix in _MIXES]
    mixed = [kernel.mixed(parts) for kernel in mixes]
    for amplitudes in (_AMPLITUDES, _LARGER):
        for k, amplitude in product(range(len(mixes)), amplitudes.tolist()):
            kernel = replace(mixes[k], amplitude=amplitude)
            A = kernel.of_mixed(mixed[k])
            A[np.diag_indices_from(A)] += own
            L, Z = cholesky(A.T), np.array(T, order="F")
            lapack.solve_triangle(L, Z, lower=True)
            square = float(np.vdot(Z, Z))
            noise = max(square / n_free, _LEAST_NOISE)
            # The level has no prior of its own.
            log_det = 2.0 * np.log(np.diag(L)).sum() - np.log(kernel.level)
            evidence = -0.5 * (n_targets * log_det + n_free * np.log(noise) + square / noise)
            found.append((kernel, noise, float(evidence)))
        if max(found, key=lambda one: one[2])[0].amplitude < amplitudes[-1]:
            break
    evidences = np.array([evidence for *_, evidence in found])
    p = np.exp(evidences - evidences.max())
    most = _MOST if n <= _FEW_ROWS else _MOST_OF_MANY
    best = [int(i) for i in np.argsort(-p, kind="stable")[:most] if p[i] >= _LEAST]
    total = float(p[best].sum())
    return [Likely(found[i][0], found[i][1], float(p[i]) / total) for i in best]
