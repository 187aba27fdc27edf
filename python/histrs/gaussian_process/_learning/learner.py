"""Searches for the best hyper-parameters, and what they leave behind."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from histrs._progress import SearchProgress, TrainingProgress
from histrs._threads import blas_threads_at_most
from histrs._typing import Array
from histrs._warnings import warn
from histrs.gaussian_process._learning.hyperparameters import (
    SCALES,
    Bounds,
    Hyperparameters,
    SearchSpace,
    check_bounds,
)
from histrs.gaussian_process._learning.left_out import WithLevel, learn_by_leaving_out
from histrs.gaussian_process._learning.likelihood import BaseLikelihood, Likelihood
from histrs.gaussian_process._learning.search import Search
from histrs.gaussian_process._options import LikelihoodSearch

# Rows up to which threads of BLAS mostly wait for one another.
_MANY_ROWS = 4096
_FEW_LEFT_OUT = 1024
# Values of each of the kernel's parameters of which the best is taken by leaving rows out, as
# multiples of the start, the smoothest first.
_TRIED = (0.03, 0.3, 1.0, 3.0)
# Variance of the level in units of the noise, or of the kernel: any level is as likely.
_LEVEL = 30.0


@dataclass
class Learner:
    """What a process says of searches for its hyper-parameters, and the history of the last one."""

    name: str
    """Of the process, for what it tells the user."""
    search: LikelihoodSearch
    bounds: Mapping[str, Any]
    """Of noise and amplitude."""
    seed: Any
    """Returns what all random choices begin with."""
    verbose: int
    warns: bool = True
    """Whether it tells the user; of parts of a blend, it does not."""
    history: dict[str, Array] | None = field(default=None, init=False)
    """Every evaluation of the last search; None where there was none."""

    def space(self, start: Hyperparameters) -> SearchSpace:
        """Return the space of the hyper-parameters that are learned."""
        bounds: dict[str, Bounds] = {
            name: check_bounds(name, pair) for name, pair in self.bounds.items()
        }
        bounds |= start.kernel.free()
        return SearchSpace(start, {name: b for name, b in bounds.items() if b != "fixed"})

    def best(
        self,
        start: Hyperparameters,
        likelihood: BaseLikelihood,
        names: Collection[str] | None = None,
        max_iter: int | None = None,
    ) -> Hyperparameters:
        """Return the hyper-parameters of largest likelihood: all that are free, or some.

        `max_iter` ends a search from a start that is nearly there.
        """
        self.history = None
        space = self.space(start)
        if names is not None:
            space = space.only(names, start)
        if self.search.method is None or not space.names:
            return start
        space.check_start()
        if not likelihood.has_gradient and self.search.method == "l-bfgs-b":
            raise ValueError(
                "log_det='bound' has no gradient: choose the method 'nelder-mead' of a "
                "LikelihoodSearch."
            )
        if likelihood.targets_are_constant:
            self.warn(
                "The targets are constant, which any hyper-parameters explain: kept as given."
            )
            return start
        kernels = space.start.kernel.starts(
            {name: space.bounds_of(name) for name in space.names if name not in SCALES}
        )
        few = likelihood.shape[0] <= _MANY_ROWS
        with (
            SearchProgress(self.name, self.verbose) as progress,
            blas_threads_at_most(1) if few else nullcontext(),
        ):
            search = Search(likelihood, space, self.search.method, progress, kernels, max_iter)
            best = search.run(self.search.n_restarts, lambda: np.random.default_rng(self.seed()))
        self.history = search.history.arrays(space.names)
        if best.complaint is not None:
            self.warn(
                f"The optimizer stopped early ({best.complaint}); the best hyper-parameters that "
                "it met are kept. Try other starting values, n_restarts of a LikelihoodSearch, or "
                "a smaller tol."
            )
        ends = space.at_bounds(space.pack(best.values))
        if ends:
            self.warn(
                f"The search ended with {' and '.join(ends)}, which is kept. Widen the bounds if "
                "that is not meant."
            )
        return best.values

    def warn(self, message: str) -> None:
        """Warn of what a search could not do."""
        if self.warns:
            warn(f"{self.name}: {message}", ConvergenceWarning)

    def by_leaving_out(self, start: Hyperparameters, likelihood: Likelihood) -> Hyperparameters:
        """Return the hyper-parameters that predict the classes of rows best without these."""
        self.history = None
        space = self.space(start)
        space.check_start()
        if not space.names:
            return start
        if likelihood.targets_are_constant:
            self.warn("There is one class, which any hyper-parameters explain: kept as given.")
            return start
        kernels = [start.kernel]
        for name in space.names:
            if name not in SCALES:
                value = start.kernel.parameter(name)
                kernels = [k.with_parameters({name: t * value}) for k in kernels for t in _TRIED]
        few = likelihood.shape[0] <= _FEW_LEFT_OUT
        with (
            TrainingProgress(self.name, self.verbose) as progress,
            blas_threads_at_most(1) if few else nullcontext(),
        ):
            self.history, chosen = learn_by_leaving_out(likelihood, space, kernels, progress)
        level = max(1.0, _LEVEL * float(chosen.noise[0] / chosen.amplitude[0]))
        return replace(chosen, kernel=WithLevel.of(chosen.kernel, level))
