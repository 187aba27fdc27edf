"""Whether features count by their spread or as they are, which some rows tell."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import linalg

from histrs._threads import blas_threads_at_most
from histrs._typing import Array
from histrs.gaussian_process._kernels.generalized import GeneralizedKernel
from histrs.gaussian_process._learning.hyperparameters import Hyperparameters, Scales
from histrs.gaussian_process._learning.likelihood import Likelihood
from histrs.gaussian_process._learning.problem import Problem
from histrs.gaussian_process._learning.spectrum import profiled_costs

# Variance of the intercept, in means of the kernel over the rows: from 1 on, it hardly matters
# which.
VAGUE_INTERCEPT = 3.0
# Rows whose likelihood tells: twice as many take four to eight times as long.
_MOST_ROWS = 512
# Logarithm of the likelihood ratio from which on columns count as they are. Below, the rows hardly
# tell, and the units of columns should not.
_CLEAR = 8.0
# Mean of the kernel's diagonal, which needs no weights up to this, and down to 1 over this.
_USUAL = 1e6
_LARGEST_EXPONENT = 1000
# Ratios of noise to the mean diagonal of the kernel, of which the likeliest is taken.
_RATIOS = np.logspace(-6, 3, 60)


def likelier_weights(problem: Problem, start: Hyperparameters, intercept: Any) -> Hyperparameters:
    """Return the start, or one with features of weight 1 where that is clearly likelier.

    Each kernel has the noise and signal variances that suit it best.

    Parameters
    ----------
    problem : Problem
        Rows and centred targets, of which 512 tell where there are more.
    start : Hyperparameters
        With the weights that are kept unless others are likelier.
    intercept : float or "auto"
        Prior variance of a constant.
    """
    some = problem.of_rows(problem.some_rows(_MOST_ROWS), exact=True)
    if not np.any(some.Y):
        return start
    likelihood = some.likelihood(some.bind(start.kernel))
    shared = len(start.noise) == 1
    # Where numbers are so large that nothing can be solved, they cannot do without weights. On
    # matrices of this size, BLAS's threads mostly wait for one another.
    with suppress(ValueError, linalg.LinAlgError), blas_threads_at_most(1):
        unweighted = replace(start.kernel, weights=_equal_weights(likelihood, start.kernel))
        gain = _log_evidence(likelihood, unweighted, intercept, shared=shared)
        gain -= _log_evidence(likelihood, start.kernel, intercept, shared=shared)
        if gain > _CLEAR:
            return replace(start, kernel=unweighted)
    return start


def _equal_weights(likelihood: Likelihood, kernel: GeneralizedKernel) -> Array | None:
    """Return None, or weights that are all one power of two, where numbers are huge or tiny.

    With them, the signal variance stays within usual bounds whatever the unit of all columns.
    """
    system = likelihood.system(replace(kernel, weights=None), Scales(1.0, 1.0))
    system.check()
    size = system.mean_variance
    if 1.0 / _USUAL <= size <= _USUAL:
        return None
    # Of subnormal numbers, the weight would overflow.
    exponent = min(-int(np.frexp(size)[1]), _LARGEST_EXPONENT)
    return np.full(system.bound.X.shape[1], np.ldexp(1.0, exponent))


def _log_evidence(
    likelihood: Likelihood, kernel: GeneralizedKernel, intercept: Any, *, shared: bool
) -> float:
    """Return the likelihood at the best noise and signal variance, up to what all kernels share."""
    system = likelihood.system(kernel, Scales(1.0, 1.0))
    vague = VAGUE_INTERCEPT * system.mean_variance
    constant = vague if intercept == "auto" else float(intercept)
    kernel = replace(kernel, intercept_variance=constant)
    K = likelihood.system(kernel, Scales(1.0, 1.0)).kernel_matrix()
    nodes, Q = linalg.eigh(K, overwrite_a=True)
    nodes = np.maximum(nodes, 0.0)
    Y = likelihood.targets
    # Any kernel explains a target of one value.
    Y = Y[:, np.any(Y != 0.0, axis=0)]
    squares = (Q.T @ Y) ** 2
    if shared:
        squares = squares.mean(axis=1, keepdims=True)
    unit = float(nodes.mean()) or 1.0
    costs = np.min(profiled_costs(nodes, squares, _RATIOS * unit, likelihood.n_repeats), axis=0)
    return float(-0.5 * Y.shape[1] * np.mean(costs))
