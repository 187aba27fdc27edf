"""Lanczos processes, one per column, side by side."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy import linalg

from histrs._solvers.block_cg import Operator
from histrs._typing import Array

# A new direction shorter than this part of the operator's size is rounding.
_BREAKDOWN = 1e-12
# Rounding of eigenvalues, as a part of the largest.
_ROUNDING = 1e-13


@dataclass(frozen=True)
class Tridiagonal:
    """What `m` steps from one vector `v` know of the operator: `T = Q^T A Q`, `Q e_1 = v / |v|`."""

    diagonal: Array
    off_diagonal: Array
    norm: float
    """`|v|`."""
    next: float = 0.0
    """The entry of `off_diagonal` of one step more; 0 where there is no further step."""

    def eigen(self) -> tuple[Array, Array]:
        """Return eigenvalues (Ritz values) and eigenvectors of `T`."""
        try:
            values, vectors = linalg.eigh_tridiagonal(self.diagonal, self.off_diagonal)
        except linalg.LinAlgError:
            # The fast driver of some versions of LAPACK fails on clusters of equal Ritz values.
            values, vectors = linalg.eigh_tridiagonal(
                self.diagonal, self.off_diagonal, lapack_driver="stev"
            )
        return np.asarray(values, np.float64), np.asarray(vectors, np.float64)

    def measure(self) -> tuple[Array, Array]:
        """Return nodes and weights with `v^T f(A) v` near `sum(weights * f(nodes))`."""
        nodes, vectors = self.eigen()
        return nodes, self.norm**2 * vectors[0] ** 2

    def with_node_at_zero(self) -> Tridiagonal:
        """Return what Gauss-Radau quadrature takes, with a node at the least eigenvalue [1]_.

        No eigenvalue of the operator is below 0. Where Gauss quadrature is below `v^T f(A) v`, as
        of `f(x) = 1 / (x + s)`, this one is above it. A process that has ended knows all there is.

        References
        ----------
        .. [1] G. H. Golub, "Some modified matrix eigenvalue problems", SIAM Review, 1973.
        """
        if self.next == 0.0:
            return self
        # In doubles, eigenvalues may be below 0 by this.
        rounding = _ROUNDING * float(np.max(self.diagonal))
        pivot = np.inf
        for a, b in zip(self.diagonal, [0.0, *self.off_diagonal], strict=True):
            pivot = max(a + rounding - b * (b / pivot), rounding)
        return Tridiagonal(
            np.append(self.diagonal, self.next * (self.next / pivot) - rounding),
            np.append(self.off_diagonal, self.next),
            self.norm,
        )


class Lanczos:
    """Lanczos processes from every column of `V`, which share each product with `A`.

    `A` is symmetric positive semi-definite. With `keep_basis`, each column is orthogonalised
    against all its basis. Without, Ritz values repeat those that have converged, and quadratures
    are as good. A basis has room for `max_steps`.
    """

    def __init__(self, operator: Operator, V: Array, *, keep_basis: bool, max_steps: int) -> None:
        n, n_columns = V.shape
        self._operator = operator
        self._max_steps = min(max_steps, n)
        self._norms = _lengths(V)
        self._previous = np.zeros_like(V)
        self._current = V / np.where(self._norms > 0, self._norms, 1.0)
        self._diagonal: list[Array] = []
        self._off_diagonal: list[Array] = []
        self._sizes = np.zeros(n_columns, dtype=np.intp)
        self._active = self._norms > 0
        shape = (n_columns, self._max_steps if keep_basis else 0, n)
        self._basis = np.empty(shape)

    @property
    def n_steps(self) -> int:
        """Steps done."""
        return len(self._diagonal)

    @property
    def done(self) -> bool:
        """Whether no column can go on."""
        return self.n_steps >= self._max_steps or not np.any(self._active)

    def run(self, n_steps: int) -> None:
        """Take more steps, as many as there are left."""
        for _ in range(n_steps):
            if self.done:
                break
            self._step()

    def _step(self) -> None:
        Q, step = self._current, self.n_steps
        if self._basis.shape[1] > 0:
            self._basis[:, step] = Q.T
        W = self._operator(Q)
        if step > 0:
            W -= self._previous * self._off_diagonal[-1]
        diagonal = np.einsum("ij,ij->j", Q, W)
        W -= Q * diagonal
        if self._basis.shape[1] > 0:
            for k, basis in enumerate(self._basis):
                known = basis[: step + 1]
                W[:, k] -= (known @ W[:, k]) @ known
        norms = _lengths(W)
        self._sizes[self._active] += 1
        self._diagonal.append(diagonal)
        largest = np.max(np.abs(self._diagonal), axis=0)
        self._active &= norms > _BREAKDOWN * largest
        norms = np.where(self._active, norms, 0.0)
        self._off_diagonal.append(norms)
        self._previous = Q
        self._current = np.where(self._active, W / np.where(norms > 0, norms, 1.0), 0.0)

    def tridiagonals(self) -> Iterator[Tridiagonal]:
        """Yield what is known from every column."""
        for k, size in enumerate(self._sizes.tolist()):
            diagonal = np.array([d[k] for d in self._diagonal[:size]])
            off_diagonal = np.array([d[k] for d in self._off_diagonal[: max(size - 1, 0)]])
            following = float(self._off_diagonal[size - 1][k]) if size else 0.0
            yield Tridiagonal(diagonal, off_diagonal, float(self._norms[k]), following)

    def basis(self, column: int) -> Array:
        """Return the basis of a column, of shape (steps, n)."""
        basis: Array = self._basis[column, : self._sizes[column]]
        return basis


def _lengths(W: Array) -> Array:
    """Return the lengths of columns, whose squares a double need not hold."""
    largest = float(np.max(np.abs(W), initial=0.0))
    # A power of 2 rounds nothing.
    exponent = 0 if 1e-120 < largest < 1e120 else int(np.frexp(largest)[1])
    scaled = np.ldexp(W, -exponent) if exponent else W
    lengths: Array = np.ldexp(np.sqrt(np.einsum("ij,ij->j", scaled, scaled)), exponent)
    return lengths
