"""The linear system of a Gaussian process: `(K + s I) B = Y` and what it predicts."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

from histrs import _histrs
from histrs._memory import physical_memory
from histrs._solvers.block_cg import Array, Solution, block_cg, largest_entries
from histrs._solvers.cholesky import CholeskyFactor, factorise_in_place
from histrs._solvers.coordinate_descent import coordinate_descent
from histrs._solvers.greedy_block import greedy_block
from histrs._solvers.nested_cg import nested_cg
from histrs._solvers.preconditioners import (
    Identity,
    Knots,
    Landmarks,
    LowRank,
    PivotedCholesky,
    Preconditioner,
    survives_single_precision,
)
from histrs._solvers.row_scale import scale_both_sides, scaled
from histrs._threads import blas_threads_at_most
from histrs._validation import Matrix, to_core
from histrs.gaussian_process._hyperparameters import LARGEST, Scales
from histrs.gaussian_process._interactions.kernel import PairRows
from histrs.gaussian_process._interactions.preconditioner import WithPairs
from histrs.gaussian_process._interactions.term import PairTerm
from histrs.gaussian_process._kernel import GeneralizedKernel
from histrs.gaussian_process._smooth.term import SmoothRows, SmoothScore, SmoothTerm

PreconditionerName: TypeAlias = Literal["auto", "knots", "pivoted-cholesky"] | None
SolverName: TypeAlias = Literal["auto", "cg", "cholesky", "coordinate-descent", "greedy-block"]

# Preconditioning with knots factorises a matrix of all knots of all columns. With as many as the
# root of the number of rows asks for, the iterations do not grow with it.
_KNOTS_PER_ROOT_OF_ROWS = 6.5
_MAX_KNOTS = 6144
_MIN_KNOTS_PER_COLUMN = 8
_MAX_KNOTS_PER_COLUMN = 255
# More columns have so few knots each that a low-rank preconditioner does better.
_MAX_KNOT_COLUMNS = 256
_MAX_RANK = 512
# Numbers in its factor at most, and the rank that it always may have: a lower one makes more
# iterations, each cheaper, in as much time.
_FACTOR_NUMBERS = 1 << 27
_MIN_RANK = 64

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

# The trace of the kernel matrix, times which the preconditioner counts as noise at least.
LEAST_NOISE = 1e-12

# Variance of the intercept, in means of the kernel over the rows: from 1 on, it hardly matters
# which.
VAGUE_INTERCEPT = 3.0

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


@dataclass(frozen=True)
class KernelSystem:
    """The matrix `K + s I` of the training rows, never formed unless the solver stores it.

    `K` is the generalised intersection kernel without amplitude and `s` the noise variance divided
    by the amplitude. Where rows have a `row_scale`, `K` is multiplied by it from both sides, and
    whatever has training rows is in these coordinates, but for the targets and weights of
    `solve_targets` and `cross_product`.
    """

    X: Matrix
    noise: float
    amplitude: float
    n_threads: int
    solver: SolverName
    preconditioner_name: PreconditionerName
    max_iter: int
    kernel: GeneralizedKernel = field(default_factory=GeneralizedKernel)
    base_columns: _histrs.SortedColumns | None = None
    """The columns of `X` where they are sorted already, ..."""
    transformed_columns: _histrs.SortedColumns | None = None
    """... and those of the kernel."""
    pair_rows: PairRows | None = None
    """The rows as the kernel's pairs see them, where that is known already."""
    smooth_rows: SmoothRows | None = None
    """The rows as smooth functions see them, likewise."""
    n_changed: int = 0
    """Rows that have come and gone since the preconditioner was made."""
    row_scale: Array | None = None
    """Roots of the weights of rows; None for 1."""
    iterates_first: bool = False
    """Whether no factor is made unless iterations fail, however cheap it looks."""

    def iterating_first(self) -> "KernelSystem":
        """Return the system, with all that is known of it, factorised only if it must be."""
        changed = replace(self, iterates_first=True)
        vars(changed).update({**vars(self), "iterates_first": True})
        return changed

    def with_scales(self, scales: Scales) -> "KernelSystem":
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

    def with_row_scale(self, row_scale: Array | None) -> "KernelSystem":
        """Return the system of other weights of rows, on the same sorted columns."""
        return replace(self.with_scales(Scales(self.noise, self.amplitude)), row_scale=row_scale)

    @property
    def s(self) -> float:
        """What is added to the diagonal of `K`."""
        return self.noise / self.amplitude

    def check(self) -> None:
        """Fail, with the place and the cure, where the system cannot be solved."""
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

    @cached_property
    def columns(self) -> _histrs.SortedColumns:
        """The training rows, as the kernel takes minima of them, with sorted columns."""
        if self.transformed_columns is not None:
            return self.transformed_columns
        return self.kernel.columns(self.sorted_base(), self.n_threads)

    def sorted_base(self) -> _histrs.SortedColumns:
        """Return the columns of `X`, sorted."""
        if self.base_columns is not None:
            return self.base_columns
        return self._sorted(self.X)

    def _sorted(self, X: Matrix) -> _histrs.SortedColumns:
        return _histrs.SortedColumns(to_core(X), self.n_threads)

    @cached_property
    def rows(self) -> Matrix:
        """The features that the kernel takes minima of."""
        return self.kernel.rows(self.X, self.n_threads)

    @cached_property
    def pairs(self) -> PairTerm | None:
        """The part of `K` that pairs of features add, whatever the scale of rows."""
        if self.kernel.pairs is None:
            return None
        rows = self.pair_rows
        if rows is None:
            rows = PairRows(self.kernel.pairs, self.X)
        return PairTerm(self.kernel.pairs, self.kernel.interaction_weight, rows)

    @cached_property
    def smooth(self) -> SmoothTerm | None:
        """What takes the place of the minima where functions are smooth, whatever row scale."""
        kernel = self.kernel
        if not kernel.is_smooth:
            return None
        rows = self.smooth_rows
        if rows is None:
            n = self.X.shape[0]
            masses = np.ones(n) if self.row_scale is None else self.row_scale**2
            rows = SmoothRows.of(self.rows, masses / np.sum(masses), self.n_threads)
        return SmoothTerm(rows, kernel.slope_weight, kernel.rough_weight, self.n_threads)

    @property
    def n_function_numbers(self) -> int:
        """Numbers that hold the functions of all features, of one output."""
        if self.smooth is None:
            return self.columns.n_knots
        return 4 * self.smooth.rows.columns.n_knots

    @property
    def intercept_variance(self) -> float:
        """What is added to every entry of `K`, whatever the scale of rows."""
        return self.kernel.intercept_variance

    @cached_property
    def diagonal(self) -> Array:
        """Diagonal of `K`."""
        return self._scaled_diagonal(self._variances + self.intercept_variance)

    @property
    def mean_variance(self) -> float:
        """Mean of the diagonal of `K` without the intercept."""
        return float(np.mean(self._scaled_diagonal(self._variances)))

    @property
    def vague_intercept(self) -> float:
        """Variance of an intercept of which little is known before the data."""
        return VAGUE_INTERCEPT * self.mean_variance

    @property
    def _variances(self) -> Array:
        """Kernel of each row with itself, whatever its scale, without the intercept."""
        return self.row_sums if self.pairs is None else self.row_sums + self.pairs.diagonal

    def _scaled_diagonal(self, values: Array) -> Array:
        return values if self.row_scale is None else self.row_scale**2 * values

    @cached_property
    def row_sums(self) -> Array:
        """Additive kernel of each row with itself, whatever its scale: the sum of minima's row."""
        if self.smooth is not None:
            return self.smooth.diagonal
        if self.kernel.is_plain:
            return _histrs.row_sums(to_core(self.X), self.n_threads)
        return self.columns.row_sums(self.n_threads)

    def prior(self, X: Matrix) -> Array:
        """Return `k(x, x)` of transformed rows."""
        if self.smooth is not None:
            return self.smooth.prior(self.smooth.shifted(X))
        prior = self._additive_prior(X)
        prior += self.intercept_variance
        others = self.kernel.pair_rows(X)
        if self.pairs is not None and others is not None:
            prior += self.pairs.prior(others)
        return prior

    def _additive_prior(self, X: Matrix) -> Array:
        return _histrs.row_sums(to_core(X), self.n_threads)

    def gram(self, X: Matrix) -> Array:
        """Return `K(X, X)` of transformed rows, in double precision."""
        if self.smooth is not None:
            return self.smooth.gram(self.smooth.shifted(X))
        K = _histrs.intersection_gram(
            to_core(X.astype(np.float64, copy=False)), None, self.n_threads
        )
        K += self.intercept_variance
        others = self.kernel.pair_rows(X)
        if self.pairs is not None and others is not None:
            K += self.pairs.gram(others)
        return K

    def product(self, V: Array) -> Array:
        """Return `K V`."""
        V = scaled(self.row_scale, V)
        if self.smooth is not None:
            return scaled(self.row_scale, self.smooth.product(V))
        product = self.columns.product(V, self.n_threads)
        self._add_intercepts(product, V)
        if self.pairs is not None:
            product += self.pairs.product(V)
        return scaled(self.row_scale, product)

    def intercepts(self, V: Array) -> Array:
        """Return what weights of the training rows, whatever their scale, add to all rows."""
        added: Array = self.intercept_variance * V.sum(axis=0)
        return added

    def _add_intercepts(self, product: Array, V: Array) -> None:
        """Add them in place; without an intercept, a product is not touched again."""
        if self.intercept_variance > 0.0:
            product += self.intercepts(V)

    def multiply(self, V: Array) -> Array:
        """Return `(K + s I) V`."""
        product = self.product(V)
        product += self.s * V
        return product

    @cached_property
    def preconditioner(self) -> Preconditioner | LowRank | Landmarks:
        """The preconditioner that was asked for, or that suits the shape of the data."""
        if self.smooth is not None and self.preconditioner_name is not None:
            return self._low_rank(self.smooth)
        additive = self._additive_preconditioner()
        if self.pairs is None or self.preconditioner_name is None:
            return additive
        return WithPairs.of(additive, self.pairs, self.kernel.weights, self.row_scale)

    @property
    def _noise_of_preconditioner(self) -> float:
        # With less, the inverse would be lost in rounding.
        return max(self.s, LEAST_NOISE * float(self.diagonal.sum()))

    @property
    def _rank(self) -> int:
        n_rows = self.X.shape[0]
        fits = max(_MIN_RANK, _FACTOR_NUMBERS // max(n_rows, 1))
        return int(min(_MAX_RANK, fits, max(1, n_rows // 8)))

    def _low_rank(self, smooth: SmoothTerm) -> LowRank:
        """Return some columns' approximation; smooth functions leave little beside it."""
        T = smooth.rows.T
        return LowRank(
            lambda rows: smooth.cross(T[rows]).T,
            smooth.diagonal,
            self._noise_of_preconditioner,
            self._rank,
            self.n_threads,
            self.row_scale,
        )

    @property
    def _name_of_preconditioner(self) -> PreconditionerName:
        """The preconditioner, chosen by the number of columns if it is to be."""
        if self.preconditioner_name != "auto":
            return self.preconditioner_name
        return "knots" if self.X.shape[1] <= _MAX_KNOT_COLUMNS else "pivoted-cholesky"

    @property
    def _n_knots(self) -> int:
        """Knots of a column."""
        n_rows, n_columns = self.X.shape
        wanted = min(_KNOTS_PER_ROOT_OF_ROWS * n_rows**0.5, _MAX_KNOTS) / max(n_columns, 1)
        return int(np.clip(wanted, _MIN_KNOTS_PER_COLUMN, _MAX_KNOTS_PER_COLUMN))

    def _additive_preconditioner(self) -> Preconditioner:
        s = self._noise_of_preconditioner
        name = self._name_of_preconditioner
        if name == "knots":
            return Knots(self.columns, s, self._n_knots, self.n_threads, self.row_scale)
        if name == "pivoted-cholesky":
            return PivotedCholesky(
                self.rows, self.row_sums, s, self._rank, self.n_threads, self.row_scale
            )
        return Identity()

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
        return factorisation, n_outputs * (0.5 * stored + 0.03 * 4 * _MAX_RANK * n)

    def kernel_matrix(self) -> Array:
        """Return `K`."""
        K = self.gram(self.rows) if self.smooth is None else self.smooth.kernel_matrix()
        scale_both_sides(self.row_scale, K)
        return K

    @cached_property
    def factor(self) -> CholeskyFactor:
        """Lower Cholesky factor of `K + s I`."""
        return self.factor_of(self.kernel_matrix())

    def factor_of(self, K: Array) -> CholeskyFactor:
        """Return the factor of `K + s I`, which takes the place of `K`, as the system has it."""
        K[np.diag_indices_from(K)] += self.s
        # LAPACK wants Fortran order, which the transpose has; it is the same matrix.
        try:
            return CholeskyFactor.of(factorise_in_place(K.T))
        except linalg.LinAlgError as error:
            raise ValueError(
                f"The kernel matrix plus noise is not positive definite: noise / amplitude = "
                f"{self.s:.1e} vanishes beside its largest entry, {self.diagonal.max():.1e}. "
                "Raise noise, lower amplitude or scale the features down."
            ) from error

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
            if self.row_scale is not None:
                raise ValueError(
                    'solver="coordinate-descent" knows no sample_weight: choose solver="auto".'
                )
            rows = _histrs.CoordinateDescent(self.columns, self.n_threads)
            return partial(
                coordinate_descent,
                descend=lambda X, B, order: rows.descend(X, B, self.s, order, self.n_threads),
            )
        if self.solver == "greedy-block":
            return partial(
                greedy_block, columns=self._matrix_columns, diagonal=self.diagonal + self.s
            )
        preconditioner = self.preconditioner.solve
        if n_outputs < _MIN_NESTED_OUTPUTS or not self._products_survive_single_precision:
            return partial(block_cg, preconditioner=preconditioner)
        return partial(
            nested_cg,
            cheap_operator=self._multiply_cheaply,
            preconditioner=preconditioner,
            cheap_preconditioner=self.preconditioner.solve_cheaply,
        )

    def _matrix_columns(self, rows: NDArray[np.intp]) -> Array:
        """Return some columns of `K + s I`."""
        columns = self.cross_kernel(self.rows[rows])
        if self.row_scale is not None:
            columns *= self.row_scale[rows]
        columns[rows, np.arange(len(rows))] += self.s
        return columns

    @property
    def _products_survive_single_precision(self) -> bool:
        """Whether products in single precision neither drown the noise nor leave the range."""
        if self.smooth is not None:
            return False
        trace = self.diagonal.sum()
        return survives_single_precision(trace, self.s) and self.s > 1e-15 and trace < 1e15

    def _multiply_cheaply(self, V: Array) -> Array:
        """Return nearly `(K + s I) V`: sums in single precision."""
        R = scaled(self.row_scale, V)
        product = self.columns.product_single(R, self.n_threads)
        self._add_intercepts(product, R)
        if self.pairs is not None:
            product += self.pairs.product(R)
        product = scaled(self.row_scale, product)
        product += self.s * V
        return product

    def latent_variance(
        self, X: Matrix, tol: float, n_outputs: int
    ) -> tuple[Array, NDArray[np.bool_]]:
        """Return `k(x, x) - k_x^T (K + s I)^-1 k_x` of every row, and whether it was solved."""
        X = self.kernel.rows(X, self.n_threads)
        return self.variance_of(
            self.prior(X), lambda rows: self._unscaled_cross_kernel(X[rows]), tol, n_outputs
        )

    def feature_covariances(self, X: Matrix) -> tuple[Array, Callable[[slice], Array]]:
        """Return the prior variances of what features of rows add, without pairs of features, ...

        ... and a function that gives the covariances of some of them with the training rows.
        """
        X = self.kernel.rows(X, self.n_threads)
        return self._additive_prior(X), lambda rows: self._additive_cross(X[rows])

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

    def cross_product(self, X: Matrix, V: Array) -> Array:
        """Return `K(X, X_train) V` of transformed rows."""
        V = np.ascontiguousarray(V)
        if self.smooth is not None:
            return SmoothScore(self.smooth, V).evaluate(X, self.n_threads)
        product = self._additive_cross_product(X, V)
        self._add_intercepts(product, V)
        others = self.kernel.pair_rows(X)
        if self.pairs is not None and others is not None:
            product += others.cells @ self.pairs.cell_values(V)
        return product

    def _additive_cross_product(self, X: Matrix, V: Array) -> Array:
        return self.columns.cross_product(to_core(X), V, self.n_threads)

    def cross_kernel(self, X: Matrix) -> Array:
        """Return `K(X_train, X)` of transformed rows in double precision."""
        return scaled(self.row_scale, self._unscaled_cross_kernel(X))

    def _unscaled_cross_kernel(self, X: Matrix) -> Array:
        K = self._additive_cross(X)
        K += self.intercept_variance
        others = self.kernel.pair_rows(X)
        if self.pairs is not None and others is not None:
            K += self.pairs.cross(others)
        return K

    def _additive_cross(self, X: Matrix) -> Array:
        if self.smooth is not None:
            return self.smooth.cross(self.smooth.shifted(X))
        left, right = (M.astype(np.float64, copy=False) for M in (self.rows, X))
        if sparse.issparse(left) != sparse.issparse(right):
            left, right = sparse.csr_array(left), sparse.csr_array(right)
        return _histrs.intersection_gram(to_core(left), to_core(right), self.n_threads)
