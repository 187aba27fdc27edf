"""Some columns of all training rows, as a worker keeps them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from histrs import _histrs
from histrs._distributed.rows import Part, as_rows, count_task_threads
from histrs._solvers.preconditioners import Indices
from histrs._typing import Array
from histrs.gaussian_process._bound.scores import ExactScore, Score, TabulatedScore
from histrs.gaussian_process._distributed.weights import weighted_rows
from histrs.gaussian_process._options import Interpolation


class ColumnBlock:
    """Some columns of the training rows, weighted and sorted.

    It is pickled as its rows, and sorted again where it arrives.
    """

    def __init__(self, rows: NDArray[Any], weights: Array | None, n_jobs: int | None) -> None:
        self._weights, self._n_jobs = weights, n_jobs
        self._rows = np.ascontiguousarray(rows)
        self.columns = _weighted(
            _histrs.SortedColumns(self._rows, self.n_threads), weights, self.n_threads
        )

    @classmethod
    def of(cls, rows: Any, weights: Array | None, n_jobs: int | None, part: Part) -> ColumnBlock:
        """Return the block of rows that are to be checked."""
        with part.naming_indices():
            return cls(as_rows(rows), weights, n_jobs)

    def __reduce__(self) -> tuple[Any, ...]:
        """Return how it is made again."""
        return ColumnBlock, (self._rows, self._weights, self._n_jobs)

    def __sizeof__(self) -> int:
        """Return the bytes that a worker needs for it."""
        return int(self._rows.nbytes + self.columns.n_bytes)

    @property
    def n_threads(self) -> int:
        """Threads of a task."""
        return count_task_threads(self._n_jobs)

    def without(self, removed: Indices) -> ColumnBlock:
        """Return the block of the other rows."""
        block = object.__new__(ColumnBlock)
        block._weights, block._n_jobs = self._weights, self._n_jobs
        block._rows = np.delete(self._rows, removed, axis=0)
        block.columns = self.columns.remove(removed, self.n_threads)
        return block

    def product(self, V: Array) -> Array:
        """Return the product of its part of the kernel matrix."""
        return self.columns.product(V, self.n_threads)

    def product_f32(self, V: Array) -> Array:
        """Return nearly the same, summed in single precision."""
        return self.columns.product_f32(V, self.n_threads)

    def row_sums(self) -> Array:
        """Return its part of the kernel of each row with itself."""
        return self.columns.row_sums(self.n_threads)

    def quadratic_forms(self, V: Array) -> Array:
        """Return the quadratic forms of each column, a row each."""
        return self.columns.quadratic_forms(V, self.n_threads)

    def spreads(self) -> Array:
        """Return the spread of each column."""
        return self.columns.spreads(self.n_threads)

    def n_knots(self) -> int:
        """Return how many numbers hold the functions of one output."""
        return self.columns.n_knots

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
        self,
        block: ColumnBlock,
        V: Array,
        n_bins: int | None,
        interpolation: Interpolation,
    ) -> None:
        self._made_of = block, V, n_bins, interpolation
        self._score: Score
        if n_bins is None:
            self._score = ExactScore(block.columns, V, block.n_threads)
        else:
            self._score = TabulatedScore(block.columns, V, n_bins, interpolation, block.n_threads)

    def __reduce__(self) -> tuple[Any, ...]:
        """Return how it is made again."""
        return BlockScore, self._made_of

    def evaluate(self, X: Any) -> Array:
        """Return what rows, which are weighted, get from these columns."""
        return self._score.evaluate(as_rows(X), self._made_of[0].n_threads)

    def error_bound(self) -> Array:
        """Return what none of it is off by more than."""
        return self._score.error_bound()


def spreads_of(rows: Any, n_jobs: int | None, part: Part) -> Array:
    """Return the spread of each column, without keeping what is sorted for it."""
    block = ColumnBlock.of(rows, None, n_jobs, part)
    return block.spreads()


def _weighted(
    columns: _histrs.SortedColumns, weights: Array | None, n_threads: int
) -> _histrs.SortedColumns:
    if weights is None:
        return columns
    return columns.transformed(_histrs.Transform("identity", 1.0), weights, n_threads)
