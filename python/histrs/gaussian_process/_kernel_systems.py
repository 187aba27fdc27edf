"""The systems of a learned kernel: made, solved, kept as a posterior, and changed by rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from histrs import _histrs
from histrs._dask import is_dask
from histrs._progress import SolverProgress
from histrs._solvers.block_cg import Array, Solution
from histrs._solvers.preconditioners import Indices
from histrs._validation import Matrix, count_threads
from histrs._warnings import warn
from histrs.gaussian_process._distributed.arrays import (
    refuse_distributed,
)
from histrs.gaussian_process._distributed.system import DistributedSystem
from histrs.gaussian_process._hyperparameters import (
    Scales,
)
from histrs.gaussian_process._kernel import (
    GeneralizedKernel,
)
from histrs.gaussian_process._online import insert_rows, remove_rows
from histrs.gaussian_process._options import Solver
from histrs.gaussian_process._parameters import IntersectionParameters
from histrs.gaussian_process._posterior import Posterior
from histrs.gaussian_process._row_weights import roots
from histrs.gaussian_process._system import KernelSystem


class SolvedKernel(IntersectionParameters):
    """Solves the systems of hyper-parameters, once these are known."""

    def _level_of_regression(self, Y: Array) -> Array:
        """Return what standardised targets are regressed less, a number for each output."""
        return np.zeros(Y.shape[1])

    def _make_system(
        self,
        X: Matrix,
        kernel: GeneralizedKernel,
        scales: Scales,
        base_columns: _histrs.SortedColumns | None,
    ) -> KernelSystem:
        solver = Solver.of(self.solver)
        make = partial(DistributedSystem, n_jobs=self.n_jobs) if is_dask(X) else KernelSystem
        return make(
            X=X,
            noise=scales.noise,
            amplitude=scales.amplitude,
            n_threads=count_threads(self.n_jobs),
            solver=solver.name,
            preconditioner_name=solver.preconditioner,
            max_iter=solver.max_iter,
            kernel=kernel,
            base_columns=base_columns,
            row_scale=roots(self.sample_weight_fit_),
        )

    # ---- solving -----------------------------------------------------------------------------

    def _solve_targets(
        self, systems: Sequence[KernelSystem], Y: Array, weights: Array | None
    ) -> None:
        """Solve for standardised targets, from `weights`, which count the amplitude in."""
        tol = np.full(Y.shape[1], float(self.tol))
        found = Solution(np.empty_like(Y), np.empty(Y.shape[1]), np.empty(Y.shape[1], np.intp))
        # Targets of any size are solved at size 1; those of 0 have weights of 0.
        centred = Y - self._level_of_regression(Y)
        size = np.max(np.abs(centred), axis=0, initial=0.0)
        start = None if weights is None else weights * (size > 0.0)
        size[size == 0.0] = 1.0
        left = np.full(Y.shape[1], np.inf)
        with SolverProgress(type(self).__name__, tol, self.verbose) as progress:
            for k, system in enumerate(systems):
                part = slice(None) if len(systems) == 1 else slice(k, k + 1)
                system.check()
                solution = system.solve_targets(
                    centred[:, part] / size[part],
                    tol[part],
                    None if start is None else start[:, part] / size[part],
                    partial(_report, progress, left, part),
                )
                found.X[:, part] = solution.X * size[part]
                found.residual[part] = solution.residual * size[part]
                found.n_iter[part] = solution.n_iter
        self._keep(tuple(systems), Y, found.X)
        self.residual_ = found.residual * self._units()
        self.n_iter_ = found.n_iter
        if not np.all(found.residual <= tol * size):
            worst = int(np.argmax(found.residual / size))
            limit = self.tol * size[worst] * self._units()[worst]
            warn(
                f"{type(self).__name__} stopped after {self.n_iter_.max()} iterations with a "
                f"residual of {self.residual_[worst]:.2e} in output {worst}, above the tolerance "
                f"{limit:.2e}: predictions may be far off. Raise max_iter of a Solver, "
                "tol or noise, or scale the features down.",
                ConvergenceWarning,
            )

    def _keep(self, systems: tuple[KernelSystem, ...], Y: Array, weights: Array) -> None:
        """Keep what was learned: arrays, and the posterior that is made of them."""
        kernel = systems[0].kernel
        noise = np.array([system.noise for system in systems])
        amplitude = np.array([system.amplitude for system in systems])
        self.X_fit_, self.Y_fit_ = systems[0].X, Y * self._units()
        self._keep_weights(weights, amplitude)
        shared = len(systems) == 1
        self.noise_ = float(noise[0]) if shared else noise
        self.amplitude_ = float(amplitude[0]) if shared else amplitude
        self.feature_transform_, self.exponent_ = kernel.transform, kernel.exponent
        ones = np.ones(self.n_features_in_)
        self.feature_weights_ = ones if kernel.weights is None else kernel.weights
        self.intercept_variance_ = kernel.intercept_variance
        pairs = kernel.pairs
        self.interactions_ = np.empty((0, 2), np.intp) if pairs is None else pairs.pairs
        self.smoothness_ = kernel.smoothness
        self.slope_weight_ = kernel.slope_weight if kernel.is_smooth else 0.0
        self.rough_weight_ = kernel.rough_weight
        self.interaction_weight_ = 0.0 if pairs is None else kernel.interaction_weight
        self.interaction_knots_ = [] if pairs is None else list(pairs.knots)
        self._knot_covariances = [] if pairs is None else list(pairs.covariances)
        posterior = Posterior(systems, weights, {}, self.tol)
        self._posterior = replace(posterior, readouts=self._learn_readouts(posterior, Y))

    # ---- online updates ----------------------------------------------------------------------

    def _systems_with(
        self, X: Matrix, n_outputs: int, row_scale: Array | None
    ) -> tuple[KernelSystem, ...]:
        return self._changed_systems(lambda system: insert_rows(system, X, n_outputs, row_scale))

    def _systems_without(self, removed: Indices, n_outputs: int) -> tuple[KernelSystem, ...]:
        return self._changed_systems(lambda system: remove_rows(system, removed, n_outputs))

    def _changed_systems(
        self, change: Callable[[KernelSystem], KernelSystem]
    ) -> tuple[KernelSystem, ...]:
        """Return the systems after a change of their rows, under what is now set of the solver."""
        refuse_distributed(self, "A change of rows")
        first, *others = self._state()["_posterior"].systems
        fresh = self._make_system(
            first.X, first.kernel, Scales(first.noise, first.amplitude), first.base_columns
        )
        fresh = replace(fresh, row_scale=first.row_scale)
        settings = ("n_threads", "solver", "preconditioner_name", "max_iter")
        same = all(getattr(first, name) == getattr(fresh, name) for name in settings)
        changed = change(first if same else fresh)
        scales = [Scales(system.noise, system.amplitude) for system in others]
        return (changed, *(changed.with_scales(pair) for pair in scales))


def _report(progress: SolverProgress, left: Array, part: slice, residual: Array) -> None:
    """Show how far some outputs are, beside the others."""
    left[part] = residual
    progress(left)
