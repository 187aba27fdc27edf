"""Kernels of all pairs of training rows: as a matrix, or in few bytes."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from histrs._checks.memory import most_stored_rows, physical_memory
from histrs._checks.scale import check_computed, may_overflow
from histrs._solvers.low_rank import Landmarks
from histrs._solvers.preconditioners import Indices
from histrs._typing import Array
from histrs.gaussian_process._bound.base import AnyPreconditioner, Bound
from histrs.gaussian_process._bound.scores import Score, ScoreOfDistances, ScoreOfPairs
from histrs.gaussian_process._kernels.algebra import stacked
from histrs.gaussian_process._kernels.base import Kernel
from histrs.gaussian_process._kernels.distances import DistanceMixture
from histrs.gaussian_process._options import Interpolation, PreconditionerName
from histrs.gaussian_process._state import PickledByFields

# Part of the memory that matrices of all pairs of rows may take.
_MEMORY_SHARE = 0.75
# Entries of the kernel between training rows and others that are made at a time.
_ENTRIES = 1 << 20
# Training rows that are solved for to learn how cached variances are off.
_N_SOLVED = 32


def check_memory(n_rows: int, n_matrices: int) -> None:
    """Fail before matrices of all pairs of rows are made that the machine cannot hold."""
    needed, there = 8.0 * n_matrices * n_rows**2, physical_memory()
    if needed > _MEMORY_SHARE * there:
        most = int((_MEMORY_SHARE * there / (8.0 * n_matrices)) ** 0.5)
        raise MemoryError(
            f"{n_rows} rows take {needed / 1e9:.1f} GB: {n_matrices} matrices of all pairs of rows "
            f"in double precision, on a machine of {there / 1e9:.1f} GB. Fit at most {most} rows."
        )


def check_stored_memory(n_rows: int) -> None:
    """Fail before sums of all pairs of rows are kept that the machine cannot hold."""
    most = most_stored_rows(_MEMORY_SHARE)
    if n_rows > most:
        needed, there = float(n_rows) ** 2, physical_memory()
        raise MemoryError(
            f"{n_rows} rows take {needed / 1e9:.1f} GB: two bytes for the kernel of each pair of "
            f"rows, on a machine of {there / 1e9:.1f} GB. Fit at most {most} rows, or the additive "
            "model, IntersectionGPRegressor, whose memory is linear in the entries."
        )


@dataclass(frozen=True, kw_only=True)
class AllPairs(PickledByFields, Bound):
    """A kernel with what it keeps of all pairs of its training rows."""

    kernel: Kernel

    @property
    def has_single_scores(self) -> bool:  # type: ignore[override]
        return isinstance(self.kernel, DistanceMixture)

    @cached_property
    def diagonal(self) -> Array:
        return self.kernel.diagonal(self.X, self.n_threads)

    def check(self, solver: str) -> None:
        if solver not in ("auto", "cholesky", "cg"):
            raise ValueError(
                f"solver={solver!r} needs an additive kernel, but the kernel is {self.kernel!r}: "
                'choose "auto", "cholesky" or "cg".'
            )

    def blocks(self, T: Any, n_threads: int | None = None) -> Iterator[tuple[slice, Array]]:
        """Yield the kernel of some rows at a time with the training rows, and which."""
        n_threads = self.n_threads if n_threads is None else n_threads
        # As many entries of the kernel as of rows, which may be converted.
        size = max(1, _ENTRIES // max(*self.X.shape, 1))
        for start in range(0, T.shape[0], size):
            rows = slice(start, min(start + size, T.shape[0]))
            yield rows, self.kernel.between(T[rows], self.X, n_threads)

    def prior(self, T: Any) -> Array:
        with may_overflow():
            variances = self.kernel.diagonal(T, self.n_threads)
        check_computed(variances, "Variances")
        return variances

    def gram(self, T: Any) -> Array:
        return self.kernel.between(T, None, self.n_threads)

    def cross(self, T: Any) -> Array:
        parts = [k.T for _, k in self.blocks(T)]
        return np.hstack(parts) if parts else np.empty((self.n_rows, 0))

    def columns_of_matrix(self, rows: Indices) -> Array:
        return self.kernel.between(self.X[rows], self.X, self.n_threads).T

    def cross_of(self, some: NDArray[np.intp], T: Any) -> Array:
        # Faster than the transpose, since rows that are asked for are few here, and so are all.
        return self.kernel.between(T, self.X[some], 1).T

    def cross_product(self, T: Any, V: Array) -> Array:
        return self._times(T, V, self.n_threads)

    def score(self, V: Array, n_bins: int | None, interpolation: Interpolation) -> Score:
        if isinstance(self.kernel, DistanceMixture):
            n_exact = 0 if V.dtype == np.float32 else V.shape[1]
            exact, singles = V[:, :n_exact].astype(np.float64), V[:, n_exact:].astype(np.float32)
            return ScoreOfDistances(self.kernel, self.X, exact, singles)
        return ScoreOfPairs(self._times, V)

    def _times(self, T: Any, V: Array, n_threads: int) -> Array:
        """Return the product of the kernel of rows with the training rows and `V`."""
        if isinstance(self.kernel, DistanceMixture):
            return self.kernel.cross_product(T, self.X, V, n_threads)
        product = np.empty((T.shape[0], V.shape[1]))
        for rows, k in self.blocks(T, n_threads):
            product[rows] = k @ V
        return product

    def _of_rows(self, X: Any) -> Self:
        """Return the kernel on other rows."""
        return replace(self, X=X)

    def inserted(self, X: Any, weights: Array | None) -> Self:
        return self._of_rows(stacked(self.X, X))

    def removed(self, kept: Indices, removed: Indices) -> Self:
        return self._of_rows(self.X[kept])


@dataclass(frozen=True, kw_only=True)
class MatrixBound(AllPairs):
    """A kernel whose matrix is made of parts that do not depend on its parameters."""

    known_parts: Any = None
    """What the kernel matrix is made of, where that is at hand."""

    refines: ClassVar[bool] = False

    @cached_property
    def parts(self) -> Any:
        """What the kernel matrix is made of."""
        if self.known_parts is not None:
            return self.known_parts
        return self.kernel.parts(self.X, None, self.n_threads)

    @cached_property
    def _kept(self) -> Array:
        return self.kernel.matrix(self.parts)

    def matrix(self) -> Array:
        return self._kept.copy() if "_kept" in vars(self) else self.kernel.matrix(self.parts)

    def product(self, V: Array) -> Array:
        """Return `K V`; the matrix is kept."""
        return np.asarray(self._kept @ V)

    def slopes(self, names: Collection[str], panel: Array, signs: Array) -> dict[str, Any]:
        of_entries = (panel * signs) @ panel.T
        return {
            name: float(np.vdot(self.kernel.derivative(name, self.parts), of_entries))
            for name in names
        }

    def with_kernel(self, kernel: Kernel) -> Self:
        same = type(kernel) is type(self.kernel)
        return replace(self, kernel=kernel, known_parts=self.parts if same else None)

    def lighter(self) -> Self:
        return replace(self, known_parts=None)

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields, less what is made of them."""
        return {**super().__getstate__(), "known_parts": None}

    def drop_pairs(self) -> None:
        """Forget the matrix and its parts, which are made again when they are asked for."""
        vars(self).pop("_kept", None)
        vars(self).pop("parts", None)

    def check_size(self, n_rows: int, n_systems: int) -> None:
        """Fail before there are more rows than memory holds the matrix and factors of."""
        check_memory(n_rows, n_systems + 1)

    def _of_rows(self, X: Any) -> Self:
        return replace(self, X=X, known_parts=None)


