"""The linear system of rows whose columns lie on the workers of a cluster."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np

from histrs import _histrs
from histrs._dask import is_dask
from histrs._solvers.block_cg import Array, Solution
from histrs._solvers.knots import Knots
from histrs._solvers.low_rank import Landmarks
from histrs._solvers.preconditioners import Identity
from histrs._solvers.row_scale import scale_both_sides
from histrs._validation import Matrix
from histrs.gaussian_process._distributed.columns import DistributedColumns, DistributedScore
from histrs.gaussian_process._distributed.projection import DistributedProjection
from histrs.gaussian_process._system import KernelSystem

# Rows up to which the matrix is stored here unless the solver is told: it takes 46 MB, and is of as
# many rows as the likelihood of several classes takes by default.
_MAX_STORED_ROWS = 2400


@dataclass(frozen=True, kw_only=True)
class DistributedSystem(KernelSystem):
    """`K + s I` of a dask array: `K V` is a sum over blocks of columns, each on a worker.

    Vectors with a number for each row are here, and the blocks there.
    """

    n_jobs: int | None = None

    def _sorted(self, X: Any) -> _histrs.SortedColumns:
        return sorted_columns(X, self.n_jobs)

    @property
    def blocks(self) -> DistributedColumns:
        """The columns, as what they are."""
        return cast(DistributedColumns, self.columns)

    @cached_property
    def row_sums(self) -> Array:
        return self.columns.row_sums(self.n_threads)

    def _additive_prior(self, X: Any) -> Array:
        if not is_dask(X):
            return super()._additive_prior(X)
        # What a scheduler of this process gives may not be written to.
        return np.array(X.astype(np.float64).sum(axis=1).compute())

    def gram(self, X: Any) -> Array:
        # All pairs of rows: there are few.
        return super().gram(X.compute() if is_dask(X) else X)

    def kernel_matrix(self) -> Array:
        # Sums may be what a scheduler of this process still holds.
        K = np.array(self.blocks.kernel_matrix(), order="C")
        K += self.intercept_variance
        scale_both_sides(self.row_scale, K)
        return K

    def uses_cholesky(self, n_outputs: int) -> bool:
        if self.solver == "auto" and self.X.shape[0] > _MAX_STORED_ROWS:
            return "factor" in vars(self)
        return super().uses_cholesky(n_outputs)

    def _solve_surely(
        self,
        Y: Array,
        tol: Array,
        X0: Array | None = None,
        callback: Callable[[Array], None] | None = None,
    ) -> Solution:
        # There is no other way to fall back on that would not bring the matrix here.
        return self._solve_iteratively(Y, tol, X0, callback)

    @cached_property
    def preconditioner(self) -> Identity | Knots | Landmarks:
        name, s = self._name_of_preconditioner, self._noise_of_preconditioner
        if name is None:
            return Identity()
        if name == "knots":
            projection = DistributedProjection(self.rows, self._n_knots, self.n_jobs)
            return Knots.of_projection(
                cast(_histrs.KnotProjection, projection), s, self.n_threads, self.row_scale
            )
        return Landmarks(
            self.blocks.columns_of_kernel,
            self.row_sums,
            s,
            self._rank,
            self.n_threads,
            self.row_scale,
        )

    def _additive_cross_product(self, X: Matrix, V: Array) -> Array:
        return DistributedScore(self.blocks, V).evaluate(X, self.n_threads)

    def _additive_cross(self, X: Matrix) -> Array:
        return self.blocks.cross_kernel(X)


def sorted_columns(X: Any, n_jobs: int | None) -> _histrs.SortedColumns:
    """Return the columns of a dask array, which have the methods of the core's."""
    return cast(_histrs.SortedColumns, DistributedColumns(X, n_jobs))
