"""A block Krylov space of a linear system, and what it knows of rows."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from histrs._solvers.row_scale import scaled
from histrs._threads import blas_threads_at_most
from histrs._typing import Array
from histrs.gaussian_process._systems.system import LEAST_NOISE, System

# Right-hand sides from which a space is built: whole vectors of the core.
N_PROBES = 8
# What a row that is left out keeps on the diagonal, as part of `s`: with nothing, the matrix would
# be singular.
_APART = 1e-6
# Part of a vector below which what is left of it is rounding.
_ROUNDING = 1e-12


class KrylovSpace:
    """A block Krylov space of `A = K + s I`, from random signs.

    Attributes
    ----------
    Q : array of shape (n_samples, rank)
        An orthonormal basis.
    T : array of shape (rank, rank)
        `Q^T A Q`.
    rows : array of shape (n_rows,)
        Training rows, ascending, ...
    AQ : array of shape (n_rows, rank)
        ... and these rows of `A Q`.
    """

    def __init__(
        self, system: System, rank: int, rows: NDArray[np.intp], rng: np.random.Generator
    ) -> None:
        n = len(system.diagonal)
        Q = np.empty((n, 0))
        T = np.zeros((rank, rank))
        AQ = np.empty((len(rows), rank))
        V = rng.choice([-1.0, 1.0], size=(n, min(N_PROBES, rank)))
        while True:
            V = new_directions(Q, V, rng)[:, : rank - Q.shape[1]]
            Q = np.hstack([Q, V])
            with blas_threads_at_most(1):
                product = system.multiply(np.ascontiguousarray(V))
            new = slice(Q.shape[1] - V.shape[1], Q.shape[1])
            T[: Q.shape[1], new] = Q.T @ product
            AQ[:, new] = product[rows]
            if Q.shape[1] == rank:
                break
            V = product
        self.Q, self.rows, self.AQ = Q, rows, AQ
        # Of the lower half, nothing was computed.
        self.T = np.triu(T) + np.triu(T, 1).T
        self._system, self._s = system, system.s

    @cached_property
    def root(self) -> Array:
        """`W` with `W W^T = T^-1`, without what is rounding."""
        values, vectors = linalg.eigh(self.T, check_finite=False)
        kept = values > 0.5 * self._s
        root: Array = vectors[:, kept] / np.sqrt(values[kept])
        # Rounding decides which way an eigenvector points, and must decide nothing else.
        largest = np.argmax(np.abs(root), axis=0)
        root *= np.where(root[largest, np.arange(root.shape[1])] < 0.0, -1.0, 1.0)
        return root

    @cached_property
    def directions(self) -> Array:
        """`R = Q W`, with `R R^T = Q T^-1 Q^T`."""
        directions: Array = self.Q @ self.root
        return directions

    @cached_property
    def coordinates(self) -> Array:
        """`R^T k_x` of `rows`, as of rows that are not scaled."""
        coordinates: Array = (self.AQ - self._s * self.Q[self.rows]) @ self.root
        scale = self._system.row_scale
        return scaled(None if scale is None else 1.0 / scale[self.rows], coordinates)

    def upper_without_itself(self, indices: NDArray[np.intp]) -> Array:
        """Return what is left of the variance of some of `rows`, each as if it were not one."""
        T, projected = self.without(indices)
        with blas_threads_at_most(1):
            solved = np.linalg.solve(T, projected[:, :, None])[:, :, 0]
        prior = self._system.diagonal[self.rows[indices]]
        upper: Array = prior - np.einsum("ij,ij->i", projected, solved)
        return upper

    def without(self, indices: NDArray[np.intp]) -> tuple[Array, Array]:
        """Return `T` of the matrix with zeros for what a row has to do with others, ...

        ... and what the space has to do with that row, for each of some of `rows`.
        """
        rows, diagonal = self.rows[indices], self._system.diagonal
        q, w, prior = self.Q[rows], self.AQ[indices], diagonal[rows]
        cross = q[:, :, None] * w[:, None, :]
        square = q[:, :, None] * q[:, None, :]
        T = self.T - cross - cross.transpose(0, 2, 1)
        T += (prior + (1.0 + _APART) * self._s)[:, None, None] * square
        # Noise that vanishes beside the kernel does not keep the matrix from being singular.
        lacking = max(LEAST_NOISE * float(diagonal.sum()) - self._s, 0.0)
        T += lacking * np.eye(T.shape[-1])
        return T, w - (prior + self._s)[:, None] * q


def new_directions(Q: Array, V: Array, rng: np.random.Generator) -> Array:
    """Return orthonormal vectors, orthogonal to `Q`, that span what it lacks of `V`."""
    # In a unit in which squares stay within the range; a power of 2 rounds nothing.
    V = np.ldexp(V, -np.frexp(np.max(np.abs(V), initial=0.0))[1])
    left = V - Q @ (Q.T @ V)
    # Where the space ends, random directions go on.
    lost = np.linalg.norm(left, axis=0) <= _ROUNDING * np.linalg.norm(V, axis=0)
    left[:, lost] = rng.standard_normal((len(V), int(np.sum(lost))))
    for _ in range(3):
        left -= Q @ (Q.T @ left)
        left, _ = linalg.qr(left, mode="economic", check_finite=False)
        if np.max(np.abs(Q.T @ left), initial=0.0) <= _ROUNDING:
            break
    return np.asarray(left)
