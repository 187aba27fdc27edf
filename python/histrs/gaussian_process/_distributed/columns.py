"""The sorted columns of a dask array, block by block on the workers that it is computed on."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from histrs import _histrs
from histrs._distributed.cluster import computed, delayed_call, kept, lazy, placed, total
from histrs._distributed.rows import Part, as_rows, count_task_threads, is_dask
from histrs._solvers.preconditioners import Indices
from histrs._typing import Array, Matrix
from histrs.gaussian_process._bound.scores import ExactScore, Score, TabulatedScore
from histrs.gaussian_process._distributed.arrays import weighted_rows
from histrs.gaussian_process._options import Interpolation

# Bytes of rows that are sent to the workers at once.
_SENT_BYTES = 1 << 26


class OnWorker:
    """What a worker keeps: it has the methods of `core`, on the threads of a task."""

    core: Any
    n_jobs: int | None

    @property
    def n_threads(self) -> int:
        """Threads of a task."""
        return count_task_threads(self.n_jobs)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name in ("core", "n_jobs"):
            raise AttributeError(name)
        method = getattr(self.core, name)
        return lambda *arguments: method(*arguments, self.n_threads)


class ColumnBlock(OnWorker):
    """Some columns of the training rows, weighted and sorted.

    It is pickled as its rows, and sorted again where it arrives.
    """

    def __init__(self, rows: NDArray[Any], weights: Array | None, n_jobs: int | None) -> None:
        self._weights, self.n_jobs = weights, n_jobs
        self._rows = np.ascontiguousarray(rows)
        self.core = _histrs.SortedColumns(self._rows, self.n_threads)
        if weights is not None:
            identity = _histrs.Transform("identity", 1.0)
            self.core = self.core.transformed(identity, weights, self.n_threads)

    @classmethod
    def of(cls, rows: Any, weights: Array | None, n_jobs: int | None, part: Part) -> ColumnBlock:
        """Return the block of rows that are to be checked."""
        with part.naming_indices():
            return cls(as_rows(rows), weights, n_jobs)

    def __reduce__(self) -> tuple[Any, ...]:
        return ColumnBlock, (self._rows, self._weights, self.n_jobs)

    def __sizeof__(self) -> int:
        return int(self._rows.nbytes + self.core.n_bytes)

    def without(self, removed: Indices) -> ColumnBlock:
        """Return the block of the other rows."""
        block = object.__new__(ColumnBlock)
        block._weights, block.n_jobs = self._weights, self.n_jobs
        block._rows = np.delete(self._rows, removed, axis=0)
        block.core = self.core.remove(removed, self.n_threads)
        return block

    def n_knots(self) -> int:
        """Return how many numbers hold the functions of one output."""
        return int(self.core.n_knots)

    def cross_kernel(self, X: Any) -> Array:
        """Return its part of the kernel of training rows with others, which are weighted."""
        return self._gram(self.weighted(), as_rows(X))

    def columns_of_kernel(self, rows: Indices) -> Array:
        """Return its part of the kernel of some training rows with all, transposed."""
        weighted = self.weighted()
        return self._gram(np.ascontiguousarray(weighted[rows]), weighted)

    def kernel_matrix(self) -> Array:
        """Return its part of the kernel matrix."""
        return self._gram(self.weighted(), None)

    def weighted(self) -> Array:
        """Return its rows as the kernel takes minima of them."""
        return weighted_rows(self._rows, self._weights)

    def _gram(self, left: Array, right: Array | None) -> Array:
        return np.asarray(_histrs.intersection_gram(left, right, self.n_threads))


class BlockScore:
    """What the columns of a block add to scores of rows; pickled without what is made of it."""

    def __init__(
        self, block: ColumnBlock, V: Array, n_bins: int | None, interpolation: Interpolation
    ) -> None:
        self._made_of = block, V, n_bins, interpolation
        self._score: Score
        if n_bins is None:
            self._score = ExactScore(block.core, V, block.n_threads)
        else:
            self._score = TabulatedScore(block.core, V, n_bins, interpolation, block.n_threads)

    def __reduce__(self) -> tuple[Any, ...]:
        return BlockScore, self._made_of

    def evaluate(self, X: Any) -> Array:
        """Return what rows, which are weighted, get from these columns."""
        return self._score.evaluate(as_rows(X), self._made_of[0].n_threads)

    def error_bound(self) -> Array:
        """Return what none of it is off by more than."""
        return self._score.error_bound()


def spreads_of(rows: Any, n_jobs: int | None, part: Part) -> Array:
    """Return the spread of each column, without keeping what is sorted for it."""
    return np.asarray(ColumnBlock.of(rows, None, n_jobs, part).spreads())


class DistributedColumns:
    """The columns of training rows, in blocks that workers keep sorted.

    It has the methods of the core's `SortedColumns`. Each method adds up the blocks, or puts them
    side by side. Numbers for each row or column come here, and entries never. Blocks are those of
    the columns of the array where it is chunked by columns; an array that is chunked by rows alone
    has as many blocks as chunks. They are read from `X`, unless `delayed` returns them.
    """

    def __init__(
        self,
        X: Any,
        n_jobs: int | None,
        weights: Array | None = None,
        delayed: Callable[[], list[Any]] | None = None,
    ) -> None:
        self._rows, self._n_jobs, self._weights = X, n_jobs, weights
        self._edges = edges_of(X)
        self._widths = tuple(b - a for a, b in pairwise(self._edges))
        self._delayed = self._read if delayed is None else delayed
        self._blocks: list[Any] | None = None

    @property
    def n_rows(self) -> int:
        """Number of training rows."""
        return int(self._rows.shape[0])

    @property
    def n_columns(self) -> int:
        """Number of features."""
        return int(self._rows.shape[1])

    @property
    def n_knots(self) -> int:
        """How many numbers hold the functions of one output."""
        return int(self._sum("n_knots"))

    @property
    def blocks(self) -> list[Any]:
        """The blocks, which stay on the workers as long as this is there."""
        if self._blocks is None:
            self._blocks = kept(self._delayed())
        return self._blocks

    def _read(self) -> list[Any]:
        """Return the blocks, read and sorted."""
        make = lazy(ColumnBlock.of)
        weights = self._weights
        return [
            make(part, None if weights is None else weights[a:b], self._n_jobs, Part(0, a))
            for part, (a, b) in zip(self._of_blocks(self._rows), pairwise(self._edges), strict=True)
        ]

    def transformed(
        self, transform: Any, weights: Array | None, n_threads: int
    ) -> DistributedColumns:
        """Return the columns times these weights, read anew; there is no other transform."""
        return DistributedColumns(self._rows, self._n_jobs, weights)

    def remove(self, rows: Indices, n_threads: int) -> DistributedColumns:
        """Return the columns of the other rows, from the blocks that there are."""
        left_over = np.delete(np.arange(self.n_rows), rows)

        def delayed() -> list[Any]:
            return [delayed_call(block, "without", rows) for block in self.blocks]

        return DistributedColumns(self._rows[left_over], self._n_jobs, self._weights, delayed)

    def spreads(self, n_threads: int) -> Array:
        """Return the spread of each column."""
        if self._blocks is not None or self._weights is not None:
            return np.concatenate(self._each("spreads"))
        spread = lazy(spreads_of)
        parts = zip(self._of_blocks(self._rows), self._edges[:-1], strict=True)
        found = computed([spread(part, self._n_jobs, Part(0, start)) for part, start in parts])
        return np.concatenate(found)

    def inverse_spreads(self, n_threads: int) -> Array:
        """Return 1 over the spread of each column, as the core does."""
        spreads = self.spreads(n_threads)
        spreads[spreads == 0.0] = 1.0
        return np.asarray(1.0 / np.maximum(spreads, np.finfo(np.float64).tiny))

    def row_sums(self, n_threads: int) -> Array:
        """Return the kernel of each row with itself."""
        return np.asarray(self._sum("row_sums"))

    def product(self, V: Array, n_threads: int) -> Array:
        """Return `K V`."""
        return np.asarray(self._sum("product", V))

    def product_f32(self, V: Array, n_threads: int) -> Array:
        """Return nearly `K V`, summed in single precision."""
        return np.asarray(self._sum("product_f32", V))

    def quadratic_forms(self, V: Array, n_threads: int) -> Array:
        """Return the quadratic forms of each column's part of the kernel, a row each."""
        return np.vstack(self._each("quadratic_forms", V))

    def columns_of_kernel(self, rows: Indices) -> Array:
        """Return some columns of the kernel matrix, transposed."""
        return np.asarray(self._sum("columns_of_kernel", rows))

    def kernel_matrix(self) -> Array:
        """Return the kernel matrix."""
        return np.asarray(self._sum("kernel_matrix"))

    def cross_kernel(self, X: Matrix) -> Array:
        """Return the kernel of training rows with weighted rows, which are few."""
        pairs = zip(self.blocks, self._of_blocks(X), strict=True)
        parts = [delayed_call(block, "cross_kernel", rows) for block, rows in pairs]
        return np.asarray(computed(total(parts)))

    def split(self, X: Matrix) -> list[NDArray[Any]]:
        """Return the columns of rows for each block."""
        rows = X.toarray() if sparse.issparse(X) else X
        return [np.ascontiguousarray(rows[:, a:b]) for a, b in pairwise(self._edges)]

    def _of_blocks(self, X: Any) -> list[Any]:
        """Return the same, also of rows of dask."""
        if not is_dask(X):
            return self.split(X)
        # Shuffles that know of one another would start anew with every worker that is lost.
        return list(X.rechunk({0: -1, 1: self._widths}, method="tasks").to_delayed().ravel())

    def partitions_of(self, X: Any) -> list[list[Any]]:
        """Return the same for each partition of the rows."""
        rows = X.rechunk({1: self._widths}, method="tasks").to_delayed()
        return [list(row) for row in rows]

    def _sum(self, name: str, *arrays: Any) -> Any:
        return computed(total(self._calls(name, *arrays)))

    def _each(self, name: str, *arrays: Any) -> list[Any]:
        found: list[Any] = computed(self._calls(name, *arrays))
        return found

    def _calls(self, name: str, *arrays: Any) -> list[Any]:
        arguments = [placed(array) for array in arrays]
        return [delayed_call(block, name, *arguments) for block in self.blocks]


