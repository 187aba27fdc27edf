"""The linear system of a stored kernel matrix."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from scipy import linalg

from histrs._memory import most_stored_rows, physical_memory
from histrs._solvers.block_cg import Array, Solution
from histrs._solvers.cholesky import CholeskyFactor
from histrs._solvers.preconditioners import Indices
from histrs._solvers.row_scale import scale_both_sides, scaled
from histrs.gaussian_process._hyperparameters import Scales
from histrs.gaussian_process._kernels.base import Kernel
from histrs.gaussian_process._row_weights import appended

# Part of the memory that matrices of all pairs of rows may take.
_MEMORY_SHARE = 0.75
# Entries of the kernel between training rows and others that are made at a time.
_ENTRIES = 1 << 20
# Removing a larger part of the rows from a factor takes longer than factorising again.
_MAX_REMOVED = 0.2


def check_memory(n_rows: int, n_matrices: int) -> None:
    """Fail before matrices of all pairs of rows are made that the machine cannot hold.

    Raises
    ------
    MemoryError
        With the sizes, and what to do.
    """
    needed, there = 8.0 * n_matrices * n_rows**2, physical_memory()
    if needed > _MEMORY_SHARE * there:
        most = int((_MEMORY_SHARE * there / (8.0 * n_matrices)) ** 0.5)
        raise MemoryError(
            f"{n_rows} rows take {needed / 1e9:.1f} GB: {n_matrices} matrices of all pairs of rows "
            f"in double precision, on a machine of {there / 1e9:.1f} GB. Fit at most {most} rows."
        )


def check_stored_memory(n_rows: int) -> None:
    """Fail before sums of all pairs of rows are kept that the machine cannot hold.

    Raises
    ------
    MemoryError
        With the sizes, and what to do.
    """
    most = most_stored_rows(_MEMORY_SHARE)
    if n_rows > most:
        needed, there = float(n_rows) ** 2, physical_memory()
        raise MemoryError(
            f"{n_rows} rows take {needed / 1e9:.1f} GB: two bytes for every pair of rows, on a "
            f"machine of {there / 1e9:.1f} GB. Fit at most {most} rows, or the additive model, "
            "IntersectionGPRegressor, whose memory is linear in the entries."
        )


@dataclass(frozen=True)
class DenseSystem:
    """The matrix `K + s I` of the training rows, `K` without amplitude, by its factor.

    Where rows have a `row_scale`, `K` is multiplied by it from both sides.
    """

    X: Any
    noise: float
    amplitude: float
    kernel: Kernel
    n_threads: int
    known_parts: Any = None
    """What the kernel matrix is made of, where that is at hand."""
    row_scale: Array | None = None
    """Roots of the weights of rows; None for 1."""

    @property
    def s(self) -> float:
        """What is added to the diagonal of `K`."""
        return self.noise / self.amplitude

    @cached_property
    def parts(self) -> Any:
        """What the kernel matrix is made of."""
        if self.known_parts is not None:
            return self.known_parts
        return self.kernel.parts(self.X, None, self.n_threads)

    @cached_property
    def matrix(self) -> Array:
        """The kernel matrix `K`, kept."""
        return self._made_matrix()

    def kernel_matrix(self) -> Array:
        """Return `K`, as an array that may be overwritten."""
        return self.matrix.copy() if "matrix" in vars(self) else self._made_matrix()

    def _made_matrix(self) -> Array:
        K = self.kernel.matrix(self.parts)
        scale_both_sides(self.row_scale, K)
        return K

    def product(self, V: Array) -> Array:
        """Return `K V`."""
        product: Array = self.matrix @ V
        return product

    @cached_property
    def factor(self) -> CholeskyFactor:
        """Lower Cholesky factor of `K + s I`."""
        return self._factorised()

    def _factorised(self) -> CholeskyFactor:
        Scales(self.noise, self.amplitude).check()
        cure = "Raise noise or lower amplitude."
        return CholeskyFactor.with_noise(self.kernel_matrix(), self.s, cure)

    def factorised(self) -> Self:
        """Return the system with its factor alone: without the matrix and its parts."""
        return replace(self, known_parts=None)._with(self.factor)

    def _with(self, factor: CholeskyFactor) -> Self:
        vars(self)["factor"] = factor
        return self

    def solve_targets(self, Y: Array, weights: Array | None = None) -> Solution:
        """Solve for the weights of the training rows with which targets `Y` are predicted.

        The factor needs no `weights` to start from.
        """
        n_outputs = Y.shape[1]
        Y = np.ascontiguousarray(scaled(self.row_scale, Y))
        found = scaled(self.row_scale, self.factor.solve(Y))
        return Solution(found, np.zeros(n_outputs), np.ones(n_outputs, dtype=np.intp))

    # ---- online updates ----------------------------------------------------------------------

    def insert(self, X: Any, B: Array, C: Array, row_scale: Array | None = None) -> Self:
        """Return the system with further rows behind its own.

        Parameters
        ----------
        X : rows
            All of them.
        B, C : ndarray of shape (n_new, n_rows), (n_new, n_new)
            The kernel of the new rows with those before, and with one another.
        row_scale : ndarray of shape (n_new,), default=None
            Roots of the weights of the new rows; None for 1.
        """
        if self.row_scale is not None and row_scale is None:
            row_scale = np.ones(len(C))
        every = appended(self.row_scale, self.X.shape[0], row_scale)
        grown = self._of_rows(X, every)
        if row_scale is not None:
            B = row_scale[:, None] * (B if self.row_scale is None else B * self.row_scale)
            C = row_scale[:, None] * C * row_scale
        if "factor" not in vars(self):
            return grown
        try:
            return grown._with(self.factor.insert(B, C + self.s * np.eye(len(C))))
        except linalg.LinAlgError:
            # Factorising again finds out why.
            return grown

    def remove(self, X: Any, kept: Indices, removed: Indices) -> Self:
        """Return the system without some of its rows, `X` being those that are kept."""
        row_scale = None if self.row_scale is None else self.row_scale[kept]
        shrunk = self._of_rows(X, row_scale)
        if "factor" not in vars(self) or len(removed) > _MAX_REMOVED * len(kept):
            return shrunk
        return shrunk._with(self.factor.remove(kept, removed))

    def _of_rows(self, X: Any, row_scale: Array | None) -> Self:
        """Return the system of other rows."""
        return replace(self, X=X, known_parts=None, row_scale=row_scale)

    # ---- other rows --------------------------------------------------------------------------

    def blocks(self, X: Any, n_threads: int | None = None) -> Iterator[tuple[slice, Array]]:
        """Yield the kernel of some rows of `X` at a time with the training rows, and which."""
        n_threads = self.n_threads if n_threads is None else n_threads
        # As many entries of the kernel as of rows, which may be converted.
        size = max(1, _ENTRIES // max(*self.X.shape, 1))
        for start in range(0, X.shape[0], size):
            rows = slice(start, min(start + size, X.shape[0]))
            yield rows, self.kernel.between(X[rows], self.X, n_threads)

    def latent_variance(self, X: Any) -> Array:
        """Return `k(x, x) - k_x^T (K + s I)^-1 k_x` of every row."""
        variance = self.kernel.diagonal(X, self.n_threads)
        for rows, k in self.blocks(X):
            half = self.factor.solve_lower(scaled(self.row_scale, k.T))
            variance[rows] -= np.einsum("ij,ij->j", half, half)
        return np.maximum(variance, 0.0)

    def latent_covariance(self, X: Any) -> Array:
        """Return `k(X, X) - k_X^T (K + s I)^-1 k_X` of all pairs of rows."""
        covariance = self.kernel.between(X, None, self.n_threads)
        scale = self.row_scale
        half = np.hstack([self.factor.solve_lower(scaled(scale, k.T)) for _, k in self.blocks(X)])
        covariance -= half.T @ half
        return 0.5 * (covariance + covariance.T)
