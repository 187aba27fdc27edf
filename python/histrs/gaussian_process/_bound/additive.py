"""Additive kernels on their training rows, by products that take time linear in these."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from histrs import _histrs
from histrs._checks.validation import to_core
from histrs._solvers.knots import Knots
from histrs._solvers.low_rank import PivotedCholesky
from histrs._solvers.preconditioners import Identity, Indices, Preconditioner
from histrs._typing import Array, Matrix
from histrs.gaussian_process._bound.base import AnyPreconditioner, Bound
from histrs.gaussian_process._bound.compact_scores import compact_score
from histrs.gaussian_process._bound.pairs import PairRows, PairTerm
from histrs.gaussian_process._bound.preconditioners import (
    MAX_RANK,
    n_knots_of,
    name_of,
    of_splines,
    rank_of,
)
from histrs.gaussian_process._bound.rows import stacked
from histrs.gaussian_process._bound.scores import (
    ExactScore,
    Score,
    ScoreWithIntercept,
    ScoreWithPairs,
    TabulatedScore,
)
from histrs.gaussian_process._bound.splines import SmoothRows, SmoothScore, SmoothTerm
from histrs.gaussian_process._bound.with_pairs import WithPairs
from histrs.gaussian_process._kernels.generalized import GeneralizedKernel
from histrs.gaussian_process._options import Interpolation, PreconditionerName
from histrs.gaussian_process._rows import appended, rows_of

# Above this many rows the stored matrix and its factor outgrow half a gigabyte.
_MAX_CHOLESKY_ROWS = 8192
# Iterations that a solve takes, more or less.
_ITERATIONS = 40
# Nanoseconds for which a factorisation is not worth avoiding.
_SHORT = 1e9
# Up to this many rows, and terms of the kernel matrix, likelihoods are exact.
_MAX_EXACT_ROWS = 2048
_MAX_EXACT_TERMS = 1 << 32


@dataclass(frozen=True, kw_only=True)
class AdditiveBound(Bound):
    """A sum of kernels of single features, by their sorted columns; and a constant."""

    X: Matrix
    n_threads: int
    kernel: GeneralizedKernel = field(default_factory=GeneralizedKernel)
    weights: Array | None = None
    """Weights of the rows, by which smooth functions are centred; None for 1."""
    base: _histrs.SortedColumns | None = None
    """The columns of `X`, where they are sorted already, ..."""
    transformed: _histrs.SortedColumns | None = None
    """... and those of the kernel."""

    has_single_product: ClassVar[bool] = True

    # ---- training rows -----------------------------------------------------------------------

    def _sorted(self) -> _histrs.SortedColumns:
        """Return the columns of `X`, sorted."""
        raise NotImplementedError

    @cached_property
    def sorted_base(self) -> _histrs.SortedColumns:
        """The columns of `X`, sorted."""
        return self._sorted() if self.base is None else self.base

    @cached_property
    def columns(self) -> _histrs.SortedColumns:
        """The training rows, as the kernel takes minima of them, with sorted columns."""
        if self.transformed is not None:
            return self.transformed
        return self.kernel.columns(self.sorted_base, self.n_threads)

    @cached_property
    def rows(self) -> Matrix:
        """The features that the kernel takes minima of."""
        return self.rows_of(self.X)

    def rows_of(self, X: Matrix) -> Matrix:
        """Return the features of rows that the kernel takes minima of."""
        return self.kernel.rows(X, self.n_threads)

    @cached_property
    def row_sums(self) -> Array:
        """Additive kernel of each row with itself: the sum of the row of minima."""
        return self.columns.row_sums(self.n_threads)

    @property
    def variances(self) -> Array:
        """Kernel of each row with itself, without the intercept."""
        return self.row_sums

    @cached_property
    def diagonal(self) -> Array:
        """Diagonal of `K`."""
        return self.variances + self.kernel.intercept_variance

    @property
    def n_function_numbers(self) -> int:  # type: ignore[override]
        """Numbers that hold the functions of all features, of one output."""
        return self.columns.n_knots

    # ---- products ----------------------------------------------------------------------------

    def product(self, V: Array) -> Array:
        """Return `K V`."""
        return self._with_intercepts(self.columns.product(V, self.n_threads), V)

    def product_f32(self, V: Array) -> Array:
        """Return nearly `K V`, with sums over minima in single precision."""
        return self._with_intercepts(self.columns.product_f32(V, self.n_threads), V)

    def intercepts(self, V: Array) -> Array:
        """Return what weights of the training rows add to all rows."""
        added: Array = self.kernel.intercept_variance * V.sum(axis=0)
        return added

    def _with_intercepts(self, product: Array, V: Array) -> Array:
        """Add them in place; without an intercept, a product is not touched again."""
        if self.kernel.intercept_variance > 0.0:
            product += self.intercepts(V)
        return product

    def forms_by_feature(self, V: Array) -> Array:
        """Return `v^T K_d v` for the part of each feature, a column for each `v`."""
        return self.columns.quadratic_forms(V, self.n_threads)

    def slopes(self, names: Collection[str], panel: Array, signs: Array) -> dict[str, Any]:
        """Return sums of quadratic forms of the derivatives of `K` by logarithms of parameters."""
        by_column = self.forms_by_feature(panel) @ signs
        found: dict[str, Any] = {"feature_weights": by_column}
        if "exponent" in names:
            slope, offset = self.kernel.slope_columns(self.sorted_base, self.n_threads)
            change = slope.quadratic_forms(panel, self.n_threads) @ signs
            derivative = float(np.sum(change) + offset * np.sum(by_column))
            found["exponent"] = self.kernel.exponent * derivative
        return found

    # ---- how systems are solved ----------------------------------------------------------------

    def costs(self, n_outputs: int) -> tuple[float, float] | None:
        """Return estimated nanoseconds of a factorisation and of an iteration, on one core.

        As measured: a term of the kernel matrix 0.15, a flop of LAPACK 0.03, a stored value and
        right-hand side of a product 0.5.
        """
        n, stored = self.n_rows, self.n_stored
        factorisation = 0.15 * n * stored / 2 + 0.03 * n**3 / 3
        return factorisation, n_outputs * (0.5 * stored + 0.03 * 4 * MAX_RANK * n)

    @property
    def n_stored(self) -> int:
        """How many numbers the training rows are."""
        n, d = self.X.shape
        return int(self.X.nnz) if sparse.issparse(self.X) else int(n * d)

    def prefers_factor(self, n_outputs: int) -> bool:
        """Say whether a factor is the better way to solve for so many right-hand sides."""
        costs = AdditiveBound.costs(self, n_outputs)
        if costs is None or self.n_rows > _MAX_CHOLESKY_ROWS:
            return False
        # The factor also makes exact variances cheap, which is worth some time; and it is sure.
        return bool(costs[0] < max(3 * _ITERATIONS * costs[1], _SHORT))

    @property
    def is_small(self) -> bool:
        """Whether a likelihood takes factors, and no estimates."""
        n = self.n_rows
        return bool(n <= _MAX_EXACT_ROWS and n * self.n_stored <= _MAX_EXACT_TERMS)

    def check(self, solver: str) -> None:
        """Refuse coordinate descent of what is not additive alone, and bad entries."""
        if solver == "coordinate-descent" and self.kernel.intercept_variance > 0.0:
            raise ValueError(
                "solver='coordinate-descent' solves the additive kernel alone: choose another one, "
                "or set intercept_variance=0."
            )
        # Sorting reads every value and names the first bad one.
        _ = self.columns

    # ---- other kernels and other rows ----------------------------------------------------------

    def with_kernel(self, kernel: GeneralizedKernel) -> Self:
        """Return another kernel on the same rows, with sorted columns where they are the same."""
        same = self.kernel.same_as(kernel)
        columns = self.columns if same and not kernel.is_plain else None
        return replace(self, kernel=kernel, base=self.sorted_base, transformed=columns)

    def removed(self, kept: Indices, removed: Indices) -> Self:
        """Return the kernel on the rows that are kept; both in ascending order."""
        base = self.sorted_base.remove(removed, self.n_threads)
        unused = self.kernel.is_plain or self.kernel.is_smooth
        columns = None if unused else self.columns.remove(removed, self.n_threads)
        shrunk = self._of_rows(self.X[kept], base, columns, rows_of(self.weights, kept))
        if not self.kernel.is_smooth:
            vars(shrunk)["row_sums"] = self.row_sums[kept]
            if not self.kernel.is_plain and "rows" in vars(self):
                vars(shrunk)["rows"] = self.rows[kept]
        return shrunk

    def _of_rows(
        self,
        X: Matrix,
        base: _histrs.SortedColumns,
        columns: _histrs.SortedColumns | None,
        weights: Array | None,
    ) -> Self:
        return replace(self, X=X, base=base, transformed=columns, weights=weights)


@dataclass(frozen=True, kw_only=True)
class MinimaBound(AdditiveBound):
    """Minima of features, or smooth functions of these; pairs of features; and a constant.

    In memory. Smooth functions take the place of the minima where the kernel has some.
    """

    pair_rows: PairRows | None = None
    """The rows as the kernel's pairs see them, where that is known already."""
    smooth_rows: SmoothRows | None = None
    """The rows as smooth functions see them, likewise."""

    # ---- training rows -----------------------------------------------------------------------

    def _sorted(self) -> _histrs.SortedColumns:
        return _histrs.SortedColumns(to_core(self.X), self.n_threads)

    @cached_property
    def pairs(self) -> PairTerm | None:
        """The part of `K` that pairs of features add."""
        if self.kernel.pairs is None:
            return None
        rows = self.pair_rows
        if rows is None:
            rows = PairRows(self.kernel.pairs, self.X)
        return PairTerm(self.kernel.pairs, self.kernel.interaction_weight, rows)

    @cached_property
    def smooth(self) -> SmoothTerm | None:
        """What takes the place of the minima where functions are smooth."""
        kernel = self.kernel
        if not kernel.is_smooth:
            return None
        rows = self.smooth_rows
        if rows is None:
            masses = np.ones(self.n_rows) if self.weights is None else self.weights
            rows = SmoothRows.of(self.rows, masses / np.sum(masses), self.n_threads)
        return SmoothTerm(rows, kernel.slope_weight, kernel.rough_weight, self.n_threads)

    @property
    def n_function_numbers(self) -> int:  # type: ignore[override]
        """Numbers that hold the functions of all features, of one output."""
        if self.smooth is None:
            return self.columns.n_knots
        return 4 * self.smooth.rows.columns.n_knots

    @property
    def has_single_product(self) -> bool:  # type: ignore[override]
        """Whether there is a product in single precision beside the exact one."""
        return self.smooth is None

    @property
    def has_nearby_rows(self) -> bool:  # type: ignore[override]
        """Whether the kernel is one of minima alone."""
        return self.smooth is None and self.pairs is None

    @property
    def variances(self) -> Array:
        """Kernel of each row with itself, without the intercept."""
        return self.row_sums if self.pairs is None else self.row_sums + self.pairs.diagonal

    @cached_property
    def row_sums(self) -> Array:
        """Additive kernel of each row with itself: the sum of the row of minima."""
        if self.smooth is not None:
            return self.smooth.diagonal
        if self.kernel.is_plain:
            return _histrs.row_sums(to_core(self.X), self.n_threads)
        return self.columns.row_sums(self.n_threads)

    # ---- products ----------------------------------------------------------------------------

    def product(self, V: Array) -> Array:
        """Return `K V`."""
        if self.smooth is None:
            return self._with_pairs(super().product(V), V)
        return self._with_intercepts(self.smooth.product(V), V)

    def product_f32(self, V: Array) -> Array:
        """Return nearly `K V`, with sums over minima in single precision."""
        return self._with_pairs(super().product_f32(V), V)

    def _with_pairs(self, product: Array, V: Array) -> Array:
        if self.pairs is not None:
            product += self.pairs.product(V)
        return product

    def matrix(self) -> Array:
        """Return `K`, as a new array in C order."""
        return self.gram(self.rows) if self.smooth is None else self.smooth.kernel_matrix()

    def slopes(self, names: Collection[str], panel: Array, signs: Array) -> dict[str, Any]:
        """Return sums of quadratic forms of the derivatives of `K` by logarithms of parameters."""
        if self.smooth is not None:
            forms = self.smooth.quadratic_forms(panel)
            return {name: float(form @ signs) for name, form in forms.items()}
        found = super().slopes(names, panel, signs)
        if self.pairs is not None:
            found["interaction_weight"] = float(self.pairs.quadratic_forms(panel) @ signs)
        return found

    # ---- how systems are solved ----------------------------------------------------------------

    def preconditioner(
        self, name: PreconditionerName, s: float, row_scale: Array | None
    ) -> AnyPreconditioner:
        """Return what is nearly the inverse of `K + s I`, in the scale of rows."""
        if self.smooth is not None and name is not None:
            return of_splines(self.smooth, s, self.n_rows, self.n_threads, row_scale)
        additive = self._of_minima(name, s, row_scale)
        if self.pairs is None or name is None:
            return additive
        return WithPairs.of(additive, self.pairs, self.kernel.weights, row_scale)

    def _of_minima(
        self, name: PreconditionerName, s: float, row_scale: Array | None
    ) -> Preconditioner:
        name = name_of(name, self.X.shape[1])
        if name == "knots":
            return Knots(self.columns, s, n_knots_of(self.X.shape), self.n_threads, row_scale)
        if name == "pivoted-cholesky":
            rank = rank_of(self.row_sums, s, row_scale)
            return PivotedCholesky(self.rows, self.row_sums, s, rank, self.n_threads, row_scale)
        return Identity()

    def check(self, solver: str) -> None:
        """Refuse coordinate descent of what is not additive alone, and bad entries."""
        if self.pairs is not None and solver == "coordinate-descent":
            raise ValueError(
                "solver='coordinate-descent' solves the additive kernel alone: choose another one "
                "for pairs of features."
            )
        # Of smooth functions, minima are asked for nothing.
        if self.smooth is None:
            super().check(solver)

    # ---- any rows ------------------------------------------------------------------------------

    def prior(self, T: Matrix) -> Array:
        """Return `k(x, x)` of rows."""
        return self._with_terms(self._additive_prior(T), T, PairTerm.prior)

    def gram(self, T: Matrix) -> Array:
        """Return `K(T, T)`, in double precision."""
        return self._with_terms(self._additive_gram(T), T, PairTerm.gram)

    def cross(self, T: Matrix) -> Array:
        """Return `K(X_train, T)`, in double precision."""
        return self._with_terms(self._additive_cross(T), T, PairTerm.cross)

    def _with_terms(
        self, K: Array, T: Matrix, of_pairs: Callable[[PairTerm, PairRows], Array]
    ) -> Array:
        """Add to an additive kernel of rows the intercept, and what pairs of features say."""
        K += self.kernel.intercept_variance
        others = self.kernel.pair_rows(T)
        if self.pairs is not None and others is not None:
            K += of_pairs(self.pairs, others)
        return K

    def _additive_prior(self, T: Matrix) -> Array:
        if self.smooth is not None:
            return self.smooth.prior(self.smooth.shifted(T))
        return _histrs.row_sums(to_core(T), self.n_threads)

    def _additive_gram(self, T: Matrix) -> Array:
        if self.smooth is not None:
            return self.smooth.gram(self.smooth.shifted(T))
        rows = to_core(T.astype(np.float64, copy=False))
        return _histrs.intersection_gram(rows, None, self.n_threads)

    def _additive_cross(self, T: Matrix) -> Array:
        if self.smooth is not None:
            return self.smooth.cross(self.smooth.shifted(T))
        return self._minima(self.rows, T)

    def _minima(self, left: Matrix, right: Matrix) -> Array:
        left, right = (M.astype(np.float64, copy=False) for M in (left, right))
        if sparse.issparse(left) != sparse.issparse(right):
            left, right = sparse.csr_array(left), sparse.csr_array(right)
        return _histrs.intersection_gram(to_core(left), to_core(right), self.n_threads)

    def columns_of_matrix(self, rows: Indices) -> Array:
        """Return some columns of `K`."""
        return self.cross(self.rows[rows])

    def cross_of(self, some: NDArray[np.intp], T: Matrix) -> Array:
        """Return `K(X_some, T)` of some training rows, of minima alone."""
        K = self._minima(self.rows_of(self.X[some]), T)
        K += self.kernel.intercept_variance
        return K

    def matrix_of(self, some: NDArray[np.intp]) -> Array:
        """Return `K` of some training rows, for a kernel of minima alone."""
        return self.gram(self.rows_of(self.X[some]))

    def cross_product(self, T: Matrix, V: Array) -> Array:
        """Return `K(T, X_train) V`."""
        V = np.ascontiguousarray(V)
        if self.smooth is not None:
            product = SmoothScore(self.smooth, V).evaluate(T, self.n_threads)
        else:
            product = self.columns.cross_product(to_core(T), V, self.n_threads)
        product = self._with_intercepts(product, V)
        others = self.kernel.pair_rows(T)
        if self.pairs is not None and others is not None:
            product += others.cells @ self.pairs.cell_values(V)
        return product

    def means_held_out(self, without: Bound, held: Indices, weights: Array) -> Array:
        """Return what weights of other rows say of those held out."""
        if self.smooth is None:
            return super().means_held_out(without, held, weights)
        # Functions are centred over the others.
        return without.cross_product(self.rows_of(self.X[held]), weights)

    def of_features(self, X: Matrix) -> tuple[Array, Callable[[slice], Array]]:
        """Return the prior variances of what features of rows add, without pairs of features, ...

        ... and a function that gives the covariances of some of them with the training rows.
        """
        T = self.rows_of(X)
        return self._additive_prior(T), lambda rows: self._additive_cross(T[rows])

    # ---- scores --------------------------------------------------------------------------------

    def score(self, V: Array, n_bins: int | None, interpolation: Interpolation) -> Score:
        """Return `K(X, X_train) V` for any rows; with bins, from tables."""
        if self.smooth is not None:
            return SmoothScore(self.smooth, V, n_bins)
        score = self._score_of_minima(V, n_bins, interpolation)
        if self.kernel.intercept_variance == 0.0:
            return score
        return ScoreWithIntercept(score, self.intercepts(V))

    def _score_of_minima(self, V: Array, n_bins: int | None, interpolation: Interpolation) -> Score:
        kernel, additive = self.kernel, self.columns
        score: Score
        if n_bins is None:
            # Cells of pairs are of rows as the kernel sees them.
            score = ExactScore(additive, V, self.n_threads, kernel if self.pairs is None else None)
        else:
            may_be_compact = self.pairs is None and kernel.transform == "identity"
            if may_be_compact and interpolation == "linear":
                given = additive, V, n_bins, self.n_threads, kernel.weights
                return compact_score(*given, lambda: self.rows)
            score = TabulatedScore(additive, V, n_bins, interpolation, self.n_threads)
        if self.pairs is None:
            return score
        return ScoreWithPairs(score, self.pairs, V, kernel.weights)

    # ---- other kernels and other rows ----------------------------------------------------------

    def reweighted(self, weights: Array | None) -> Self:
        """Return the kernel on rows of other weights, where it is centred by these."""
        same = weights is self.weights or self.smooth is None
        return self if same else replace(self, weights=weights, smooth_rows=None)

    def with_kernel(self, kernel: GeneralizedKernel) -> Self:
        """Return another kernel on the same rows, with what is known of them."""
        known_pairs = self.pairs is not None and kernel.pairs is self.kernel.pairs
        pair_rows = self.pairs.rows if known_pairs and self.pairs is not None else None
        if not kernel.is_smooth and not self.kernel.is_smooth:
            return replace(super().with_kernel(kernel), pair_rows=pair_rows)
        known = self.smooth is not None and kernel.is_smooth and self.kernel.same_as(kernel)
        return replace(
            self,
            kernel=kernel,
            transformed=None,
            pair_rows=pair_rows,
            smooth_rows=self.smooth.rows if known and self.smooth is not None else None,
        )

    def inserted(self, X: Matrix, weights: Array | None) -> Self:
        """Return the kernel on further rows behind these, of such weights; None is 1."""
        # Reads every entry and names the first bad one.
        base = self.sorted_base.insert(to_core(X), self.n_threads)
        T = self.rows_of(X)
        unused = self.kernel.is_plain or self.kernel.is_smooth
        columns = None if unused else self.columns.insert(to_core(T), self.n_threads)
        if weights is None and self.weights is not None:
            weights = np.ones(X.shape[0])
        every = appended(self.weights, self.n_rows, weights)
        grown = self._of_rows(stacked(self.X, X), base, columns, every)
        if self.smooth is None:
            new = _histrs.row_sums(to_core(T), self.n_threads)
            vars(grown)["row_sums"] = np.append(self.row_sums, new)
            if not self.kernel.is_plain and "rows" in vars(self):
                vars(grown)["rows"] = stacked(self.rows, T)
        return grown

    def _of_rows(
        self,
        X: Matrix,
        base: _histrs.SortedColumns,
        columns: _histrs.SortedColumns | None,
        weights: Array | None,
    ) -> Self:
        changed = super()._of_rows(X, base, columns, weights)
        return replace(changed, pair_rows=None, smooth_rows=None)
