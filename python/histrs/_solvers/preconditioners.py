"""Preconditioners for `K + s I`, each with its inverse as one function."""

from __future__ import annotations

from typing import Protocol, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from histrs._typing import Array, Matrix

Indices: TypeAlias = NDArray[np.int64]


class Preconditioner(Protocol):
    """A symmetric positive definite matrix near `K + s I` that is cheap to invert."""

    def solve(self, V: Array) -> Array:
        """Return `M^-1 V`."""
        ...

    def solve_cheaply(self, V: Array) -> Array:
        """Return nearly `M^-1 V`, in single precision where that is faster."""
        ...

    def insert(self, rows: Matrix, row_scale: Array | None = None) -> Self:
        """Return the preconditioner with further rows, as the kernel takes minima of them.

        `row_scale` is of the new rows; where it is None, so must that of the others have been.
        """
        ...

    def remove(self, kept: Indices, removed: Indices) -> Self:
        """Return the preconditioner of the kept rows; both in ascending order."""
        ...


class Identity:
    """No preconditioning: `M = I`."""

    def solve(self, V: Array) -> Array:
        """Return `V`."""
        return V

    solve_cheaply = solve

    def insert(self, rows: Matrix, row_scale: Array | None = None) -> Self:
        """Return this."""
        return self

    def remove(self, kept: Indices, removed: Indices) -> Self:
        """Return this."""
        return self
