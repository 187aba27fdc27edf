"""The linear system of a Gaussian process: `(K + s I) B = Y`, and variances by it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from histrs import _histrs
from histrs._memory import physical_memory
from histrs._row_blocks import in_row_blocks
from histrs._solvers.block_cg import Array, Solution, block_cg, largest_entries
from histrs._solvers.cholesky import CholeskyFactor
from histrs._solvers.coordinate_descent import Descent, coordinate_descent
from histrs._solvers.greedy_block import greedy_block
from histrs._solvers.knots import Knots
from histrs._solvers.nested_cg import nested_cg
from histrs._solvers.row_scale import scaled
from histrs._threads import blas_threads_at_most
from histrs._validation import Matrix
from histrs.gaussian_process._hyperparameters import LARGEST, Scales
from histrs.gaussian_process._preconditioned import (
    MAX_RANK,
    PreconditionedMatrix,
    PreconditionerName,
)

SolverName: TypeAlias = Literal["auto", "cg", "cholesky", "coordinate-descent", "greedy-block"]

# Above this many rows the stored matrix and its factor outgrow half a gigabyte.
_MAX_CHOLESKY_ROWS = 8192
# Iterations that a solve takes, more or less.
_ITERATIONS = 40
# Nanoseconds for which a factorisation is not worth avoiding.
_SHORT = 1e9
# A system that iterations do not solve is factorised if that takes at most this part of the memory.
_MEMORY_SHARE = 0.25
# Iterations before that, at least, and steps of refinement after it.
_MIN_ITERATIONS = 50
_REFINEMENTS = 3

# So many right-hand sides of double precision fill a vector: fewer gain nothing by being halved.
_MIN_NESTED_OUTPUTS = 9

# Bytes of work space of the solver, eight numbers for each row and right-hand side, and how many
# right-hand sides share a Krylov space whatever they take.
_WORK_BYTES = 1 << 30
_MIN_OUTPUTS = 32

# Tolerance of the solves for covariances, which are errors of their entries.
_COVARIANCE_TOLERANCE = 1e-6

# Test rows whose variances are solved for at a time.
_VARIANCE_BLOCK = 64


@dataclass(frozen=True, kw_only=True)
class KernelSystem(PreconditionedMatrix):
    """Systems with the matrix `K + s I`, solved by a factor of it or by iterations.

    Targets and weights of `solve_targets` are those of rows, whatever their scale.
    """

    solver: SolverName
    max_iter: int
    iterates_first: bool = False
    """Whether no factor is made unless iterations fail, however cheap it looks."""

    def iterating_first(self) -> KernelSystem:
        """Return the system, with all that is known of it, factorised only if it must be."""
        changed = replace(self, iterates_first=True)
        vars(changed).update({**vars(self), "iterates_first": True})
        return changed

    def with_scales(self, scales: Scales) -> KernelSystem:
        """Return the system of another noise and amplitude, on the same sorted columns."""
        smooth = None if self.smooth is None else self.smooth.rows
        columns, base = None, self.base_columns
        if smooth is None:
            columns = None if self.kernel.is_plain else self.columns
            base = self.columns if self.kernel.is_plain else base
        return replace(
            self,
            noise=scales.noise,
            amplitude=scales.amplitude,
            base_columns=base,
            transformed_columns=columns,
            smooth_rows=smooth,
            pair_rows=None if self.pairs is None else self.pairs.rows,
            n_changed=0,
        )

    def with_row_scale(self, row_scale: Array | None) -> KernelSystem:
        """Return the system of other weights of rows, on the same sorted columns."""
        return replace(self.with_scales(Scales(self.noise, self.amplitude)), row_scale=row_scale)

    def check(self) -> None:
        """Fail, with the index and the cure, where the system cannot be solved."""
        Scales(self.noise, self.amplitude).check()
        if self.pairs is not None and self.solver == "coordinate-descent":
            raise ValueError(
                "solver='coordinate-descent' solves the additive kernel alone: choose another one "
                "for pairs of features."
            )
        if self.intercept_variance > 0.0 and self.solver == "coordinate-descent":
            raise ValueError(
                "solver='coordinate-descent' solves the additive kernel alone: choose another one, "
                "or set intercept_variance=0."
            )
        # Sorting reads every value and names the first bad one.
        _ = self.columns if self.smooth is None else self.smooth
        with np.errstate(over="ignore"):
            trace = self.diagonal.sum()
        if not trace < LARGEST:
            row = int(np.argmax(self.diagonal))
            raise ValueError(
                f"The entries of row {row} of X sum to {self.diagonal[row]:.1e}, with which the "
                "kernel matrix overflows. Scale the features down, and amplitude up."
            )

    def uses_cholesky(self, n_outputs: int) -> bool:
        """Say whether the system is solved by factorising the stored matrix."""
        if self.solver != "auto":
            return self.solver == "cholesky"
        if "factor" in vars(self):
            return True
        if self.iterates_first or self.X.shape[0] > _MAX_CHOLESKY_ROWS:
            return False
        factorisation, iteration = self._costs(n_outputs)
        # The factor also makes exact variances cheap, which is worth some time; and it is sure.
        return bool(factorisation < max(3 * _ITERATIONS * iteration, _SHORT))

    def _costs(self, n_outputs: int) -> tuple[float, float]:
        """Return estimated nanoseconds of a factorisation and of an iteration, on one core.

        As measured: a term of the kernel matrix 0.15, a flop of LAPACK 0.03, a stored value and
        right-hand side of a product 0.5.
        """
        n, d = self.X.shape
        stored = self.X.nnz if sparse.issparse(self.X) else n * d
        factorisation = 0.15 * n * stored / 2 + 0.03 * n**3 / 3
        return factorisation, n_outputs * (0.5 * stored + 0.03 * 4 * MAX_RANK * n)

    @cached_property
    def factor(self) -> CholeskyFactor:
        """Lower Cholesky factor of `K + s I`."""
        return self.factor_of(self.kernel_matrix())

    def factor_of(self, K: Array) -> CholeskyFactor:
        """Return the factor of `K + s I`, which takes the place of `K`, as the system has it."""
        cure = "Raise noise, lower amplitude or scale the features down."
        return CholeskyFactor.with_noise(K, self.s, cure)

    def solve_targets(
        self,
        Y: Array,
        tol: Array,
        start: Array | None = None,
        callback: Callable[[Array], None] | None = None,
    ) -> Solution:
        """Return the weights of the training rows with which targets `Y` are predicted."""
        r = self.row_scale
        if r is None:
            return self.solve(Y, tol, start, callback)
        start = None if start is None else start / r[:, None]
        solution = self.solve(scaled(r, Y), tol, start, callback)
        return replace(solution, X=scaled(r, solution.X))

    def solve(
        self,
        Y: Array,
        tol: Array,
        X0: Array | None = None,
        callback: Callable[[Array], None] | None = None,
    ) -> Solution:
        """Solve `(K + s I) B = Y` until no entry of a column's residual is above its `tol`."""
        if self.uses_cholesky(Y.shape[1]):
            return self._solve_by_factor(Y, tol)
        if self.solver != "auto":
            return self._solve_iteratively(Y, tol, X0, callback)
        return self._solve_surely(Y, tol, X0, callback)

    def _solve_by_factor(self, Y: Array, tol: Array) -> Solution:
        """Solve by the factor, and refine what rounding left, as long as that helps."""
        B = self.factor.solve(Y)
        R = Y - self.multiply(B)
        residual = largest_entries(R)
        for _ in range(_REFINEMENTS):
            if np.all(residual <= tol):
                break
            better = B + self.factor.solve(R)
            R = Y - self.multiply(better)
            left = largest_entries(R)
            if not np.max(left) < np.max(residual):
                break
            B, residual = better, left
        return Solution(B, residual, np.ones(Y.shape[1], dtype=np.intp))

    def _solve_surely(
        self,
        Y: Array,
        tol: Array,
        X0: Array | None = None,
        callback: Callable[[Array], None] | None = None,
    ) -> Solution:
        """Solve by iterations, and where these do not end, by what does.

        They get as much time as a factorisation takes where there is memory for one; elsewhere the
        other preconditioner gets its turn.
        """
        factorisation, iteration = self._costs(Y.shape[1])
        fits = 8 * len(Y) ** 2 <= _MEMORY_SHARE * physical_memory()
        enough = max(_MIN_ITERATIONS, int(factorisation / iteration)) if fits else self.max_iter
        solution = self._solve_iteratively(Y, tol, X0, callback, min(enough, self.max_iter))
        if np.all(solution.residual <= tol):
            return solution
        if fits:
            # Where that fails, noise vanishes beside the kernel, and nothing else helps.
            with suppress(ValueError):
                exact = self._solve_by_factor(Y, tol)
                return replace(exact, n_iter=solution.n_iter)
        if self.smooth is not None:
            return solution
        other: PreconditionerName = "knots"
        if isinstance(self.preconditioner, Knots):
            other = "pivoted-cholesky"
        second = replace(self, preconditioner_name=other)._solve_iteratively(
            Y, tol, solution.X, callback
        )
        return replace(second, n_iter=solution.n_iter + second.n_iter)

    def _solve_iteratively(
        self,
        Y: Array,
        tol: Array,
        X0: Array | None = None,
        callback: Callable[[Array], None] | None = None,
        max_iter: int | None = None,
    ) -> Solution:
        """Solve for as many right-hand sides at a time as there is work space for."""
        max_iter = self.max_iter if max_iter is None else max_iter
        n_rows, n_outputs = Y.shape
        size = max(_MIN_OUTPUTS, _WORK_BYTES // (64 * max(n_rows, 1)))
        if n_outputs <= size:
            return self._solve_together(Y, tol, X0, callback, max_iter)
        # Parts of one size: few right-hand sides take as many iterations alone as among others.
        size = -(-n_outputs // -(-n_outputs // size))
        found = Solution(np.empty_like(Y), largest_entries(Y), np.zeros(n_outputs, dtype=np.intp))
        stagnated = False
        for start in range(0, n_outputs, size):
            part = slice(start, start + size)

            def report(residual: Array, part: slice = part) -> None:
                found.residual[part] = residual
                if callback is not None:
                    callback(found.residual)

            solution = self._solve_together(
                np.ascontiguousarray(Y[:, part]),
                tol[part],
                None if X0 is None else np.ascontiguousarray(X0[:, part]),
                report,
                max_iter,
            )
            found.X[:, part] = solution.X
            found.residual[part] = solution.residual
            found.n_iter[part] = solution.n_iter
            stagnated |= solution.stagnated
        return replace(found, stagnated=stagnated)

    def _solve_together(
        self,
        Y: Array,
        tol: Array,
        X0: Array | None,
        callback: Callable[[Array], None] | None,
        max_iter: int,
    ) -> Solution:
        solve = self._iterative_solver(Y.shape[1])
        # Between the products of the core, BLAS has little to do; its threads would spin while
        # the core's want the cores.
        with blas_threads_at_most(1):
            return solve(self.multiply, B=Y, tol=tol, max_iter=max_iter, X0=X0, callback=callback)

    def _iterative_solver(self, n_outputs: int) -> Callable[..., Solution]:
        """Return the solver with all that it needs to know of the matrix."""
        if self.solver == "coordinate-descent":
            return partial(coordinate_descent, descend=self._descent())
        if self.solver == "greedy-block":
            return partial(
                greedy_block, columns=self._matrix_columns, diagonal=self.diagonal + self.s
            )
        preconditioner = self.preconditioner.solve
        if n_outputs < _MIN_NESTED_OUTPUTS or not self.survives_single_precision:
            return partial(block_cg, preconditioner=preconditioner)
        return partial(
            nested_cg,
            cheap_operator=self.multiply_cheaply,
            preconditioner=preconditioner,
            cheap_preconditioner=self.preconditioner.solve_cheaply,
        )

    def _descent(self) -> Descent:
        """Return what takes steps in rows: weights of rows are noise of their own."""
        rows = _histrs.CoordinateDescent(self.columns, self.n_threads)
        r = np.ones(self.X.shape[0]) if self.row_scale is None else self.row_scale

        def descend(X: Array, B: Array, order: NDArray[np.int64]) -> Array:
            start, noise = scaled(r, X), self.s / r**2
            found = rows.descend(start, scaled(1 / r, B), noise, order, self.n_threads)
            return scaled(1 / r, found)

        return descend

    def _matrix_columns(self, rows: NDArray[np.intp]) -> Array:
        """Return some columns of `K + s I`."""
        columns = self.cross_kernel(self.rows[rows])
        if self.row_scale is not None:
            columns *= self.row_scale[rows]
        columns[rows, np.arange(len(rows))] += self.s
        return columns

    # ---- variances ---------------------------------------------------------------------------

    def latent_variance(
        self, X: Matrix, tol: float, n_outputs: int
    ) -> tuple[Array, NDArray[np.bool_]]:
        """Return `k(x, x) - k_x^T (K + s I)^-1 k_x` of every row, and whether it was solved."""
        prior = in_row_blocks(X, lambda rows: self.prior(self.kernel_rows(rows)))

        def cross(rows: slice) -> Array:
            return self._unscaled_cross_kernel(self.kernel_rows(X[rows]))

        return self.variance_of(prior, cross, tol, n_outputs)

    def variance_of(
        self, prior: Array, cross: Callable[[slice], Array], tol: float, n_outputs: int
    ) -> tuple[Array, NDArray[np.bool_]]:
        """Return the posterior variances of numbers, and whether they were solved.

        `prior` are their variances before, and `cross` gives the covariances of some of them with
        the training rows, whatever the scale of these, a column for each.
        """
        variance = np.empty_like(prior)
        solved = np.ones(len(prior), dtype=bool)
        use_cholesky = self.uses_cholesky(n_outputs)
        solve = self._solve_surely if self.solver == "auto" else self._solve_iteratively
        for start in range(0, len(prior), _VARIANCE_BLOCK):
            rows = slice(start, start + _VARIANCE_BLOCK)
            k = scaled(self.row_scale, cross(rows))
            if use_cholesky:
                half = self.factor.solve_lower(k)
                explained = np.einsum("ij,ij->j", half, half)
            else:
                # Rows of any scale are solved at scale 1.
                scale = largest_entries(k)
                scale[scale == 0.0] = 1.0
                limit = np.full(k.shape[1], tol)
                solution = solve(k / scale, limit)
                explained = np.einsum("ij,ij->j", k, solution.X) * scale
                solved[rows] = solution.residual <= limit
            variance[rows] = prior[rows] - explained
        return np.maximum(variance, 0.0), solved

    def latent_covariance(self, X: Matrix) -> Array:
        """Return `k(X, X) - k_X^T (K + s I)^-1 k_X` of all pairs of rows."""
        X = self.kernel.rows(X, self.n_threads)
        k = self.cross_kernel(X)
        prior = self.gram(X)
        if self.uses_cholesky(1):
            half = self.factor.solve_lower(k)
            covariance: Array = prior - half.T @ half
        else:
            scale = largest_entries(k)
            scale[scale == 0.0] = 1.0
            solution = self.solve(k / scale, np.full(k.shape[1], _COVARIANCE_TOLERANCE))
            covariance = prior - k.T @ (solution.X * scale)
        return 0.5 * (covariance + covariance.T)