class DistributedScore(Score):
    """`K(X, X_train) V` for any rows, from what workers make of `V` for their columns."""

    def __init__(
        self,
        columns: DistributedColumns,
        V: Array,
        n_bins: int | None = None,
        interpolation: Interpolation = "linear",
    ) -> None:
        self._columns, self._made_of = columns, (V, n_bins, interpolation)
        self._parts: list[Any] | None = None

    def evaluate(self, X: Any, n_threads: int) -> Array:
        """Return the scores of every row, which are weighted, of shape (n_samples, n_outputs).

        Rows of dask stay on the cluster; others are sent there some at a time.
        """
        if is_dask(X):
            partitions = self._columns.partitions_of(X)
            return np.vstack(computed([self._scores(rows) for rows in partitions]))
        n, size = X.shape[0], max(1, _SENT_BYTES // max(1, 8 * X.shape[1]))
        starts = range(0, max(n, 1), size)
        parts = (self._columns.split(X[start : start + size]) for start in starts)
        return np.vstack([computed(self._scores(rows)) for rows in parts])

    def error_bound(self) -> Array:
        return np.asarray(
            computed(total([delayed_call(part, "error_bound") for part in self._kept()]))
        )

    def _scores(self, rows: list[Any]) -> Any:
        """Return the delayed scores of rows, given for each block."""
        pairs = zip(self._kept(), rows, strict=True)
        return total([delayed_call(part, "evaluate", of_part) for part, of_part in pairs])

    def _kept(self) -> list[Any]:
        """Return what workers keep of each block."""
        if self._parts is None:
            V, n_bins, interpolation = self._made_of
            of_all, make = (placed(V), n_bins, interpolation), lazy(BlockScore)
            self._parts = kept([make(block, *of_all) for block in self._columns.blocks])
        return self._parts


def edges_of(X: Any) -> list[int]:
    """Return where the blocks of columns begin, and where the last one ends."""
    n_columns = int(X.shape[1])
    if X.numblocks[1] > 1:
        return [0, *np.cumsum(X.chunks[1]).tolist()]
    n_blocks = max(1, min(n_columns, X.numblocks[0]))
    return [n_columns * k // n_blocks for k in range(n_blocks + 1)]
