"""Additive kernels on their training rows, by products that take time linear in these."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

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
from histrs.gaussian_process._bound.pairs import PairRows, PairTerm
from histrs.gaussian_process._bound.preconditioners import (
    MAX_RANK,
    WithPairs,
    n_knots_of,
    name_of,
    of_splines,
    rank_of,
)
from histrs.gaussian_process._bound.scores import (
    ExactScore,
    PairScore,
    Score,
    SumOfScores,
    TabulatedScore,
    compact_score,
)
from histrs.gaussian_process._bound.splines import SmoothRows, SmoothScore, SmoothTerm
from histrs.gaussian_process._kernels.algebra import stacked
from histrs.gaussian_process._kernels.base import double_pair
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
class MinimaBound(Bound):
    """Minima of features, by their sorted columns; pairs of features; and a constant.

    Smooth functions of features take the place of the minima where the kernel has some.
    """

    X: Matrix
    n_threads: int
    kernel: GeneralizedKernel = field(default_factory=GeneralizedKernel)
    weights: Array | None = None
    """Weights of the rows, by which smooth functions are centred; None for 1."""
    base: _histrs.SortedColumns | None = None
    """The columns of `X`, where they are sorted already, ..."""
    transformed: _histrs.SortedColumns | None = None
    """... and those of the kernel."""
    pair_rows: PairRows | None = None
    """The rows as the kernel's pairs see them, where that is known already."""
    smooth_rows: SmoothRows | None = None
    """The rows as smooth functions see them, likewise."""

    # ---- training rows -----------------------------------------------------------------------

    def _sorted(self) -> _histrs.SortedColumns:
        return _histrs.SortedColumns(to_core(self.X), self.n_threads)

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

    def rows_of(self, X: Matrix) -> Matrix:
        """Return the features of rows that the kernel takes minima of."""
        return self.kernel.rows(X, self.n_threads)

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
        if self.smooth is None:
            return self.columns.n_knots
        return 4 * self.smooth.rows.columns.n_knots

    @property
    def has_single_product(self) -> bool:  # type: ignore[override]
        return self.smooth is None

    @property
    def has_nearby_rows(self) -> bool:  # type: ignore[override]
        return self.smooth is None and self.pairs is None

    @cached_property
    def row_sums(self) -> Array:
        """Kernel of each row with itself, without pairs: the sum of the row of minima."""
        if self.smooth is not None:
            return self.smooth.diagonal
        return self.columns.row_sums(self.n_threads)

    @property
    def variances(self) -> Array:
        return self.row_sums if self.pairs is None else self.row_sums + self.pairs.diagonal

    @cached_property
    def diagonal(self) -> Array:
        return self.variances + self.kernel.intercept_variance

    # ---- products ----------------------------------------------------------------------------

    def product(self, V: Array) -> Array:
        if self.smooth is not None:
            return self._with_intercepts(self.smooth.product(V), V)
        return self._with_terms(self.columns.product(V, self.n_threads), V)

    def product_f32(self, V: Array) -> Array:
        return self._with_terms(self.columns.product_f32(V, self.n_threads), V)

    def _with_terms(self, product: Array, V: Array) -> Array:
        product = self._with_intercepts(product, V)
        if self.pairs is not None:
            product += self.pairs.product(V)
        return product

    def intercepts(self, V: Array) -> Array:
        return np.asarray(self.kernel.intercept_variance * V.sum(axis=0))

    def _with_intercepts(self, product: Array, V: Array) -> Array:
        """Add them in place; without an intercept, a product is not touched again."""
        if self.kernel.intercept_variance > 0.0:
            product += self.intercepts(V)
        return product

    def matrix(self) -> Array:
        return super().matrix() if self.smooth is None else self.smooth.kernel_matrix()

    def forms_by_feature(self, V: Array) -> Array:
        return self.columns.quadratic_forms(V, self.n_threads)

    def slopes(self, names: Collection[str], panel: Array, signs: Array) -> dict[str, Any]:
        if self.smooth is not None:
            forms = self.smooth.quadratic_forms(panel)
            return {name: float(form @ signs) for name, form in forms.items()}
        by_column = self.forms_by_feature(panel) @ signs
        found: dict[str, Any] = {"feature_weights": by_column}
        if "exponent" in names:
            slope, offset = self.kernel.slope_columns(self.sorted_base, self.n_threads)
            change = slope.quadratic_forms(panel, self.n_threads) @ signs
            derivative = float(np.sum(change) + offset * np.sum(by_column))
            found["exponent"] = self.kernel.exponent * derivative
        if self.pairs is not None:
            found["interaction_weight"] = float(self.pairs.quadratic_forms(panel) @ signs)
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
        costs = MinimaBound.costs(self, n_outputs)
        if costs is None or self.n_rows > _MAX_CHOLESKY_ROWS:
            return False
        # The factor also makes exact variances cheap, which is worth some time; and it is sure.
        return bool(costs[0] < max(3 * _ITERATIONS * costs[1], _SHORT))

    @property
    def is_small(self) -> bool:
        n = self.n_rows
        return bool(n <= _MAX_EXACT_ROWS and n * self.n_stored <= _MAX_EXACT_TERMS)

    def preconditioner(
        self, name: PreconditionerName, s: float, row_scale: Array | None
    ) -> AnyPreconditioner:
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
        only = "solver='coordinate-descent' takes no pairs and no intercept: choose another solver"
        if solver == "coordinate-descent" and self.pairs is not None:
            raise ValueError(f"{only}, or leave out Interactions.")
        # Of smooth functions, minima are asked for nothing.
        if self.smooth is not None:
            return
        if solver == "coordinate-descent" and self.kernel.intercept_variance > 0.0:
            raise ValueError(f"{only}, or set intercept_variance=0.")
        # Sorting reads every value and names the first bad one.
        _ = self.columns

    # ---- any rows ------------------------------------------------------------------------------

    def prior(self, T: Matrix) -> Array:
        return self._with_others(self._additive_prior(T), T, PairTerm.prior)

    def gram(self, T: Matrix) -> Array:
        smooth = self.smooth
        K = self._minima(T, None) if smooth is None else smooth.between(smooth.shifted(T))
        return self._with_others(K, T, PairTerm.gram)

    def cross(self, T: Matrix) -> Array:
        return self._with_others(self._additive_cross(T), T, PairTerm.cross)

    def _with_others(
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

    def _additive_cross(self, T: Matrix) -> Array:
        if self.smooth is not None:
            return self.smooth.cross(self.smooth.shifted(T))
        return self._minima(self.rows, T)

    def _minima(self, left: Matrix, right: Matrix | None) -> Array:
        return _histrs.intersection_gram(*double_pair(left, right), self.n_threads)

    def cross_of(self, some: NDArray[np.intp], T: Matrix) -> Array:
        """Return `K(X_some, T)` of some training rows, of minima alone."""
        K = self._minima(self.rows_of(self.X[some]), T)
        K += self.kernel.intercept_variance
        return K

    def cross_product(self, T: Matrix, V: Array) -> Array:
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
        if self.smooth is not None:
            return SmoothScore(self.smooth, V, n_bins)
        score = self._score_of_minima(V, n_bins, interpolation)
        if self.pairs is not None:
            score = SumOfScores(score, PairScore(self.pairs, V, self.kernel.weights))
        if self.kernel.intercept_variance == 0.0:
            return score
        return SumOfScores(score, intercepts=self.intercepts(V))

    def _score_of_minima(self, V: Array, n_bins: int | None, interpolation: Interpolation) -> Score:
        kernel, n_threads = self.kernel, self.n_threads
        if n_bins is None:
            # Cells of pairs are of rows as the kernel sees them.
            return ExactScore(self.columns, V, n_threads, kernel if self.pairs is None else None)
        may_be_compact = self.pairs is None and kernel.transform == "identity"
        if may_be_compact and interpolation == "linear":
            given = self.columns, V, n_bins, n_threads, kernel.weights
            return compact_score(*given, lambda: self.rows)
        return TabulatedScore(self.columns, V, n_bins, interpolation, n_threads)

    # ---- other kernels and other rows ----------------------------------------------------------

    def with_kernel(self, kernel: GeneralizedKernel) -> Self:
        same = self.kernel.same_as(kernel)
        pairs = self.pairs if kernel.pairs is self.kernel.pairs else None
        pair_rows = None if pairs is None else pairs.rows
        if not kernel.is_smooth and not self.kernel.is_smooth:
            columns = self.columns if same and not kernel.is_plain else None
            known: dict[str, Any] = {
                "base": self.sorted_base,
                "transformed": columns,
                "pair_rows": pair_rows,
            }
            return replace(self, kernel=kernel, **known)
        smooth = self.smooth if same and kernel.is_smooth else None
        rows = None if smooth is None else smooth.rows
        known = {"transformed": None, "pair_rows": pair_rows, "smooth_rows": rows}
        return replace(self, kernel=kernel, **known)

    def reweighted(self, weights: Array | None) -> Self:
        same = weights is self.weights or self.smooth is None
        return self if same else replace(self, weights=weights, smooth_rows=None)

    def inserted(self, X: Matrix, weights: Array | None) -> Self:
        # Reads every entry and names the first bad one.
        base = self.sorted_base.insert(to_core(X), self.n_threads)
        T = self.rows_of(X)
        columns = self.columns.insert(to_core(T), self.n_threads) if self._keeps_columns else None
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

    def removed(self, kept: Indices, removed: Indices) -> Self:
        base = self.sorted_base.remove(removed, self.n_threads)
        columns = self.columns.remove(removed, self.n_threads) if self._keeps_columns else None
        shrunk = self._of_rows(self.X[kept], base, columns, rows_of(self.weights, kept))
        if not self.kernel.is_smooth:
            vars(shrunk)["row_sums"] = self.row_sums[kept]
            if not self.kernel.is_plain and "rows" in vars(self):
                vars(shrunk)["rows"] = self.rows[kept]
        return shrunk

    @property
    def _keeps_columns(self) -> bool:
        """Whether columns are others than those of `X`, and asked for."""
        return not (self.kernel.is_plain or self.kernel.is_smooth)

    def _of_rows(
        self,
        X: Matrix,
        base: _histrs.SortedColumns,
        columns: _histrs.SortedColumns | None,
        weights: Array | None,
    ) -> Self:
        known: dict[str, Any] = {
            "base": base,
            "transformed": columns,
            "pair_rows": None,
            "smooth_rows": None,
        }
        return replace(self, X=X, weights=weights, **known)
