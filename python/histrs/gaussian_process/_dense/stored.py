"""The linear system of many rows, whose kernel matrix is kept in few bytes and not factorised."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from histrs._solvers.block_cg import Array, Solution, block_cg
from histrs._solvers.cholesky import CholeskyFactor
from histrs._solvers.low_rank import Landmarks
from histrs._solvers.preconditioners import Indices
from histrs._solvers.row_scale import scale_both_sides, scaled
from histrs._threads import blas_threads_at_most
from histrs._warnings import warn
from histrs.gaussian_process._cached_variance import CachedVariance
from histrs.gaussian_process._dense.system import DenseSystem, check_memory, check_stored_memory

# Training rows that are solved for to learn how variances are off.
_N_SOLVED = 32


@dataclass(frozen=True)
class StoredSystem(DenseSystem):
    """The matrix `K + s I`, solved by conjugate gradients preconditioned by some of its columns.

    Products are with what the kernel keeps of all pairs of rows (`Kernel.stored`). What needs
    the factor gets it, where memory holds it.
    """

    known_stored: Any = None
    """What the kernel keeps, where that is at hand."""
    tol: float = 1e-5
    """Largest entry of a residual, of targets of spread 1, and of what covariances are solved
    for."""
    max_iter: int = 1000
    """Most iterations."""

    @cached_property
    def stored(self) -> Any:
        """What the kernel keeps of all pairs of rows."""
        if self.known_stored is not None:
            return self.known_stored
        check_stored_memory(self.X.shape[0])
        return self.kernel.stored(self.X, self.n_threads)

    @cached_property
    def diagonal(self) -> Array:
        """Diagonal of `K`."""
        diagonal = self.row_sums
        return diagonal if self.row_scale is None else self.row_scale**2 * diagonal

    @cached_property
    def row_sums(self) -> Array:
        """Kernel of each row with itself, whatever its scale."""
        return self.kernel.diagonal(self.X, self.n_threads)

    def product(self, V: Array) -> Array:
        """Return `K V`."""
        V = np.ascontiguousarray(scaled(self.row_scale, V))
        return scaled(self.row_scale, self.kernel.product(self.stored, V, self.n_threads))

    def multiply(self, V: Array) -> Array:
        """Return `(K + s I) V`."""
        product = self.product(V)
        product += self.s * V
        return product

    @cached_property
    def preconditioner(self) -> Landmarks:
        """A partial factor from some columns."""
        rank = self.kernel.n_landmarks(self.X.shape[0])
        return Landmarks(self._columns, self.row_sums, self.s, rank, self.n_threads, self.row_scale)

    def _columns(self, rows: NDArray[np.intp]) -> Array:
        """Return the kernel of some training rows with all, whatever the scale of rows."""
        return self.kernel.between(self.X[rows], self.X, self.n_threads)

    @property
    def _tol(self) -> float:
        """The tolerance, as far as what is kept can tell."""
        return max(self.tol, self.kernel.least_tol)

    def solve(self, Y: Array, tol: Array, start: Array | None = None) -> Solution:
        """Solve `(K + s I) B = Y` until no entry of a column's residual is above its `tol`."""
        near = self.preconditioner
        with blas_threads_at_most(1):
            return block_cg(
                self.multiply,
                Y,
                tol=tol,
                max_iter=self.max_iter,
                preconditioner=near.solve_cheaply if self.kernel.is_single else near.solve,
                X0=start,
            )

    def solve_targets(self, Y: Array, weights: Array | None = None) -> Solution:
        """Solve for the weights of the training rows with which targets `Y` are predicted.

        Iterations start from `weights`, if there are any.
        """
        scale = self.row_scale
        Y = np.ascontiguousarray(scaled(scale, Y))
        if weights is not None and scale is not None:
            weights = weights / np.where(scale > 0.0, scale, np.inf)[:, None]
        solution = self.solve(Y, np.full(Y.shape[1], self._tol), weights)
        unsolved = float(np.max(solution.residual, initial=0.0))
        if unsolved > self._tol:
            warn(
                f"The system of {len(Y)} rows is solved to {unsolved:.1e}, not to {self._tol:.0e}"
                f" of the targets' spread, in {np.max(solution.n_iter)} iterations. Raise noise, "
                "or the lower one of noise_bounds.",
                ConvergenceWarning,
            )
        return replace(solution, X=scaled(scale, solution.X))

    def means_without(self, held: Indices, Y: Array, weights: Array, tol: float) -> Array:
        """Return what the other rows say of some training rows.

        Parameters
        ----------
        held : ndarray of int
            These rows.
        Y : ndarray of shape (n_rows, n_outputs)
            Targets.
        weights : ndarray of shape (n_rows, n_outputs)
            Those of all rows, from which iterations start.
        tol : float
            Largest entry of a residual.
        """
        # Rows without weight leave the others alone.
        scale = np.ones(len(Y)) if self.row_scale is None else self.row_scale.copy()
        scale[held] = 0.0
        without = replace(self, row_scale=scale, known_stored=self.stored, tol=tol)
        found = without.solve_targets(Y, weights).X
        product: Array = self.kernel.product(self.stored, found, self.n_threads)
        return product[held]

    # ---- factors, where they are asked for ---------------------------------------------------

    @cached_property
    def parts(self) -> Any:
        """What the kernel matrix is made of, of all pairs of rows in double precision."""
        check_memory(self.X.shape[0], self.kernel.n_parts + 2)
        return self.kernel.parts(self.X, None, self.n_threads)

    @cached_property
    def factor(self) -> CholeskyFactor:
        """Lower Cholesky factor of `K + s I`, if memory holds it."""
        return self._factorised()

    def factorised(self) -> Self:
        """Return the system: it is not factorised."""
        return self

    def _of_rows(self, X: Any, row_scale: Array | None) -> Self:
        return replace(super()._of_rows(X, row_scale), known_stored=None)

    # ---- other rows --------------------------------------------------------------------------

    @cached_property
    def cached_variance(self) -> CachedVariance:
        """Variances from what is solved once."""
        return CachedVariance(self, _Score, _N_SOLVED)

    def latent_variance(self, X: Any) -> Array:
        """Return nearly `k(x, x) - k_x^T (K + s I)^-1 k_x` of every row."""
        return self.cached_variance.of(X)

    def solved_variance(self, X: Any) -> Array:
        """Return `k(x, x) - k_x^T (K + s I)^-1 k_x` of every row, each solved for."""
        variance = self.kernel.diagonal(X, self.n_threads)
        for rows, k in self.blocks(X):
            k = np.ascontiguousarray(scaled(self.row_scale, k.T))
            solved = self.solve(k, np.full(k.shape[1], self._tol)).X
            variance[rows] -= np.einsum("ij,ij->j", k, solved)
        return np.maximum(variance, 0.0)

    def latent_covariance(self, X: Any) -> Array:
        """Return `k(X, X) - k_X^T (K + s I)^-1 k_X` of all pairs of rows."""
        covariance = self.kernel.between(X, None, self.n_threads)
        k = np.vstack([block for _, block in self.blocks(X)]).T
        k = np.ascontiguousarray(scaled(self.row_scale, k))
        covariance -= k.T @ self.solve(k, np.full(k.shape[1], self._tol)).X
        return 0.5 * (covariance + covariance.T)

    # ---- what cached variances ask -----------------------------------------------------------

    @property
    def has_nearby_rows(self) -> bool:
        """Whether the kernel of some rows is quickly made."""
        return True

    def prior(self, rows: Any) -> Array:
        """Return `k(x, x)` of rows."""
        return self.kernel.diagonal(rows, self.n_threads)

    def kernel_rows(self, X: Any) -> Any:
        """Return the rows themselves."""
        return X

    def cross_kernel_of(self, some: NDArray[np.intp], X: Any) -> Array:
        """Return `K(X_some, X)` of some training rows and others."""
        K = self.kernel.between(self.X[some], X, self.n_threads)
        return scaled(None if self.row_scale is None else self.row_scale[some], K)

    def kernel_matrix_of(self, some: NDArray[np.intp]) -> Array:
        """Return `K` of some training rows."""
        K = self.kernel.between(self.X[some], None, self.n_threads)
        scale_both_sides(None if self.row_scale is None else self.row_scale[some], K)
        return K


class _Score:
    """`K(X, X_train) V`, a block of rows after the other."""

    takes_features = False

    def __init__(self, system: StoredSystem, V: Array) -> None:
        self._system, self._V = system, scaled(system.row_scale, V)

    def evaluate(self, X: Any, n_threads: int) -> Array:
        """Return the scores of every row."""
        scores = np.empty((X.shape[0], self._V.shape[1]))
        for rows, k in self._system.blocks(X, n_threads):
            scores[rows] = k @ self._V
        return scores

    def error_bound(self) -> Array:
        """Return zeros."""
        return np.zeros(self._V.shape[1])


def sharing(systems: tuple[DenseSystem, ...]) -> tuple[DenseSystem, ...]:
    """Return systems of the same rows, of which one keeps what the kernel keeps of all pairs."""
    first, *others = systems
    if not isinstance(first, StoredSystem):
        return systems
    return first, *(
        replace(system, known_stored=first.stored)
        for system in others
        if isinstance(system, StoredSystem)
    )
