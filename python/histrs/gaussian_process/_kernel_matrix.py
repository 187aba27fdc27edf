"""The kernel matrix of training rows, never formed unless it is asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from histrs import _histrs
from histrs._dask import is_dask
from histrs._solvers.block_cg import Array
from histrs._solvers.row_scale import scale_both_sides, scaled
from histrs._validation import Matrix, to_core
from histrs.gaussian_process._interactions.kernel import PairRows
from histrs.gaussian_process._interactions.term import PairTerm
from histrs.gaussian_process._kernel import GeneralizedKernel
from histrs.gaussian_process._smooth.term import SmoothRows, SmoothScore, SmoothTerm

# Variance of the intercept, in means of the kernel over the rows: from 1 on, it hardly matters
# which.
VAGUE_INTERCEPT = 3.0


@dataclass(frozen=True, kw_only=True)
class KernelMatrix:
    """The kernel `K` of the training rows, and between them and others.

    `K` is the generalised intersection kernel without amplitude: an additive kernel, of minima or
    of smooth functions, what pairs of features add, and a constant for the intercept. Where rows
    have a `row_scale`, `K` is multiplied by it from both sides, and whatever has training rows is
    in these coordinates, but for the weights of `cross_product`.
    """

    X: Matrix
    n_threads: int
    kernel: GeneralizedKernel = field(default_factory=GeneralizedKernel)
    base_columns: _histrs.SortedColumns | None = None
    """The columns of `X` where they are sorted already, ..."""
    transformed_columns: _histrs.SortedColumns | None = None
    """... and those of the kernel."""
    pair_rows: PairRows | None = None
    """The rows as the kernel's pairs see them, where that is known already."""
    smooth_rows: SmoothRows | None = None
    """The rows as smooth functions see them, likewise."""
    row_scale: Array | None = None
    """Roots of the weights of rows; None for 1."""

    # ---- training rows -----------------------------------------------------------------------

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

    # ---- products ----------------------------------------------------------------------------

    def product(self, V: Array) -> Array:
        """Return `K V`."""
        return self._product_by(self._additive_product, V)

    def product_f32(self, V: Array) -> Array:
        """Return nearly `K V`: sums over minima in single precision."""
        return self._product_by(lambda V: self.columns.product_f32(V, self.n_threads), V)

    def _product_by(self, additive: Callable[[Array], Array], V: Array) -> Array:
        """Return `K V`, with the additive kernel's product as it is given."""
        V = scaled(self.row_scale, V)
        product = additive(V)
        self._add_intercepts(product, V)
        if self.pairs is not None:
            product += self.pairs.product(V)
        return scaled(self.row_scale, product)

    def _additive_product(self, V: Array) -> Array:
        if self.smooth is not None:
            return self.smooth.product(V)
        return self.columns.product(V, self.n_threads)

    def intercepts(self, V: Array) -> Array:
        """Return what weights of the training rows, whatever their scale, add to all rows."""
        added: Array = self.intercept_variance * V.sum(axis=0)
        return added

    def _add_intercepts(self, product: Array, V: Array) -> None:
        """Add them in place; without an intercept, a product is not touched again."""
        if self.intercept_variance > 0.0:
            product += self.intercepts(V)

    def kernel_matrix(self) -> Array:
        """Return `K`."""
        K = self.gram(self.rows) if self.smooth is None else self.smooth.kernel_matrix()
        scale_both_sides(self.row_scale, K)
        return K

    # ---- any rows ----------------------------------------------------------------------------

    def prior(self, X: Matrix) -> Array:
        """Return `k(x, x)` of transformed rows."""
        return self._with_terms(self._additive_prior(X), X, PairTerm.prior)

    def _with_terms(
        self, K: Array, X: Matrix, of_pairs: Callable[[PairTerm, PairRows], Array]
    ) -> Array:
        """Add to an additive kernel of rows the intercept, and what pairs of features say."""
        K += self.intercept_variance
        others = self.kernel.pair_rows(X)
        if self.pairs is not None and others is not None:
            K += of_pairs(self.pairs, others)
        return K

    def _additive_prior(self, X: Matrix) -> Array:
        if self.smooth is not None:
            return self.smooth.prior(self.smooth.shifted(X))
        return _histrs.row_sums(to_core(X), self.n_threads)

    def gram(self, X: Matrix) -> Array:
        """Return `K(X, X)` of transformed rows, in double precision."""
        return self._with_terms(self._additive_gram(X), X, PairTerm.gram)

    def _additive_gram(self, X: Matrix) -> Array:
        if self.smooth is not None:
            return self.smooth.gram(self.smooth.shifted(X))
        rows = to_core(X.astype(np.float64, copy=False))
        return _histrs.intersection_gram(rows, None, self.n_threads)

    def cross_product(self, X: Matrix, V: Array) -> Array:
        """Return `K(X, X_train) V` of transformed rows."""
        V = np.ascontiguousarray(V)
        product = self._additive_cross_product(X, V)
        self._add_intercepts(product, V)
        others = self.kernel.pair_rows(X)
        if self.pairs is not None and others is not None:
            product += others.cells @ self.pairs.cell_values(V)
        return product

    def _additive_cross_product(self, X: Matrix, V: Array) -> Array:
        if self.smooth is not None:
            return SmoothScore(self.smooth, V).evaluate(X, self.n_threads)
        return self.columns.cross_product(to_core(X), V, self.n_threads)

    def cross_kernel(self, X: Matrix) -> Array:
        """Return `K(X_train, X)` of transformed rows in double precision."""
        return scaled(self.row_scale, self._unscaled_cross_kernel(X))

    def _unscaled_cross_kernel(self, X: Matrix) -> Array:
        return self._with_terms(self._additive_cross(X), X, PairTerm.cross)

    def _additive_cross(self, X: Matrix) -> Array:
        if self.smooth is not None:
            return self.smooth.cross(self.smooth.shifted(X))
        return self._minima(self.rows, X)

    def _minima(self, left: Matrix, right: Matrix) -> Array:
        left, right = (M.astype(np.float64, copy=False) for M in (left, right))
        if sparse.issparse(left) != sparse.issparse(right):
            left, right = sparse.csr_array(left), sparse.csr_array(right)
        return _histrs.intersection_gram(to_core(left), to_core(right), self.n_threads)

    def cross_kernel_of(self, some: NDArray[np.intp], X: Matrix) -> Array:
        """Return `K(X_some, X)` of some training rows and transformed ones, of minima alone."""
        K = self._minima(self._rows_of(some), X)
        K += self.intercept_variance
        return scaled(None if self.row_scale is None else self.row_scale[some], K)

    def kernel_matrix_of(self, some: NDArray[np.intp]) -> Array:
        """Return `K` of some training rows, for a kernel of minima alone."""
        K = self.gram(self._rows_of(some))
        scale_both_sides(None if self.row_scale is None else self.row_scale[some], K)
        return K

    @property
    def has_nearby_rows(self) -> bool:
        """Whether the kernel is one of minima alone, of data in memory."""
        return self.smooth is None and self.pairs is None and not is_dask(self.X)

    def kernel_rows(self, X: Matrix) -> Matrix:
        """Return the features of rows that the kernel takes minima of."""
        return self.kernel.rows(X, self.n_threads)

    def _rows_of(self, some: NDArray[np.intp]) -> Matrix:
        return self.kernel.rows(self.X[some], self.n_threads)

    def feature_covariances(self, X: Matrix) -> tuple[Array, Callable[[slice], Array]]:
        """Return the prior variances of what features of rows add, without pairs of features, ...

        ... and a function that gives the covariances of some of them with the training rows.
        """
        X = self.kernel.rows(X, self.n_threads)
        return self._additive_prior(X), lambda rows: self._additive_cross(X[rows])
