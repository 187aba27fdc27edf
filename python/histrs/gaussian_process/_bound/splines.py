"""The kernel matrix of smooth functions, never formed unless it is asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from histrs import _histrs
from histrs._checks.validation import to_core
from histrs._typing import Array, Matrix
from histrs.gaussian_process._bound.scores import Score

# Of larger entries, the variance of sums over features would overflow: it stays as here.
_LARGEST = 1e100


@dataclass(frozen=True)
class SmoothRows:
    """Training rows, each feature counted from its least value, and sorted."""

    T: Matrix
    """Non-negative, in double precision."""
    origins: Array
    """The least values."""
    masses: Array
    """What each row counts when functions are centred; the sum is 1."""
    columns: _histrs.SortedColumns

    @classmethod
    def of(cls, X: Matrix, masses: Array, n_threads: int) -> SmoothRows:
        """Take rows as they were weighted."""
        origins = np.zeros(X.shape[1])
        if X.shape[0] > 0:
            least: Any = X.min(axis=0)
            dense = least if isinstance(least, np.ndarray) else least.toarray()
            origins = np.asarray(dense, dtype=np.float64).ravel()
        T = shifted(X, origins)
        return cls(T, origins, masses, _histrs.SortedColumns(to_core(T), n_threads))

    def of_feature(self, feature: int, n_threads: int) -> SmoothRows:
        """Return the same rows with one feature alone."""
        column = self.T[:, [feature]]
        T = np.asarray(column.toarray() if sparse.issparse(column) else column, order="C")
        columns = _histrs.SortedColumns(T, n_threads)
        return SmoothRows(T, self.origins[[feature]], self.masses, columns)


def shifted(X: Matrix, origins: Array) -> Matrix:
    """Return `X - origins` in double precision; what has an origin above 0 holds no zeros."""
    if not sparse.issparse(X):
        return np.asarray(X, dtype=np.float64) - origins
    rows = sparse.csc_array(X, dtype=np.float64)
    above = np.flatnonzero(origins > 0.0)
    if len(above) == 0:
        return sparse.csr_array(rows)
    parts = [rows[:, [d]] for d in range(rows.shape[1])]
    for d in above:
        parts[d] = sparse.csc_array(rows[:, [d]].toarray() - origins[d])
    return sparse.csr_array(sparse.hstack(parts, format="csr"))


@dataclass(frozen=True)
class SmoothTerm:
    r"""The sum over features of kernels that are centred over the training rows.

    With :math:`t = x(d) - \min_i x_i(d)`, what is centred is

    .. math:: k(t, t') = \frac{s^2 (3 u - s)}{6} + a \, t t' + b \, s, \qquad
              s = \min(t, t')_+, \; u = \max(t, t')_+,

    the covariance of integrated Brownian motion, of lines of variance `a`, and of Brownian motion
    times `b`. Centring takes the mean of each function over the training rows away.
    """

    rows: SmoothRows
    slope_weight: float
    rough_weight: float
    """0 for none."""
    n_threads: int

    def of_feature(self, feature: int) -> SmoothTerm:
        """Return the part of one feature; the others of its rows do not matter."""
        rows = self.rows.of_feature(feature, self.n_threads)
        return SmoothTerm(rows, self.slope_weight, self.rough_weight, self.n_threads)

    def shifted(self, X: Matrix) -> Matrix:
        """Return rows counted from the origins; below them, entries are negative."""
        return shifted(X, self.rows.origins)

    def product(self, V: Array) -> Array:
        """Return the kernel matrix of the training rows times vectors."""
        product = self._sums(self.centred_weights(V))
        product -= self.rows.masses @ product
        return product

    def quadratic_forms(self, V: Array) -> dict[str, Array]:
        """Return `v^T K v` of every column, of the lines and of the Brownian motion alone."""
        V = self.centred_weights(V)
        projected = np.asarray(self.rows.T.T @ V)
        forms = {"slope_weight": self.slope_weight * np.sum(projected**2, axis=0)}
        if self.rough_weight > 0.0:
            of_columns = self.rows.columns.quadratic_forms(V, self.n_threads)
            forms["rough_weight"] = self.rough_weight * np.sum(of_columns, axis=0)
        return forms

    def centred_weights(self, V: Array) -> Array:
        """Return weights whose score is centred but for a constant."""
        return np.ascontiguousarray(V - np.outer(self.rows.masses, V.sum(axis=0)))

    def _sums(self, V: Array) -> Array:
        """Return the product with the kernel that is not centred."""
        rows = self.rows
        product = rows.columns.cubic_product(V, self.slope_weight, self.n_threads)
        if self.rough_weight > 0.0:
            product += self.rough_weight * rows.columns.product(V, self.n_threads)
        return product

    @cached_property
    def diagonal(self) -> Array:
        """The kernel of every training row with itself."""
        # Cubes of huge entries overflow, which is said where the system is checked.
        with np.errstate(over="ignore", invalid="ignore"):
            diagonal = self._squares(self.rows.T) - 2.0 * self._means + self._mean
        return np.maximum(np.where(np.isnan(diagonal), np.inf, diagonal), 0.0)

    @cached_property
    def _means(self) -> Array:
        """Means over the training rows of the kernel with each, not centred."""
        return np.asarray(self._sums(self.rows.masses[:, None])[:, 0])

    @cached_property
    def _mean(self) -> float:
        return float(self.rows.masses @ self._means)

    def prior(self, T: Matrix) -> Array:
        """Return the kernel of every shifted row with itself."""
        T = _within_range(T)
        return np.maximum(self._squares(T) - 2.0 * self._means_of(T) + self._mean, 0.0)

    def cross(self, T: Matrix) -> Array:
        """Return the kernel between the training rows and shifted ones."""
        return self.between(self.rows.T, T)

    def kernel_matrix(self) -> Array:
        """Return the kernel matrix of the training rows."""
        return self.between(self.rows.T)

    def between(self, T: Matrix, others: Matrix | None = None) -> Array:
        """Return the kernel between shifted rows and others, or all pairs of them."""
        T = T if T is self.rows.T else _within_range(T)
        others = None if others is None else _within_range(others)
        of_rows = self._means_of(T)
        K = self._gram(T, others)
        # Functions are less their means in either argument.
        K -= of_rows[:, None]
        K -= of_rows if others is None else self._means_of(others)
        K += self._mean
        return K

    def _means_of(self, T: Matrix) -> Array:
        """Return the means over the training rows of the kernel with shifted ones."""
        return self._means if T is self.rows.T else self._functions_of_means.evaluate(T)[:, 0]

    @cached_property
    def _functions_of_means(self) -> _Functions:
        return _Functions(self, np.ascontiguousarray(self.rows.masses[:, None]), None)

    def _gram(self, T: Matrix, others: Matrix | None) -> Array:
        above = clipped(T)
        of_others = None if others is None else to_core(clipped(others))
        K = _histrs.cubic_spline_gram(to_core(above), of_others, self.n_threads)
        right = T if others is None else others
        lines: Any = T @ right.T
        dense = lines if isinstance(lines, np.ndarray) else lines.toarray()
        K += self.slope_weight * np.asarray(dense, dtype=np.float64)
        if self.rough_weight > 0.0:
            minima = _histrs.intersection_gram(to_core(above), of_others, self.n_threads)
            K += self.rough_weight * minima
        return K

    def _squares(self, T: Matrix) -> Array:
        """Return the kernel of rows with themselves, not centred."""
        lines, above = T * T, clipped(T)
        total = np.asarray(lines.sum(axis=1)).ravel() * self.slope_weight
        total += np.asarray((above * above * above).sum(axis=1)).ravel() / 3.0
        if self.rough_weight > 0.0:
            total += self.rough_weight * np.asarray(above.sum(axis=1)).ravel()
        return total


def _within_range(T: Matrix) -> Matrix:
    """Return rows whose entries are no larger than numbers that have a cube."""
    return _of_entries(T, lambda entries: np.clip(entries, -_LARGEST, _LARGEST))


def clipped(T: Matrix) -> Matrix:
    """Return rows with 0 in place of what is negative."""
    return _of_entries(T, lambda entries: np.maximum(entries, 0.0))


def _of_entries(T: Matrix, change: Callable[[Array], Array]) -> Matrix:
    """Return rows with a function of each entry, which is 0 of 0."""
    if not sparse.issparse(T):
        return change(T)
    changed = T.copy()
    changed.data = change(changed.data)
    return changed


class _Functions:
    """Scores of shifted rows under the kernel that is not centred."""

    def __init__(self, term: SmoothTerm, V: Array, n_knots: int | None) -> None:
        rows, n_threads = term.rows, term.n_threads
        self._n_threads = n_threads
        self._cubic = _histrs.CubicFunctions(rows.columns, V, term.slope_weight, n_knots, n_threads)
        self._slopes = term.slope_weight * np.asarray(rows.T.T @ V)
        self._rough: _histrs.ShapeFunctions | _histrs.LookupTable | None = None
        if term.rough_weight > 0.0:
            rough = term.rough_weight * V
            if n_knots is None:
                self._rough = _histrs.ShapeFunctions(rows.columns, rough, n_threads)
            else:
                self._rough = _histrs.LookupTable(rows.columns, rough, n_knots, "linear", n_threads)

    def evaluate(self, T: Matrix) -> Array:
        clip = clipped(T)
        above = to_core(clip)
        scores = self._cubic.evaluate(above, self._n_threads)
        if self._rough is not None:
            scores += self._rough.evaluate(above, self._n_threads)
        below = T - clip
        if min(below.shape) > 0 and below.min() < 0.0:
            # Below the least training value, functions are lines.
            scores += np.asarray(below @ self._slopes)
        return scores


class SmoothScore(Score):
    """`K(X, X_train) V` for any rows `X`, from at most `n_knots` knots per feature, or from all."""

    def __init__(self, term: SmoothTerm, V: Array, n_knots: int | None = None) -> None:
        V = term.centred_weights(V)
        self._term = term
        self._functions = _Functions(term, V, n_knots)
        self._offset = term.rows.masses @ term._sums(V)
        self.n_outputs = V.shape[1]

    def evaluate(self, X: Matrix, n_threads: int) -> Array:
        scores = self._functions.evaluate(self._term.shifted(X))
        scores -= self._offset
        return scores