@dataclass(frozen=True, kw_only=True)
class StoredBound(AllPairs):
    """A kernel that keeps all pairs of many rows in few bytes (`Kernel.stored`)."""

    n_solved: ClassVar[int | None] = _N_SOLVED
    has_nearby_rows: ClassVar[bool] = True

    @cached_property
    def stored(self) -> Any:
        """What the kernel keeps of all pairs of rows."""
        check_stored_memory(self.n_rows)
        return self.kernel.stored(self.X, self.n_threads)

    @property
    def is_single(self) -> bool:  # type: ignore[override]
        """Whether products are in single precision."""
        return self.kernel.is_single

    @property
    def least_tol(self) -> float:  # type: ignore[override]
        """Residual below which what is kept of the rows is too rough to say more."""
        return self.kernel.least_tol

    @property
    def least_ratio(self) -> float:  # type: ignore[override]
        """Noise over amplitude that what is kept of the rows asks for."""
        return self.kernel.least_ratio(self.stored, self.n_rows)

    def product(self, V: Array) -> Array:
        return self.kernel.product(self.stored, np.ascontiguousarray(V), self.n_threads)

    def with_kernel(self, kernel: Kernel) -> Self:
        return self if kernel is self.kernel else replace(self, kernel=kernel)

    def as_matrix(self) -> MatrixBound:
        """Return the kernel with its matrix, if memory holds it."""
        check_memory(self.n_rows, self.kernel.n_parts + 2)
        return MatrixBound(X=self.X, kernel=self.kernel, n_threads=self.n_threads)

    def matrix(self) -> Array:
        return self.as_matrix().matrix()

    def prefers_factor(self, n_outputs: int) -> bool:
        """Say that iterations are the better way to solve."""
        return False

    def preconditioner(
        self, name: PreconditionerName, s: float, row_scale: Array | None
    ) -> AnyPreconditioner:
        """Return a partial factor from some columns."""
        rank = self.kernel.n_landmarks(self.n_rows)
        of_rows = s, rank, self.n_threads, row_scale
        return Landmarks(lambda rows: self.columns_of_matrix(rows).T, self.diagonal, *of_rows)

    def drop_pairs(self) -> None:
        """Free what is kept of all pairs of rows, which is computed again where it is asked for."""
        vars(self).pop("stored", None)
