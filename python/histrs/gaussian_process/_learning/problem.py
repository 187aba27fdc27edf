"""Rows and targets to learn a kernel from, and how any kernel of rows is learned."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from histrs import _histrs
from histrs._checks.validation import count_threads
from histrs._distributed.rows import in_memory, is_dask
from histrs._typing import Array
from histrs.gaussian_process._bound.additive import MinimaBound
from histrs.gaussian_process._bound.all_pairs import MatrixBound, StoredBound, check_memory
from histrs.gaussian_process._bound.base import Bound
from histrs.gaussian_process._bound.levels import LevelBound
from histrs.gaussian_process._distributed.bound import DistributedBound
from histrs.gaussian_process._kernels.base import Kernel
from histrs.gaussian_process._kernels.generalized import GeneralizedKernel
from histrs.gaussian_process._kernels.levels import LevelKernel
from histrs.gaussian_process._learning.hyperparameters import SCALES, Hyperparameters, Scales
from histrs.gaussian_process._learning.learner import Learner
from histrs.gaussian_process._learning.likelihood import LevelLikelihood, Likelihood
from histrs.gaussian_process._options import LogDetName, Solver
from histrs.gaussian_process._rows import roots, rows_of
from histrs.gaussian_process._systems.system import System

# Parameters of the kernel, each of whose likelihoods takes an inverse, are learned from so many
# rows; noise and amplitude from all.
_LEARNING_ROWS = 2048
# Rows that noise and amplitude are learned from where nothing is factorised.
_SCALE_ROWS = 4096


@dataclass(frozen=True)
class Problem:
    """Rows and targets, and how systems of them are made and solved."""

    X: Any
    """Training rows, as a fit keeps them."""
    Y: Array
    """Targets of scale 1, less their level."""
    weights: Array | None
    """Weights of the rows; None for 1."""
    stays: Array | None
    """What part of each row one of its copies leaves; None for 0."""
    solver: Solver
    tol: float
    log_det: LogDetName
    seed: Callable[[], int]
    """Returns what all random choices begin with."""
    n_jobs: int | None
    are_classes: bool
    """Whether targets are +1 for the class of a row and -1 for others."""
    feature_names: NDArray[Any] | None

    @property
    def n_threads(self) -> int:
        """Threads of the core."""
        return count_threads(self.n_jobs)

    @cached_property
    def row_scale(self) -> Array | None:
        """Roots of the weights; None for 1."""
        return roots(self.weights)

    def rng(self) -> np.random.Generator:
        """Return a generator that begins with the seed."""
        return np.random.default_rng(self.seed())

    def of_rows(self, rows: NDArray[np.integer[Any]], *, exact: bool = False) -> Self:
        """Return the problem of some of the rows, in memory; exact ones are factorised."""
        solver = replace(self.solver, name="cholesky") if exact else self.solver
        return replace(
            self,
            X=in_memory(self.X[rows]),
            Y=self.Y[rows],
            weights=rows_of(self.weights, rows),
            stays=rows_of(self.stays, rows),
            solver=solver,
        )

    def exact_likelihood(self, rows: NDArray[np.integer[Any]], kernel: Any) -> Likelihood:
        """Return the likelihood of some of the rows, whatever solves for all of them."""
        some = self.of_rows(rows, exact=True)
        return some.likelihood(some.bind(kernel))

    def some_rows(self, most: int) -> NDArray[np.intp]:
        """Return all rows, or `most` drawn ones where there are more."""
        n = len(self.Y)
        if n <= most:
            return np.arange(n)
        return np.sort(self.rng().permutation(n)[:most])

    def bind(self, kernel: Any, base: _histrs.SortedColumns | None = None) -> Bound:
        """Return a kernel on the rows, as the solver asks or as suits.

        `base` are the columns of an additive kernel, where they are sorted already.
        """
        given: dict[str, Any] = {"X": self.X, "kernel": kernel, "n_threads": self.n_threads}
        if isinstance(kernel, LevelKernel):
            return LevelBound(**given)
        if not isinstance(kernel, GeneralizedKernel):
            return StoredBound(**given) if self._keeps_all_pairs(kernel) else MatrixBound(**given)
        if is_dask(self.X):
            return DistributedBound(n_jobs=self.n_jobs, base=base, **given)
        return MinimaBound(weights=self.weights, base=base, **given)

    def _keeps_all_pairs(self, kernel: Kernel) -> bool:
        """Say whether all pairs of rows are kept in few bytes, and nothing is factorised."""
        name = self.solver.name
        if name == "auto":
            return kernel.can_be_stored and self.X.shape[0] > kernel.most_factorised
        if name == "cg" and not kernel.can_be_stored:
            raise ValueError(
                f"solver='cg' needs a kernel whose matrix is stored in two bytes per entry, and "
                f"{kernel!r} is not one: set solver='auto'."
            )
        return name == "cg"

    def system(self, bound: Bound, scales: Scales) -> System:
        """Return the linear system of a kernel on the rows."""
        noise = max(scales.noise, bound.least_ratio * scales.amplitude)
        return System(
            bound=bound,
            noise=noise,
            amplitude=scales.amplitude,
            solver=self.solver,
            row_scale=self.row_scale,
        )

    def likelihood(self, bound: Bound) -> Likelihood:
        """Return the likelihood of the targets, by weights where the kernel has few."""
        return (
            LevelLikelihood(bound, self)
            if isinstance(bound, LevelBound)
            else Likelihood(bound, self)
        )


def learn_by_factors(
    problem: Problem,
    values: Hyperparameters,
    learner: Learner,
    random: Callable[[], np.random.RandomState],
    *,
    leaves_out: bool,
) -> tuple[Hyperparameters, Bound]:
    """Return the hyper-parameters of any kernel by factors of its matrix, and it on the rows.

    Where there are many rows, `random` returns what draws some. With `leaves_out`, hyper-parameters
    are those that predict rows best that are left out.
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
        few = np.sort(random().choice(m, _LEARNING_ROWS, replace=False))
        of_few = part.exact_likelihood(few, kernel)
        if leaves_out:
            # Some of the rows have told of noise as well as all would.
            values = learner.by_leaving_out(values, of_few)
        else:
            values = learner.best(learner.best(values, of_few), likelihood, SCALES)
    return values, bound.with_kernel(values.kernel)
