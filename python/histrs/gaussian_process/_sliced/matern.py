"""Coordinates in a learned metric, and the Matérn kernel of these."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias

import numpy as np

from histrs._typing import Array
from histrs.gaussian_process._kernels.radial import Radial
from histrs.gaussian_process._memory import most_stored_rows
from histrs.gaussian_process._sliced.columns import Columns
from histrs.gaussian_process._sliced.projections import matrix_root

# Rows above which the matrix is not kept.
_MOST_ROWS = 65_536
# Part of the root mean squared distance between rows that is the length scale.
_LENGTH = 0.6
# Part of the memory that the matrix may take.
_MEMORY_SHARE = 0.5

SolverName: TypeAlias = Literal["auto", "cg", "cholesky"]
VarianceName: TypeAlias = Literal["auto", "cached", "exact"]


def most_rows() -> int:
    """Return how many rows are fitted, by the memory of the machine."""
    return min(_MOST_ROWS, most_stored_rows(_MEMORY_SHARE))


@dataclass(frozen=True)
class Coordinates:
    """`A W` of standardised columns `A`: distances are those of the metric `W W^T`."""

    columns: Columns
    W: Array

    def apply(self, numbers: Array, n_threads: int) -> Array:
        """Return the coordinates of rows."""
        return self.of_standardised(self.columns.apply(numbers))

    def of_standardised(self, A: Array) -> Array:
        """Return the coordinates of rows whose columns are standardised already."""
        coordinates: Array = A @ self.W
        return coordinates


@dataclass(frozen=True)
class LearnedMatern:
    """A metric, with the length scale of the kernel in it."""

    G: Array
    length: float

    @classmethod
    def of(cls, A: Array, G: Array) -> LearnedMatern:
        """Take a part of the root mean squared distance of rows as the length."""
        variance = float(np.sum((A @ G) * A) / len(A) - A.mean(axis=0) @ G @ A.mean(axis=0))
        return cls(G, _LENGTH * np.sqrt(2.0 * variance) if variance > 0.0 else 1.0)

    @cached_property
    def directions(self) -> Array:
        """The root of the metric, of shape (n_columns, n_columns)."""
        return matrix_root(self.G)

    def kernel(self, A: Array, others: Array | None = None) -> Array:
        """Return the kernel matrix of rows, or of others with these."""
        W = self.directions
        left, right = (A @ W, None) if others is None else (others @ W, A @ W)
        return of_length(self.length).taken(left).between(left, right, 1)


def of_length(length: float) -> Radial:
    """Return the Matérn kernel of a length that is kept."""
    return Radial("matern-3/2", length, "fixed")
