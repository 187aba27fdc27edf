"""The posterior of a stored kernel matrix."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from histrs._scale import check_computed, may_overflow
from histrs._solvers.block_cg import Array
from histrs._solvers.preconditioners import Indices
from histrs._solvers.row_scale import scaled
from histrs.gaussian_process._dense.stored import StoredSystem
from histrs.gaussian_process._dense.system import DenseSystem
from histrs.gaussian_process._posterior import BasePosterior


@dataclass(frozen=True)
class DensePosterior(BasePosterior[DenseSystem]):
    """Weights of training rows, with the factors of their systems."""

    def read(self, name: str, X: Any, n_threads: int) -> Array:
        """Return a readout of the posterior mean for every row."""
        readout = self.readouts[name]
        V = self.weights @ readout.matrix
        values = np.empty((X.shape[0], V.shape[1]))
        for rows, k in self.system.blocks(X, n_threads):
            values[rows] = k @ V
        return values + readout.offset

    def latent_variance(self, X: Any, *, exact: bool = False) -> Array:
        """Return the posterior variance of latent functions, a column for each system.

        With `exact`, many rows are solved for, to the tolerance of the solver.
        """
        with may_overflow():
            columns = [
                system.solved_variance(X)
                if exact and isinstance(system, StoredSystem)
                else system.latent_variance(X)
                for system in self.systems
            ]
            variance = np.column_stack(columns) * self.amplitude
        check_computed(variance, "Variances")
        return variance

    @property
    def is_factorised(self) -> bool:
        """Whether all is solved by Cholesky factors."""
        return not isinstance(self.system, StoredSystem)

    @property
    def _stored(self) -> list[StoredSystem]:
        """The systems, where they are solved by iterations; none where they are factorised."""
        return [system for system in self.systems if isinstance(system, StoredSystem)]

    @property
    def tol(self) -> float:
        """Tolerance of iterations; 0 where there are none."""
        return max((system.tol for system in self._stored), default=0.0)

    def means_without(self, held: Indices, Y: Array, tol: float) -> Array:
        """Return means of targets `Y` of some training rows by a fit without these."""
        means = np.empty((len(held), Y.shape[1]))
        for k, system in enumerate(self.systems):
            part = slice(None) if len(self.systems) == 1 else slice(k, k + 1)
            if not isinstance(system, StoredSystem):
                raise TypeError("leave_one_out has them in closed form")
            means[:, part] = system.means_without(held, Y[:, part], self.weights[:, part], tol)
        return means

    @property
    def std_error(self) -> float:
        """Mean relative error of standard deviations, as measured; 0 where they are exact."""
        return max((system.cached_variance.error for system in self._stored), default=0.0)

    def variance_of(self, prior: Array, cross: Callable[[slice], Array]) -> Array:
        """Return the posterior variances of numbers, a column for each system.

        `prior` are their variances before, and `cross` gives the covariances of some of them with
        the training rows, a column for each; both without amplitude.
        """
        k = scaled(self.system.row_scale, cross(slice(None)))
        columns = []
        for system in self.systems:
            half = system.factor.solve_lower(k)
            columns.append(np.maximum(prior - np.einsum("ij,ij->j", half, half), 0.0))
        return np.column_stack(columns) * self.amplitude

    def variance_bounds(self, X: Any, gap: float) -> tuple[Array, Array]:
        """Return the posterior variance twice: it is exact."""
        variance = self.latent_variance(X)
        return variance, variance
