"""Rows and targets to learn a kernel from, with all that a fit says of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from histrs import _histrs
from histrs._checks.validation import count_threads
from histrs._distributed.rows import in_memory
from histrs._typing import Array
from histrs.gaussian_process._bound.base import Bound
from histrs.gaussian_process._bound.bind import bind
from histrs.gaussian_process._bound.levels import LevelBound
from histrs.gaussian_process._learning.hyperparameters import Scales
from histrs.gaussian_process._learning.level_likelihood import LevelLikelihood
from histrs.gaussian_process._learning.likelihood import Likelihood
from histrs.gaussian_process._options import LogDetName, Solver
from histrs.gaussian_process._rows import roots, rows_of
from histrs.gaussian_process._systems.system import System


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

    def some_rows(self, most: int) -> NDArray[np.intp]:
        """Return all rows, or `most` drawn ones where there are more."""
        n = len(self.Y)
        if n <= most:
            return np.arange(n)
        return np.sort(self.rng().permutation(n)[:most])

    def bind(self, kernel: Any, base: _histrs.SortedColumns | None = None) -> Bound:
        """Return a kernel on the rows."""
        return bind(kernel, self.X, self.weights, self.solver, self.n_jobs, base)

    def system(self, bound: Bound, scales: Scales) -> System:
        """Return the linear system of a kernel on the rows."""
        noise = max(scales.noise, bound.least_ratio * scales.amplitude)
        return System(
            bound=bound,
            noise=noise,
            amplitude=scales.amplitude,
            solver=self.solver,
            row_scale=roots(self.weights),
        )

    def likelihood(self, bound: Bound) -> Any:
        """Return the likelihood of the targets, by weights where the kernel has few."""
        if isinstance(bound, LevelBound):
            return LevelLikelihood(bound, self.Y, roots(self.weights), self.stays)
        return Likelihood(
            bound,
            self.Y,
            solver=self.solver,
            tol=self.tol,
            log_det=self.log_det,
            seed=self.seed,
            row_scale=roots(self.weights),
            stays=self.stays,
        )
