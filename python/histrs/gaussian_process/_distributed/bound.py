"""An additive kernel on rows whose columns lie on the workers of a cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from histrs import _histrs
from histrs._checks.validation import to_core
from histrs._distributed.rows import in_memory, is_dask
from histrs._solvers.knots import Knots
from histrs._solvers.low_rank import Landmarks
from histrs._solvers.preconditioners import Identity, Indices
from histrs._typing import Array, Matrix
from histrs.gaussian_process._bound.additive import AdditiveBound
from histrs.gaussian_process._bound.base import AnyPreconditioner
from histrs.gaussian_process._bound.preconditioners import n_knots_of, name_of, rank_of
from histrs.gaussian_process._bound.scores import Score, ScoreWithIntercept
from histrs.gaussian_process._distributed.columns import DistributedColumns, DistributedScore
from histrs.gaussian_process._distributed.projection import DistributedProjection
from histrs.gaussian_process._options import Interpolation, PreconditionerName

# Rows up to which the matrix is stored here unless the solver is told: it takes 46 MB, and is of as
# many rows as the likelihood of several classes takes by default.
_MAX_STORED_ROWS = 2400


@dataclass(frozen=True, kw_only=True)
class DistributedBound(AdditiveBound):
    """The kernel of a dask array: `K V` is a sum over blocks of columns, each on a worker.

    Vectors with a number for each row are here, and the blocks there.
    """

    n_jobs: int | None = None

    def _sorted(self) -> _histrs.SortedColumns:
        return sorted_columns(self.X, self.n_jobs)

    @property
    def blocks(self) -> DistributedColumns:
        """The columns, as what they are."""
        return cast(DistributedColumns, self.columns)

    def matrix(self) -> Array:
        """Return `K`, as a new array in C order."""
        # Sums may be what a scheduler of this process still holds.
        K = np.array(self.blocks.kernel_matrix(), order="C")
        K += self.kernel.intercept_variance
        return K

    # ---- how systems are solved ----------------------------------------------------------------

    def costs(self, n_outputs: int) -> tuple[float, float] | None:
        """Return None: any other way to solve would bring the matrix here."""
        return None

    def prefers_factor(self, n_outputs: int) -> bool:
        """Say whether a factor is the better way to solve for so many right-hand sides."""
        return self.n_rows <= _MAX_STORED_ROWS and super().prefers_factor(n_outputs)

    def preconditioner(
        self, name: PreconditionerName, s: float, row_scale: Array | None
    ) -> AnyPreconditioner:
        """Return what is nearly the inverse of `K + s I`, in the scale of rows."""
        name = name_of(name, self.X.shape[1])
        if name is None:
            return Identity()
        if name == "knots":
            projection = DistributedProjection(self.rows, n_knots_of(self.X.shape), self.n_jobs)
            of_rows = cast(_histrs.KnotProjection, projection)
            return Knots.of_projection(of_rows, s, self.n_threads, row_scale)
        rank = rank_of(self.row_sums, s, row_scale)
        columns = self.blocks.columns_of_kernel
        return Landmarks(columns, self.row_sums, s, rank, self.n_threads, row_scale)

    # ---- any rows ------------------------------------------------------------------------------

    def prior(self, T: Any) -> Array:
        """Return `k(x, x)` of rows."""
        if is_dask(T):
            # What a scheduler of this process gives may not be written to.
            sums = np.array(T.astype(np.float64).sum(axis=1).compute())
        else:
            sums = _histrs.row_sums(to_core(T), self.n_threads)
        return sums + self.kernel.intercept_variance

    def gram(self, T: Any) -> Array:
        """Return `K(T, T)`: of all pairs of rows, there are few."""
        rows = in_memory(T).astype(np.float64)
        K = _histrs.intersection_gram(to_core(rows), None, self.n_threads)
        K += self.kernel.intercept_variance
        return K

    def cross(self, T: Matrix) -> Array:
        """Return `K(X_train, T)`."""
        K: Array = self.blocks.cross_kernel(T) + self.kernel.intercept_variance
        return K

    def columns_of_matrix(self, rows: Indices) -> Array:
        """Return some columns of `K`."""
        K: Array = self.blocks.columns_of_kernel(rows).T + self.kernel.intercept_variance
        return K

    def cross_product(self, T: Matrix, V: Array) -> Array:
        """Return `K(T, X_train) V`."""
        product = DistributedScore(self.blocks, V).evaluate(T, self.n_threads)
        return self._with_intercepts(product, V)

    def score(self, V: Array, n_bins: int | None, interpolation: Interpolation) -> Score:
        """Return `K(X, X_train) V` for any rows; with bins, from tables."""
        score = DistributedScore(self.blocks, V, n_bins, interpolation)
        if self.kernel.intercept_variance == 0.0:
            return score
        return ScoreWithIntercept(score, self.intercepts(V))


def sorted_columns(X: Any, n_jobs: int | None) -> _histrs.SortedColumns:
    """Return the columns of a dask array, which have the methods of the core's."""
    return cast(_histrs.SortedColumns, DistributedColumns(X, n_jobs))
