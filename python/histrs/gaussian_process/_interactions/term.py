"""The pairs' part of the kernel matrix of some rows, never formed unless it is asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from histrs._solvers.block_cg import Array
from histrs.gaussian_process._interactions.kernel import PairKernel, PairRows


@dataclass(frozen=True)
class PairTerm:
    """`w H C H^T`: cells `H` of the training rows, covariance `C` of cells, weight `w`."""

    kernel: PairKernel
    weight: float
    rows: PairRows

    @property
    def diagonal(self) -> Array:
        """The diagonal of the term."""
        return self.weight * self.rows.diagonal

    def cell_values(self, V: Array) -> Array:
        """Return what vectors over the training rows say of every cell: `w C H^T V`."""
        return self.weight * self.kernel.covary(np.asarray(self.rows.cells.T @ V))

    def product(self, V: Array) -> Array:
        """Return the term times vectors."""
        return np.asarray(self.rows.cells @ self.cell_values(V))

    def quadratic_forms(self, V: Array) -> Array:
        """Return `v^T w H C H^T v` of every column."""
        T = np.asarray(self.rows.cells.T @ V)
        forms: Array = self.weight * np.einsum("ij,ij->j", T, self.kernel.covary(T))
        return forms

    def cross(self, others: PairRows) -> Array:
        """Return the term between the training rows and others, of shape (n_rows, n_others)."""
        cells = others.cells.T.toarray()
        return self.weight * np.asarray(self.rows.cells @ self.kernel.covary(cells))

    def of_pair(self, k: int, cells: Array) -> tuple[Array, Callable[[slice], Array]]:
        """Return the prior variances of mixtures of a pair's cells, a column each, ...

        ... and a function that gives the covariances of some of them with the training rows.
        """
        start, end = self.kernel.starts[k : k + 2]
        of_rows = self.rows.cells.tocsc()[:, start:end].tocsr()
        covariances = self.weight * self.kernel.covary_pair(k, cells)
        prior: Array = np.einsum("ij,ij->j", cells, covariances)
        return prior, lambda part: np.asarray(of_rows @ covariances[:, part])

    def prior(self, others: PairRows) -> Array:
        """Return the term of every row with itself."""
        return self.weight * others.diagonal

    def gram(self, others: PairRows) -> Array:
        """Return the term between all pairs of some rows."""
        H = others.cells
        return self.weight * np.asarray(H @ self.kernel.covary(H.T.toarray()))
