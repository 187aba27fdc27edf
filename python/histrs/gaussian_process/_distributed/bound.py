"""An additive kernel on rows whose columns lie on the workers of a cluster."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from histrs import _histrs
from histrs._distributed.cluster import computed, delayed_call, kept, lazy, placed, total
from histrs._distributed.rows import as_rows, in_memory, is_dask, rows_of_blocks
from histrs._solvers.knots import Knots
from histrs._solvers.low_rank import Landmarks
from histrs._solvers.preconditioners import Identity, Indices
from histrs._typing import Array, Matrix
from histrs.gaussian_process._bound.additive import MinimaBound
from histrs.gaussian_process._bound.preconditioners import n_knots_of, name_of, rank_of
from histrs.gaussian_process._bound.scores import Score
from histrs.gaussian_process._distributed.columns import (
    DistributedColumns,
    DistributedScore,
    OnWorker,
)
from histrs.gaussian_process._options import Interpolation, PreconditionerName

# Rows whose quantiles are knots.
_SAMPLE_ROWS = 4096
# Rows up to which the matrix is stored here unless the solver is given. It takes 46 MB, and has as
# many rows as the likelihood of several classes takes by default.
_MAX_STORED_ROWS = 2400


class RowProjection(OnWorker):
    """Some rows, weighted, projected on the knots of a sample; pickled as the rows."""

    def __init__(self, rows: Any, sample: Array, n_knots: int, n_jobs: int | None) -> None:
        self._rows, self._others, self.n_jobs = as_rows(rows), (sample, n_knots, n_jobs), n_jobs
        base = _projection_of(sample, n_knots, self.n_threads)
        columns = _histrs.SortedColumns(self._rows, self.n_threads)
        self.core = base.of_rows(columns, self.n_threads)

    def __reduce__(self) -> tuple[Any, ...]:
        return RowProjection, (self._rows, *self._others)

    def __sizeof__(self) -> int:
        """Return the bytes that a worker needs: an index and a number per value, and rows."""
        return int(self._rows.nbytes + 12 * self._rows.size)

    def select(self, rows: Indices) -> RowProjection:
        """Return some of the rows."""
        part = object.__new__(RowProjection)
        part._others, part.n_jobs, part._rows = self._others, self.n_jobs, self._rows[rows]
        part.core = self.core.select(rows, self.n_threads)
        return part


class DistributedProjection:
    """The rows of a dask array, projected on knots; it has the methods of `KnotProjection`.

    Knots are quantiles of a few rows, which come here. Each partition of the rows is projected by a
    worker, which gets its part of vectors alone.
    """

    _base: _histrs.KnotProjection

    def __init__(self, X: Any, n_knots: int, n_jobs: int | None) -> None:
        n_rows = int(X.shape[0])
        rng = np.random.default_rng(0)
        chosen = np.sort(rng.choice(n_rows, min(n_rows, _SAMPLE_ROWS), replace=False))
        sample = np.ascontiguousarray(X[chosen].compute(), dtype=np.float64)
        self._base = _projection_of(sample, n_knots, 1)
        if X.numblocks[0] > 1:
            sizes = X.chunks[0]
        else:
            n_parts = max(1, min(n_rows, X.numblocks[1]))
            sizes = np.diff([n_rows * k // n_parts for k in range(n_parts + 1)]).tolist()
        self._edges = [0, *np.cumsum(sizes).tolist()]

        def delayed() -> list[Any]:
            rows = X.rechunk({0: tuple(sizes), 1: -1}, method="tasks").to_delayed().ravel()
            make = lazy(RowProjection)
            of_workers = placed(sample)
            return [make(part, of_workers, n_knots, n_jobs) for part in rows]

        self._delayed: Callable[[], list[Any]] = delayed
        self._kept: list[Any] | None = None

    @property
    def _parts(self) -> list[Any]:
        if self._kept is None:
            self._kept = kept(self._delayed())
        return self._kept

    def _summed(self, name: str, V: NDArray[Any] | None = None) -> Array:
        """Return the sum of what parts make of their rows of `V`."""
        arguments: list[Any] = [()] * len(self._parts)
        if V is not None:
            arguments = [(np.ascontiguousarray(V[a:b]),) for a, b in pairwise(self._edges)]
        pairs = zip(self._parts, arguments, strict=True)
        # What a scheduler of this process still holds is left alone.
        return np.array(computed(total([delayed_call(part, name, *v) for part, v in pairs])))

    def inverse_kernel(self) -> tuple[Array, Array]:
        """Return the diagonal of the inverse kernel of the knots, and what is above it."""
        return self._base.inverse_kernel()

    def gram(self, n_threads: int) -> Array:
        """Return `Phi^T Phi`."""
        return self._summed("gram")

    def weighted_gram(self, weights: Array, n_threads: int) -> Array:
        """Return `Phi^T W Phi`."""
        return self._summed("weighted_gram", weights)

    def project(self, V: Array, n_threads: int) -> Array:
        """Return `Phi^T V`."""
        return self._summed("project", V)

    def expand(self, W: Array, n_threads: int) -> Array:
        """Return `Phi W`."""
        of_all = placed(W)
        return np.vstack(computed([delayed_call(part, "expand", of_all) for part in self._parts]))

    def select(self, rows: Indices, n_threads: int) -> DistributedProjection:
        """Return some of the rows, which are in ascending order."""
        some, edges = rows_of_blocks(rows, self._edges)
        selected = object.__new__(DistributedProjection)
        selected._base, selected._kept, selected._edges = self._base, None, edges
        selected._delayed = lambda: [
            delayed_call(self._parts[k], "select", local.astype(np.int64)) for k, local in some
        ]
        return selected


def _projection_of(sample: Array, n_knots: int, n_threads: int) -> _histrs.KnotProjection:
    columns = _histrs.SortedColumns(sample, n_threads)
    return _histrs.KnotProjection(columns, n_knots, n_threads)


@dataclass(frozen=True, kw_only=True)
class DistributedBound(MinimaBound):
    """The kernel of a dask array: `K V` is a sum over blocks of columns, each on a worker.

    Vectors with a number for each row are here, and the blocks there.
    """

    n_jobs: int | None = None

    @property
    def has_single_product(self) -> bool:  # type: ignore[override]
        return False

    @property
    def has_nearby_rows(self) -> bool:  # type: ignore[override]
        return False

    def _sorted(self) -> _histrs.SortedColumns:
        return sorted_columns(self.X, self.n_jobs)

    @property
    def blocks(self) -> DistributedColumns:
        """The columns, as what they are."""
        return cast(DistributedColumns, self.columns)

    def matrix(self) -> Array:
        # Sums may be what a scheduler of this process still holds.
        K = np.array(self.blocks.kernel_matrix(), order="C")
        K += self.kernel.intercept_variance
        return K

    def costs(self, n_outputs: int) -> tuple[float, float] | None:
        """Return None: any other way to solve would bring the matrix here."""
        return None

    def prefers_factor(self, n_outputs: int) -> bool:
        return self.n_rows <= _MAX_STORED_ROWS and super().prefers_factor(n_outputs)

    def _of_minima(self, name: PreconditionerName, s: float, row_scale: Array | None) -> Any:
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

    def _additive_prior(self, T: Any) -> Array:
        if is_dask(T):
            # What a scheduler of this process gives may not be written to.
            return np.array(T.astype(np.float64).sum(axis=1).compute())
        return super()._additive_prior(T)

    def gram(self, T: Any) -> Array:
        """Return `K(T, T)`: of all pairs of rows, there are few."""
        return super().gram(in_memory(T))

    def _additive_cross(self, T: Matrix) -> Array:
        return np.array(self.blocks.cross_kernel(T))

    def columns_of_matrix(self, rows: Indices) -> Array:
        return np.asarray(self.blocks.columns_of_kernel(rows).T + self.kernel.intercept_variance)

    def cross_product(self, T: Matrix, V: Array) -> Array:
        product = DistributedScore(self.blocks, V).evaluate(T, self.n_threads)
        return self._with_intercepts(product, V)

    def _score_of_minima(self, V: Array, n_bins: int | None, interpolation: Interpolation) -> Score:
        return DistributedScore(self.blocks, V, n_bins, interpolation)


def sorted_columns(X: Any, n_jobs: int | None) -> _histrs.SortedColumns:
    """Return the columns of a dask array, which have the methods of the core's."""
    return cast(_histrs.SortedColumns, DistributedColumns(X, n_jobs))
