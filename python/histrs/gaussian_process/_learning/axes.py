"""Directions along which a function changes, which may tell more than columns do."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy import linalg

from histrs._solvers import lapack
from histrs._threads import blas_threads_at_most
from histrs._typing import Array
from histrs.gaussian_process._kernels.distances import DistanceMixture
from histrs.gaussian_process._learning.distances import LearnedKernel, Sample, learn

# Rows whose gradients are averaged, and the step of their differences.
_N_GRADIENTS = 500
_STEP = 1e-4
# Part of the largest mean square of a slope that none is below.
_LEAST_SLOPE = 1e-6
# What squared errors of rows that are left out must fall to.
_GAIN = 0.98
# What each of the angles adds to them, over the rows; and most that all angles may add: more are
# not worth a trial.
_OF_ANGLE = 1.0
_MOST_OF_ANGLES = 0.5


def along_axes(found: LearnedKernel, sample: Sample) -> LearnedKernel:
    r"""Return the kernel along the axes of a function, if it predicts left-out rows better.

    The axes are eigenvectors of the mean outer product of gradients,
    :math:`\frac{1}{n} \sum_i \nabla f(x_i) \nabla f(x_i)^T` (Trivedi et al., "A consistent
    estimator of the expected gradient outerproduct", UAI, 2014), of the posterior mean `f` by the
    kernel that was found. Weights begin as the roots of its eigenvalues. The axes have
    `p (p - 1) / 2` angles, which all rows had a say in, so that errors have a handicap.
    """
    n = found.kernel.n_numbers
    handicap = _OF_ANGLE * 0.5 * n * (n - 1) / sample.n_searched
    if n < 2 or handicap > _MOST_OF_ANGLES:
        return found
    with blas_threads_at_most(sample.n_threads):
        start = _start(found, sample)
        if start is None:
            return found
    along = replace(sample, X=start.turned(sample.X))
    # A search gains about as much as half the angles take.
    worst = _GAIN * found.left_out / (1.0 + 0.5 * handicap)
    tried = learn(start, along, LearnedKernel(start, found.noise), worst)
    return tried if tried.left_out * (1.0 + handicap) < _GAIN * found.left_out else found


def _start(found: LearnedKernel, sample: Sample) -> DistanceMixture | None:
    """Return the kernel that a search begins with; None if the function has no slope."""
    kernel, n = found.kernel, found.kernel.n_numbers
    evidence = sample.evidence(kernel, sample.n_searched)
    L = evidence.factor(kernel, found.noise)
    if L is None:
        return None
    gradients = _gradients(kernel, sample, evidence.X, lapack.solved(L, evidence.Y, lower=False))
    squares, axes = linalg.eigh(np.einsum("dij,eij->de", gradients, gradients))
    if not squares[-1] > 0.0:
        return None
    weights = np.sqrt(np.maximum(squares, _LEAST_SLOPE * squares[-1]))
    # Distances are as large as they were.
    X = sample.X[:, :n]
    before, after = X * np.exp(kernel.log_weights[:n]), X @ axes * weights
    weights *= np.linalg.norm(before) / np.linalg.norm(after)
    logs = np.append(np.log(weights), kernel.log_weights[n:])
    return replace(kernel, log_weights=logs, axes=axes)


def _gradients(kernel: DistanceMixture, sample: Sample, X: Array, dual: Array) -> Array:
    """Return slopes of the sum of kernels with rows `X`, of shape (n_numbers, n_at, n_targets)."""
    dual = np.ascontiguousarray(dual)
    at = sample.X[np.sort(sample.order[:_N_GRADIENTS])]
    slopes = np.empty((kernel.n_numbers, len(at), dual.shape[1]))
    for d, slope in enumerate(slopes):
        up, down = at.copy(), at.copy()
        up[:, d] += _STEP
        down[:, d] -= _STEP
        both = np.vstack([up, down])
        values = kernel.cross_product(both, X, dual, sample.n_threads)
        slope[:] = (values[: len(at)] - values[len(at) :]) / (2.0 * _STEP)
    return slopes
