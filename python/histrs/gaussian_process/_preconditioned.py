"""The matrix of a Gaussian process' linear system, and what is nearly its inverse."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np

from histrs._solvers.block_cg import Array
from histrs._solvers.knots import Knots
from histrs._solvers.low_rank import (
    Landmarks,
    LowRank,
    PivotedCholesky,
    precision_of_factor,
    survives_single_precision,
)
from histrs._solvers.preconditioners import Identity, Preconditioner
from histrs.gaussian_process._interactions.preconditioner import WithPairs
from histrs.gaussian_process._kernel_matrix import KernelMatrix
from histrs.gaussian_process._smooth.term import SmoothTerm

PreconditionerName: TypeAlias = Literal["auto", "knots", "pivoted-cholesky"] | None

# Preconditioning with knots factorises a matrix of all knots of all columns. With as many as the
# root of the number of rows asks for, the iterations do not grow with it.
_KNOTS_PER_ROOT_OF_ROWS = 6.5
_MAX_KNOTS = 6144
_MIN_KNOTS_PER_COLUMN = 8
_MAX_KNOTS_PER_COLUMN = 255
# More columns have so few knots each that a low-rank preconditioner does better.
_MAX_KNOT_COLUMNS = 256
MAX_RANK = 512
# Bytes of its factor at most, and the rank that it always may have: a lower one makes more
# iterations, each cheaper, in as much time.
_FACTOR_BYTES = 1 << 30
_MIN_RANK = 64

# The trace of the kernel matrix, times which the preconditioner counts as noise at least.
LEAST_NOISE = 1e-12


@dataclass(frozen=True, kw_only=True)
class PreconditionedMatrix(KernelMatrix):
    """The matrix `K + s I`; `s` is the noise variance divided by the amplitude."""

    noise: float
    amplitude: float
    preconditioner_name: PreconditionerName
    n_changed: int = 0
    """Rows that were added or removed since the preconditioner was made."""

    @property
    def s(self) -> float:
        """What is added to the diagonal of `K`."""
        return self.noise / self.amplitude

    def multiply(self, V: Array) -> Array:
        """Return `(K + s I) V`."""
        product = self.product(V)
        product += self.s * V
        return product

    def multiply_cheaply(self, V: Array) -> Array:
        """Return nearly `(K + s I) V`: sums in single precision."""
        product = self.product_f32(V)
        product += self.s * V
        return product

    @property
    def survives_single_precision(self) -> bool:
        """Whether products in single precision neither drown the noise nor leave the range."""
        if self.smooth is not None:
            return False
        trace = self.diagonal.sum()
        return survives_single_precision(trace, self.s) and self.s > 1e-15 and trace < 1e15

    @cached_property
    def preconditioner(self) -> Preconditioner | LowRank | Landmarks:
        """The preconditioner that was asked for, or that suits the shape of the data."""
        if self.smooth is not None and self.preconditioner_name is not None:
            return self._low_rank(self.smooth)
        additive = self._additive_preconditioner()
        if self.pairs is None or self.preconditioner_name is None:
            return additive
        return WithPairs.of(additive, self.pairs, self.kernel.weights, self.row_scale)

    @property
    def _noise_of_preconditioner(self) -> float:
        # With less, the inverse would be lost in rounding.
        return max(self.s, LEAST_NOISE * float(self.diagonal.sum()))

    @property
    def _rank(self) -> int:
        n_rows = self.X.shape[0]
        dtype: type[np.floating[Any]] = np.float64
        if self.smooth is None:
            s = self._noise_of_preconditioner
            dtype, _ = precision_of_factor(self.row_sums, s, self.row_scale)
        fits = max(_MIN_RANK, _FACTOR_BYTES // (np.dtype(dtype).itemsize * max(n_rows, 1)))
        return int(min(MAX_RANK, fits, max(1, n_rows // 8)))

    def _low_rank(self, smooth: SmoothTerm) -> LowRank:
        """Return some columns' approximation; smooth functions leave little beside it."""
        T = smooth.rows.T
        return LowRank(
            lambda rows: smooth.cross(T[rows]).T,
            smooth.diagonal,
            self._noise_of_preconditioner,
            self._rank,
            self.n_threads,
            self.row_scale,
        )

    @property
    def _name_of_preconditioner(self) -> PreconditionerName:
        """The preconditioner, chosen by the number of columns if it is to be."""
        if self.preconditioner_name != "auto":
            return self.preconditioner_name
        return "knots" if self.X.shape[1] <= _MAX_KNOT_COLUMNS else "pivoted-cholesky"

    @property
    def _n_knots(self) -> int:
        """Knots of a column."""
        n_rows, n_columns = self.X.shape
        wanted = min(_KNOTS_PER_ROOT_OF_ROWS * n_rows**0.5, _MAX_KNOTS) / max(n_columns, 1)
        return int(np.clip(wanted, _MIN_KNOTS_PER_COLUMN, _MAX_KNOTS_PER_COLUMN))

    def _additive_preconditioner(self) -> Preconditioner:
        s = self._noise_of_preconditioner
        name = self._name_of_preconditioner
        if name == "knots":
            return Knots(self.columns, s, self._n_knots, self.n_threads, self.row_scale)
        if name == "pivoted-cholesky":
            return PivotedCholesky(
                self.rows, self.row_sums, s, self._rank, self.n_threads, self.row_scale
            )
        return Identity()
