"""How hyper-parameters of any kernel of rows are learned: by factors of its matrix."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from histrs.gaussian_process._bound.all_pairs import MatrixBound, check_memory
from histrs.gaussian_process._bound.base import Bound
from histrs.gaussian_process._kernels.base import Kernel
from histrs.gaussian_process._learning.hyperparameters import SCALES, Hyperparameters
from histrs.gaussian_process._learning.learner import Learner
from histrs.gaussian_process._learning.problem import Problem

# Parameters of the kernel, each of whose likelihoods takes an inverse, are learned from so many
# rows; noise and amplitude from all.
_LEARNING_ROWS = 2048
# Rows that noise and amplitude are learned from where nothing is factorised.
_SCALE_ROWS = 4096


def learn(
    problem: Problem,
    values: Hyperparameters,
    learner: Learner,
    random: Callable[[], np.random.RandomState],
    *,
    leaves_out: bool,
) -> tuple[Hyperparameters, Bound]:
    """Return the hyper-parameters, and their kernel on the rows.

    Parameters
    ----------
    problem : Problem
        Rows and targets.
    values : Hyperparameters
        Where the search starts.
    learner : Learner
        Searches.
    random : callable
        Returns what draws rows, where there are many.
    leaves_out : bool
        Whether hyper-parameters are those that predict rows best that are left out.
    """
    kernel: Kernel = values.kernel
    bound, n = problem.bind(kernel), len(problem.Y)
    # Once for all draws, and not at all where there is none.
    random = cache(random)
    part = problem
    if isinstance(bound, MatrixBound):
        # The matrix and a factor a system, beside what the matrix is made of.
        check_memory(n, kernel.n_parts + 1 + len(values.noise))
        likelihood = problem.likelihood(bound)
    else:
        some = np.sort(random().choice(n, min(n, _SCALE_ROWS), replace=False))
        part = problem.of_rows(some, exact=True)
        likelihood = part.likelihood(part.bind(kernel))
    m = len(part.Y)
    if m <= _LEARNING_ROWS or not kernel.free():
        best = learner.by_leaving_out if leaves_out else learner.best
        values = best(values, likelihood)
    else:
        few = part.of_rows(np.sort(random().choice(m, _LEARNING_ROWS, replace=False)), exact=True)
        of_few = few.likelihood(few.bind(kernel))
        if leaves_out:
            # Some of the rows have told of noise as well as all would.
            values = learner.by_leaving_out(values, of_few)
        else:
            values = learner.best(learner.best(values, of_few), likelihood, SCALES)
    return values, bound.with_kernel(values.kernel)
