"""The linear system of a Gaussian process: `(K + s I) B = Y`, and variances by it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from histrs import _histrs
from histrs._checks.memory import physical_memory
from histrs._checks.rows import in_row_blocks
from histrs._solvers.block_cg import Solution, block_cg, largest_entries
from histrs._solvers.cholesky import CholeskyFactor
from histrs._solvers.coordinate_descent import Descent, coordinate_descent
from histrs._solvers.greedy_block import greedy_block
from histrs._solvers.knots import Knots
from histrs._solvers.low_rank import survives_single_precision
from histrs._solvers.nested_cg import nested_cg
from histrs._solvers.row_scale import scale_both_sides, scaled
from histrs._threads import blas_threads_at_most
from histrs._typing import Array
from histrs.gaussian_process._bound.additive import MinimaBound
from histrs.gaussian_process._bound.base import AnyPreconditioner, Bound
from histrs.gaussian_process._learning.hyperparameters import LARGEST, Scales
from histrs.gaussian_process._options import PreconditionerName, Solver

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
# Rows whose variances are solved for at a time; where a factor has them, entries of their kernel
# with training rows, and most rows.
_VARIANCE_BLOCK = 64
_ENTRIES = 1 << 20
_MOST_FACTORISED = 1024
# The trace of the kernel matrix, times which the preconditioner counts as noise at least.
LEAST_NOISE = 1e-12

# Is told of the residual of each right-hand side.
Report: TypeAlias = Callable[[Array], None]


@dataclass(frozen=True, kw_only=True)
class System:
    """The matrix `K + s I` of training rows, solved by a factor of it or by iterations.

    Where rows have a `row_scale`, `K` is multiplied by it from both sides, and whatever has
    training rows is in these coordinates. Targets and weights of `solve_targets` are those of rows,
    whatever their scale.
    """

    bound: Bound
    """`K`."""
    noise: float
    amplitude: float
    solver: Solver
    row_scale: Array | None = None
    """Roots of the weights of rows; None for 1."""
    n_changed: int = 0
    """Rows that were added or removed since the preconditioner was made."""
    iterates_first: bool = False
    """Whether no factor is made unless iterations fail, however cheap it looks."""

    # ---- the matrix --------------------------------------------------------------------------

    @property
    def s(self) -> float:
        """What is added to the diagonal of `K`."""
        return self.noise / self.amplitude

    @property
    def kernel(self) -> Any:
        """The kernel."""
        return self.bound.kernel

    @property
    def X(self) -> Any:  # noqa: N802
        """The training rows."""
        return self.bound.X

    @cached_property
    def diagonal(self) -> Array:
        """Diagonal of `K`."""
        return self._scaled_diagonal(self.bound.diagonal)

    @property
    def mean_variance(self) -> float:
        """Mean of the diagonal of `K` without what is common to all rows."""
        return float(np.mean(self._scaled_diagonal(self.bound.variances)))

    def _scaled_diagonal(self, values: Array) -> Array:
        return values if self.row_scale is None else self.row_scale**2 * values

    def product(self, V: Array) -> Array:
        """Return `K V`."""
        r = self.row_scale
        return scaled(r, self.bound.product(scaled(r, V)))

    def multiply(self, V: Array) -> Array:
        """Return `(K + s I) V`."""
        product = self.product(V)
        product += self.s * V
        return product

    def multiply_cheaply(self, V: Array) -> Array:
        """Return nearly `(K + s I) V`: sums in single precision."""
        r = self.row_scale
        product = scaled(r, self.bound.product_f32(scaled(r, V)))
        product += self.s * V
        return product

    def kernel_matrix(self) -> Array:
        """Return `K`, as an array that may be overwritten."""
        K = self.bound.matrix()
        scale_both_sides(self.row_scale, K)
        return K

    def cross(self, T: Any) -> Array:
        """Return `K(X_train, T)` of rows as the kernel takes them."""
        return scaled(self.row_scale, self.bound.cross(T))

    def cross_of(self, some: NDArray[np.intp], T: Any) -> Array:
        """Return `K(X_some, T)` of some training rows."""
        scale = None if self.row_scale is None else self.row_scale[some]
        return scaled(scale, self.bound.cross_of(some, T))

    def matrix_of(self, some: NDArray[np.intp]) -> Array:
        """Return `K` of some training rows."""
        K = self.bound.matrix_of(some)
        scale_both_sides(None if self.row_scale is None else self.row_scale[some], K)
        return K

    # ---- the same rows under others -----------------------------------------------------------

    def iterating_first(self) -> Self:
        """Return the system, with all that is known of it, factorised only if it must be."""
        changed = replace(self, iterates_first=True)
        vars(changed).update({**vars(self), "iterates_first": True})
        return changed

    def with_scales(self, scales: Scales) -> Self:
        """Return the system of another noise and amplitude."""
        return replace(self, noise=scales.noise, amplitude=scales.amplitude, n_changed=0)

    def with_row_scale(self, row_scale: Array | None) -> Self:
        """Return the system of other weights of rows."""
        return replace(self, row_scale=row_scale, n_changed=0)

    def lighter(self) -> Self:
        """Return the system with its factor, and without what only a fit asks for."""
        names = ("factor", "preconditioner")
        known: dict[str, Any] = {k: v for k, v in vars(self).items() if k in names}
        changed = replace(self, bound=self.bound.lighter() if "factor" in known else self.bound)
        vars(changed).update(known)
        return changed

    def __getstate__(self) -> dict[str, Any]:
        """Return what cannot be computed again, such as a factor of all rows."""
        return {k: v for k, v in vars(self).items() if k != "factor"}

    def check(self) -> None:
        """Fail, with the index and the cure, where the system cannot be solved."""
        Scales(self.noise, self.amplitude).check()
        self.bound.check(self.solver.name)
        with np.errstate(over="ignore"):
            trace = self.diagonal.sum()
        if not trace < LARGEST:
            row = int(np.argmax(self.diagonal))
            raise ValueError(
                f"The entries of row {row} of X sum to {self.diagonal[row]:.1e}, with which the "
                "kernel matrix overflows. Scale the features down, and amplitude up."
            )

    # ---- how it is solved --------------------------------------------------------------------

    def uses_cholesky(self, n_outputs: int) -> bool:
        """Say whether the system is solved by factorising the stored matrix."""
        if self.solver.name != "auto":
            return self.solver.name == "cholesky"
        if "factor" in vars(self):
            return True
        return not self.iterates_first and self.bound.prefers_factor(n_outputs)

    @cached_property
    def factor(self) -> Any:
        """Factor of `K + s I`: of fewer weights than rows, where the kernel has such."""
        by_weights = self.bound.factor(self.s, self.row_scale)
        return self.factor_of(self.kernel_matrix()) if by_weights is None else by_weights

    def factor_of(self, K: Array) -> CholeskyFactor:
        """Return the factor of `K + s I`, which takes the place of `K`, as the system has it."""
        cure = "Raise noise, lower amplitude or scale the features down."
        return CholeskyFactor.with_noise(K, self.s, cure)

    @cached_property
    def preconditioner(self) -> AnyPreconditioner:
        """The preconditioner that was asked for, or that suits the shape of the data."""
        # With less noise, the inverse would be lost in rounding.
        s = max(self.s, LEAST_NOISE * float(self.diagonal.sum()))
        return self.bound.preconditioner(self.solver.preconditioner, s, self.row_scale)

    @property
    def survives_single_precision(self) -> bool:
        """Whether products in single precision neither drown the noise nor leave the range."""
        if not self.bound.has_single_product:
            return False
        trace = self.diagonal.sum()
        return survives_single_precision(trace, self.s) and self.s > 1e-15 and trace < 1e15

    @property
    def inverse_diagonal(self) -> Array:
        """Diagonal of `(K + s W^-1)^-1`, by the factor."""
        diagonal: Array = self.factor.inverse_diagonal()
        return diagonal if self.row_scale is None else self.row_scale**2 * diagonal

    def left_out(self, inverse_diagonal: Array, stays: Array | None) -> Array:
        """Return what divides weights where `stays`, a part of each row, is not left out."""
        if stays is None:
            return inverse_diagonal
        of_rows = 1.0 if self.row_scale is None else self.row_scale**2
        return np.asarray((1.0 - stays) * inverse_diagonal + stays * (of_rows / self.s))

    def tolerance(self, tol: Array) -> Array:
        """Return tolerances, as far as what is kept of the rows can tell."""
        return np.maximum(tol, self.bound.least_tol)

    def solve_targets(
        self, Y: Array, tol: Array, start: Array | None = None, callback: Report | None = None
    ) -> Solution:
        """Return the weights of the training rows with which targets `Y` are predicted."""
        r = self.row_scale
        if r is None:
            return self.solve(Y, tol, start, callback)
        # Rows of no weight leave the others alone.
        start = None if start is None else start / np.where(r > 0.0, r, np.inf)[:, None]
        solution = self.solve(scaled(r, Y), tol, start, callback)
        return replace(solution, X=scaled(r, solution.X))

    def solve(
        self, Y: Array, tol: Array, X0: Array | None = None, callback: Report | None = None
    ) -> Solution:
        """Solve `(K + s I) B = Y` until no entry of a column's residual is above its `tol`."""
        if self.uses_cholesky(Y.shape[1]):
            return self._solve_by_factor(Y, tol)
        return self._solve_without_factor(Y, tol, X0, callback)

    def _solve_by_factor(self, Y: Array, tol: Array) -> Solution:
        """Solve by the factor, and refine what rounding left, as long as that helps."""
        B = self.factor.solve(np.ascontiguousarray(Y))
        once = np.ones(Y.shape[1], dtype=np.intp)
        if not self.bound.refines:
            return Solution(B, np.zeros(Y.shape[1]), once)
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
        return Solution(B, residual, once)

    def _solve_without_factor(
        self, Y: Array, tol: Array, X0: Array | None = None, callback: Report | None = None
    ) -> Solution:
        """Solve by iterations, and where these do not end, by what does.

        They get as much time as a factorisation takes where there is memory for one; elsewhere the
        other preconditioner gets its turn.
        """
        tol, costs = self.tolerance(tol), self.bound.costs(Y.shape[1])
        if self.solver.name != "auto" or costs is None:
            return self._solve_iteratively(Y, tol, X0, callback)
        factorisation, iteration = costs
        max_iter = self.solver.max_iter
        fits = 8 * len(Y) ** 2 <= _MEMORY_SHARE * physical_memory()
        enough = max(_MIN_ITERATIONS, int(factorisation / iteration)) if fits else max_iter
        solution = self._solve_iteratively(Y, tol, X0, callback, min(enough, max_iter))
        if np.all(solution.residual <= tol):
            return solution
        if fits:
            # Where that fails, noise vanishes beside the kernel, and nothing else helps.
            with suppress(ValueError):
                exact = self._solve_by_factor(Y, tol)
                return replace(exact, n_iter=solution.n_iter)
        if not self.bound.has_single_product:
            return solution
        other: PreconditionerName = "knots"
        if isinstance(self.preconditioner, Knots):
            other = "pivoted-cholesky"
        again = replace(self, solver=replace(self.solver, preconditioner=other))
        second = again._solve_iteratively(Y, tol, solution.X, callback)
        return replace(second, n_iter=solution.n_iter + second.n_iter)

    def _solve_iteratively(
        self,
        Y: Array,
        tol: Array,
        X0: Array | None = None,
        callback: Report | None = None,
        max_iter: int | None = None,
    ) -> Solution:
        """Solve for as many right-hand sides at a time as there is work space for."""
        max_iter = self.solver.max_iter if max_iter is None else max_iter
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
        self, Y: Array, tol: Array, X0: Array | None, callback: Report | None, max_iter: int
    ) -> Solution:
        solve = self._iterative_solver(Y.shape[1])
        # Between the products of the core, BLAS has little to do; its threads would spin while
        # the core's want the cores.
        with blas_threads_at_most(1):
            return solve(self.multiply, B=Y, tol=tol, max_iter=max_iter, X0=X0, callback=callback)

    def _iterative_solver(self, n_outputs: int) -> Callable[..., Solution]:
        """Return the solver with all that it needs to know of the matrix."""
        if self.solver.name == "coordinate-descent":
            return partial(coordinate_descent, descend=self._descent())
        if self.solver.name == "greedy-block":
            return partial(
                greedy_block, columns=self._matrix_columns, diagonal=self.diagonal + self.s
            )
        near = self.preconditioner
        if self.bound.is_single:
            drowned = not survives_single_precision(self.diagonal.sum(), self.s)
            return partial(block_cg, preconditioner=near.solve if drowned else near.solve_cheaply)
        if n_outputs < _MIN_NESTED_OUTPUTS or not self.survives_single_precision:
            return partial(block_cg, preconditioner=near.solve)
        return partial(
            nested_cg,
            cheap_operator=self.multiply_cheaply,
            preconditioner=near.solve,
            cheap_preconditioner=near.solve_cheaply,
        )

    def _descent(self) -> Descent:
        """Return what takes steps in rows: weights of rows are noise of their own."""
        bound = self.bound
        if not isinstance(bound, MinimaBound):
            raise TypeError("the kernel has no columns")
        rows = _histrs.CoordinateDescent(bound.columns, bound.n_threads)
        r = np.ones(bound.n_rows) if self.row_scale is None else self.row_scale

        def descend(X: Array, B: Array, order: NDArray[np.int64]) -> Array:
            start, noise = scaled(r, X), self.s / r**2
            found = rows.descend(start, scaled(1 / r, B), noise, order, bound.n_threads)
            return scaled(1 / r, found)

        return descend

    def _matrix_columns(self, rows: NDArray[np.intp]) -> Array:
        """Return some columns of `K + s I`."""
        columns = scaled(self.row_scale, self.bound.columns_of_matrix(rows))
        if self.row_scale is not None:
            columns *= self.row_scale[rows]
        columns[rows, np.arange(len(rows))] += self.s
        return columns

    # ---- variances ---------------------------------------------------------------------------

    def latent_variance(
        self, X: Any, tol: float, n_outputs: int
    ) -> tuple[Array, NDArray[np.bool_]]:
        """Return `k(x, x) - k_x^T (K + s I)^-1 k_x` of every row, and whether it was solved."""
        bound = self.bound
        if self.uses_cholesky(n_outputs) and bound.has_weights:
            variance = in_row_blocks(X, lambda rows: self.factor.variance(bound.rows_of(rows)))
            return np.maximum(variance, 0.0), np.ones(len(variance), dtype=bool)
        prior = in_row_blocks(X, lambda rows: bound.prior(bound.rows_of(rows)))

        def cross(rows: slice) -> Array:
            return bound.cross(bound.rows_of(X[rows]))

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
        use_cholesky, size = self.uses_cholesky(n_outputs), _VARIANCE_BLOCK
        if use_cholesky:
            size = max(size, min(_ENTRIES // max(self.bound.n_rows, 1), _MOST_FACTORISED))
        for start in range(0, len(prior), size):
            rows = slice(start, start + size)
            k = scaled(self.row_scale, cross(rows))
            if use_cholesky:
                explained = self.factor.forms(k)
            else:
                # Rows of any scale are solved at scale 1.
                scale = largest_entries(k)
                scale[scale == 0.0] = 1.0
                limit = np.full(k.shape[1], tol)
                solution = self._solve_without_factor(k / scale, limit)
                explained = np.einsum("ij,ij->j", k, solution.X) * scale
                solved[rows] = solution.residual <= self.tolerance(limit)
            variance[rows] = prior[rows] - explained
        return np.maximum(variance, 0.0), solved

    def latent_covariance(self, X: Any) -> Array:
        """Return `k(X, X) - k_X^T (K + s I)^-1 k_X` of all pairs of rows."""
        T = self.bound.rows_of(X)
        k, prior = self.cross(T), self.bound.gram(T)
        if self.uses_cholesky(1):
            covariance: Array = prior - self.factor.form(k)
        else:
            scale = largest_entries(k)
            scale[scale == 0.0] = 1.0
            solution = self.solve(k / scale, np.full(k.shape[1], _COVARIANCE_TOLERANCE))
            covariance = prior - k.T @ (solution.X * scale)
        return 0.5 * (covariance + covariance.T)
