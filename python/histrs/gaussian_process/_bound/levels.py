"""A kernel on levels of columns, on its training rows: all is sums over levels."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import gen_batches

from histrs import _histrs
from histrs._solvers.cholesky import CholeskyFactor, inverse_of, inverse_of_lower
from histrs._solvers.preconditioners import Indices
from histrs._solvers.row_scale import scaled
from histrs._typing import Array
from histrs.gaussian_process._bound.base import Bound
from histrs.gaussian_process._bound.scores import Score
from histrs.gaussian_process._kernels.levels import LevelKernel, Term
from histrs.gaussian_process._options import Interpolation
from histrs.gaussian_process._state import PickledByFields

Codes = NDArray[np.uint16]

# Rows whose functions of all weights are in the cache at once.
_ROWS = 256


@dataclass(frozen=True, kw_only=True)
class LevelBound(PickledByFields, Bound):
    r"""`K` is :math:`\Phi V \Phi^T` with few weights: rows are codes, and a sum over codes is all.

    Rows as the kernel takes them are codes, of shape (n_terms, n_rows).
    """

    kernel: LevelKernel

    has_weights: ClassVar[bool] = True

    def functions(self, W: Array, T: Codes | None = None) -> Array:
        """Return functions with weights `W` at rows: `Phi W`."""
        return self.at(self.kernel.to_codes(W), self.rows if T is None else T)

    def at(self, tables: Array, T: Codes) -> Array:
        """Return the sums of what tables have at the codes of rows."""
        tables = np.ascontiguousarray(tables)
        return _histrs.level_scores(T, self.kernel.n_codes, tables, self.n_threads)

    def weights(self, V: Array, T: Codes | None = None) -> Array:
        """Return the transpose of that: `Phi^T V`."""
        codes, V = self.rows if T is None else T, np.ascontiguousarray(V)
        sums = _histrs.level_sums(codes, self.kernel.n_codes, V, self.n_threads)
        return self.kernel.to_weights(sums)

    def normal_matrix(self, row_scale: Array | None) -> Array:
        """Return `Phi^T R^2 Phi`, which others may hold, too."""
        counted = vars(self).get("_counted")
        if counted is None or counted.row_scale is not row_scale:
            counted = _Counted(self.rows, self.kernel.n_codes, row_scale, self.n_threads)
            vars(self)["_counted"] = counted
        return counted.normal_matrix(self.kernel, self.n_threads)

    def forms(self, Q: Array, T: Codes) -> Array:
        """Return the diagonal of `Phi S Phi^T` of rows, with `S` between codes."""
        return _histrs.level_forms(T, self.kernel.n_codes, Q, self.n_threads)

    def forms_by_feature(self, V: Array) -> Array:
        squares = self.kernel.prior[:, None] * self.weights(V) ** 2
        return np.vstack([squares[weights].sum(axis=0) for _, _, weights in self.kernel.columns])

    def weights_of_functions(self, V: Array) -> Array:
        """Return the weights with which functions are `K(X, X_train) V`."""
        return np.asarray(self.kernel.prior[:, None] * self.weights(V))

    def with_curves(self, V: Array) -> Array:
        """Return weights of training rows and, below them, of the monotone functions of a fit."""
        if not self.kernel.curves:
            return V
        return np.vstack([V, np.ones((1, V.shape[1]))])

    def tables(self, V: Array) -> Array:
        """Return `K(X, X_train) V` at each code; the intercept is of the first column.

        A last row of `V`, behind those of the training rows, multiplies monotone functions, which
        take the place of what the other rows say of their columns.
        """
        of_rows, of_curves = V[: self.n_rows], V[self.n_rows :]
        W = self.weights_of_functions(of_rows)
        found = self.kernel.to_codes(W)
        for k, curve in self.kernel.curves if len(of_curves) > 0 else []:
            found[self.kernel.parts[k][1]] = curve[:, None] * of_curves + (W[-1] if k == 0 else 0.0)
        return found

    @property
    def variances(self) -> Array:
        return self.diagonal - self.kernel.intercept_variance

    def product(self, V: Array) -> Array:
        return self.at(self.tables(V), self.rows)

    def factor(self, s: float, row_scale: Array | None) -> WeightFactor:
        """Return the factor of `K + s I`, in the scale of rows, by that of the weights."""
        return WeightFactor(self, s, row_scale)

    def check(self, solver: str) -> None:
        if solver not in ("auto", "cholesky"):
            raise ValueError(
                f"solver={solver!r} does not work with Intersection(levels=...): choose "
                '"auto" or "cholesky".'
            )

    def rows_of(self, X: Any) -> Codes:
        """Return the codes of rows."""
        return self.kernel.codes(X, self.n_threads)

    def prior(self, T: Codes) -> Array:
        return self.at(self.kernel.squared()[:, None], T)[:, 0]

    def gram(self, T: Codes) -> Array:
        return self._between(T, T)

    def cross(self, T: Codes) -> Array:
        return self._between(self.rows, T)

    def _between(self, T: Codes, others: Codes) -> Array:
        weights = self.weights(np.eye(others.shape[1]), others)
        return self.functions(self.kernel.prior[:, None] * weights, T)

    def cross_product(self, T: Codes, V: Array) -> Array:
        return self.at(self.tables(V), T)

    def score(self, V: Array, n_bins: int | None, interpolation: Interpolation) -> Score:
        return LevelScore(np.ascontiguousarray(self.tables(V)), self.kernel.n_codes)

    def intercepts(self, V: Array) -> Array:
        tables, columns = self.tables(V), self.kernel.columns
        return np.asarray(sum(column.means(tables[codes]) for column, codes, _ in columns))

    def with_kernel(self, kernel: LevelKernel) -> Self:
        changed = replace(self, kernel=kernel)
        if kernel.has_codes_of(self.kernel):
            names = ("rows", "_counted")
            vars(changed).update({name: vars(self)[name] for name in names if name in vars(self)})
        return changed

    def counted(self, weights: Array | None) -> Self:
        """Return the same of a kernel that knows how many rows are at each code."""
        V = np.ones((self.n_rows, 1)) if weights is None else weights[:, None]
        counts = _histrs.level_sums(self.rows, self.kernel.n_codes, V, self.n_threads)
        return self.with_kernel(self.kernel.with_counts(counts[:, 0]))

    def lighter(self) -> Self:
        changed = replace(self)
        vars(changed)["rows"] = self.rows
        return changed

    def inserted(self, X: Any, weights: Array | None) -> Self:
        return self._on(
            np.vstack([self.X, X]), np.hstack([self.rows, self.kernel.codes(X, self.n_threads)])
        )

    def removed(self, kept: Indices, removed: Indices) -> Self:
        return self._on(self.X[kept], np.ascontiguousarray(self.rows[:, kept]))

    def _on(self, X: Any, codes: Codes) -> Self:
        changed = replace(self, X=X)
        vars(changed)["rows"] = codes
        return changed


class _Counted:
    """How often codes occur together, and the normal matrix of the last functions of them."""

    def __init__(
        self, codes: Codes, n_codes: list[int], row_scale: Array | None, n_threads: int
    ) -> None:
        self.row_scale = row_scale
        weights = None if row_scale is None else np.square(row_scale)
        self._counts = _histrs.LevelCounts(codes, n_codes, weights, n_threads)
        self._terms: tuple[Term, ...] = ()
        self._normal = np.empty((0, 0))

    def normal_matrix(self, kernel: LevelKernel, n_threads: int) -> Array:
        if self._terms is not kernel.terms:
            functions = [term.functions for term in kernel.terms]
            self._normal = self._counts.normal_matrix(functions, n_threads)
            self._terms = kernel.terms
        return self._normal


class LevelScore(Score):
    """A score that is a table of levels."""

    def __init__(self, tables: Array, n_codes: list[int]) -> None:
        self._tables, self._n_codes, self.n_outputs = tables, n_codes, tables.shape[1]

    def evaluate(self, X: Any, n_threads: int) -> Array:
        return _histrs.level_scores(X, self._n_codes, self._tables, n_threads)


class WeightFactor:
    r"""What a Cholesky factor of `R K R + s I` tells, from a matrix of the weights alone.

    With :math:`M = s I + V^{1/2} \Phi^T R^2 \Phi V^{1/2}`,

    .. math:: (R \Phi V \Phi^T R + s I)^{-1}
              = (I - R \Phi V^{1/2} M^{-1} V^{1/2} \Phi^T R) / s.
    """

    def __init__(self, bound: LevelBound, s: float, row_scale: Array | None) -> None:
        self._bound, self._s, self._row_scale = bound, s, row_scale
        self._root = np.sqrt(bound.kernel.prior)
        M = self._root[:, None] * bound.normal_matrix(row_scale)
        M *= self._root
        self._factor = CholeskyFactor.with_noise(M, s, "Raise noise or lower amplitude.")

    def solve(self, B: Array) -> Array:
        """Return `(R K R + s I)^-1 B`."""
        r, root = self._row_scale, self._root[:, None]
        z = self._factor.solve(np.asfortranarray(root * self._bound.weights(scaled(r, B))))
        return np.asarray((B - scaled(r, self._bound.functions(root * z))) / self._s)

    def form(self, k: Array) -> Array:
        """Return `k^T (R K R + s I)^-1 k`."""
        return np.asarray(k.T @ self.solve(k))

    def forms(self, k: Array) -> Array:
        """Return the diagonal of that."""
        return np.asarray(np.einsum("ij,ij->j", k, self.solve(k)))

    def log_det(self) -> float:
        """Return `log det (R K R + s I)`."""
        others = (self._bound.n_rows - len(self._root)) * float(np.log(self._s))
        return self._factor.log_det() + others

    @cached_property
    def _covariance(self) -> Array:
        """The posterior covariance of the weights, over `s`."""
        covariance = inverse_of(self._factor.whole())
        covariance *= self._root
        covariance *= self._root[:, None]
        return covariance

    @cached_property
    def _between_codes(self) -> Array:
        """The same between any two codes: rows are predicted a block at a time, and often."""
        to_codes = self._bound.kernel.to_codes
        return np.ascontiguousarray(to_codes(to_codes(self._covariance).T))

    def covariance_of(self, weights: Any) -> Array:
        """Return the posterior covariance of some of the weights."""
        return np.asarray(self._s * self._covariance[weights][:, weights])

    def variance_of(self, ramps: Array, weights: Any) -> Array:
        """Return the posterior variances of functions that are ramps times some of the weights."""
        variance: Array = np.einsum("ij,ij->i", ramps @ self.covariance_of(weights), ramps)
        return np.maximum(variance, 0.0)

    def inverse_diagonal(self) -> Array:
        """Return the diagonal of `(R K R + s I)^-1`."""
        bound = self._bound
        # Of fewer rows than codes, hardly any two codes are met twice.
        if bound.n_rows < sum(bound.kernel.n_codes):
            leverages = self._leverages()
        else:
            leverages = bound.forms(self._between_codes, bound.rows)
        weights = 1.0 if self._row_scale is None else self._row_scale**2
        return np.asarray((1.0 - weights * leverages) / self._s)

    def _leverages(self) -> Array:
        """Return the posterior variances of training rows over `s`, by a root of the covariance."""
        rows, root = self._bound.rows, inverse_of_lower(self._factor.whole()).T
        tables = self._bound.kernel.to_codes(self._root[:, None] * root)
        found = np.empty(rows.shape[1])
        for some in gen_batches(len(found), _ROWS):
            functions = self._bound.at(tables, np.ascontiguousarray(rows[:, some]))
            found[some] = np.einsum("ij,ij->i", functions, functions)
        return found

    def variance(self, T: Any) -> Array:
        """Return the posterior variances of rows, without amplitude."""
        return self._s * self._bound.forms(self._between_codes, T)
