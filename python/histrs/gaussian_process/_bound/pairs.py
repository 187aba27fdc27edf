"""Pairs of features beside an additive kernel: products of Brownian motions on grids of knots."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

from histrs._typing import Array, Matrix
from histrs.gaussian_process._state import PickledByFields

Pair = tuple[int, int]

# Part of the largest eigenvalue of a feature's covariance below which the others are rounding.
_RANK_TOLERANCE = 1e-12


@dataclass(frozen=True)
class PairKernel(PickledByFields):
    r"""`sum_(i, j) c_i(x(i), x'(i)) c_j(x(j), x'(j))` over some pairs of features.

    A feature is read on knots, quantiles of its training values, and a line between them. Among the
    knots of a feature, `c` is the covariance of :math:`B - \bar B`, a Brownian motion less its mean
    over the training rows. It takes steps of one from knot to knot, so neither the unit of the
    feature nor its origin matters. `c` is divided by its mean over the rows, so that pairs count
    alike. A pair's function has a mean of 0 over the training values of either feature, whatever
    the other one is. So it holds no main effect: this is the functional analysis of variance in the
    product of the two marginal distributions.
    """

    pairs: NDArray[np.intp]
    """Of shape (n_pairs, 2), the lesser feature first."""
    knots: tuple[Array, ...]
    """Of each of `features`, ascending."""
    covariances: tuple[Array, ...]
    """Of each of `features`, among its knots."""

    @classmethod
    def of(cls, X: Matrix, pairs: NDArray[np.intp], n_knots: int) -> PairKernel:
        """Take knots and covariances from training rows."""
        columns = dense_columns(X, np.unique(pairs))
        knots, covariances = grids_of(columns, n_knots)
        return cls(pairs, tuple(knots), tuple(covariances))

    @cached_property
    def features(self) -> NDArray[np.intp]:
        """The features of all pairs, ascending."""
        return np.unique(self.pairs)

    @cached_property
    def indices(self) -> list[Pair]:
        """The indices of each pair's features among `features`."""
        return [(int(i), int(j)) for i, j in np.searchsorted(self.features, self.pairs)]

    @cached_property
    def shapes(self) -> list[tuple[int, int]]:
        """How many knots the features of each pair have."""
        return [(len(self.knots[i]), len(self.knots[j])) for i, j in self.indices]

    @cached_property
    def starts(self) -> NDArray[np.intp]:
        """Where the cells of each pair start among all cells, and where the last end."""
        sizes = [n_i * n_j for n_i, n_j in self.shapes]
        return np.append(0, np.cumsum(np.array(sizes, dtype=np.intp)))

    def covary(self, V: Array) -> Array:
        """Return the covariance matrix of all cells times vectors, of shape (n_cells, n)."""
        product = np.empty_like(V)
        for k in range(len(self.pairs)):
            part = slice(self.starts[k], self.starts[k + 1])
            product[part] = self.covary_pair(k, V[part])
        return product

    def covary_pair(self, k: int, V: Array) -> Array:
        """Return the covariance matrix of the cells of one pair times vectors."""
        i, j = self.indices[k]
        T = V.reshape(*self.shapes[k], -1)
        T = np.tensordot(self.covariances[i], T, axes=1)
        return np.asarray(np.einsum("ab,cbm->cam", self.covariances[j], T).reshape(V.shape))

    @cached_property
    def root(self) -> sparse.csc_array:
        """`B` with `B B^T` the covariance matrix of all cells."""
        roots = [_root(C) for C in self.covariances]
        blocks = [np.kron(roots[i], roots[j]) for i, j in self.indices]
        return sparse.csc_array(sparse.block_diag(blocks, format="csc"))


class PairRows:
    """Rows as the pairs see them: where their features lie among the knots."""

    def __init__(self, kernel: PairKernel, rows: Matrix, weights: Array | None = None) -> None:
        """Look rows up, whose features were multiplied by `weights`."""
        self._kernel = kernel
        columns = dense_columns(rows, kernel.features)
        cells = []
        for column, feature, knots in zip(columns.T, kernel.features, kernel.knots, strict=True):
            scaled = knots if weights is None else knots * weights[feature]
            cells.append(cell_among(column, scaled))
        self._cells = cells

    @cached_property
    def cells(self) -> sparse.csr_array:
        """The fraction of every cell, a pair of knots, in each row: four of each pair."""
        kernel = self._kernel
        n = len(self._cells[0][0])
        shares = np.empty((n, len(kernel.indices), 2, 2))
        indices = np.empty(shares.shape, dtype=np.int32)
        for k, (i, j) in enumerate(kernel.indices):
            (left_i, share_i), (left_j, share_j) = self._cells[i], self._cells[j]
            n_i, n_j = kernel.shapes[k]
            for a in (0, 1):
                at_i = np.minimum(left_i + a, n_i - 1)
                for b in (0, 1):
                    at_j = np.minimum(left_j + b, n_j - 1)
                    indices[:, k, a, b] = kernel.starts[k] + at_i * n_j + at_j
                    shares[:, k, a, b] = _share(share_i, a) * _share(share_j, b)
        width = 4 * len(kernel.indices)
        ends = np.arange(n + 1, dtype=np.int64) * width
        return sparse.csr_array(
            (shares.ravel(), indices.ravel(), ends), shape=(n, int(kernel.starts[-1]))
        )

    @cached_property
    def diagonal(self) -> Array:
        """The kernel of every row with itself."""
        return np.asarray(self.diagonals.sum(axis=1))

    @cached_property
    def diagonals(self) -> Array:
        """The kernel of every row with itself, a column for each pair."""
        kernel = self._kernel
        pairs = zip(self._cells, kernel.covariances, strict=True)
        found = [_variances(*of_rows, C) for of_rows, C in pairs]
        columns = [found[i] * found[j] for i, j in kernel.indices]
        return np.column_stack(columns)


@dataclass(frozen=True)
class PairTerm:
    """`w H C H^T`: cells `H` of the training rows, covariance `C` of cells, weight `w`."""

    kernel: PairKernel
    weight: float
    rows: PairRows

    @property
    def diagonal(self) -> Array:
        """The diagonal of the term."""
        return self.weight * self.rows.diagonal

    def cell_values(self, V: Array) -> Array:
        """Return what vectors over the training rows say of every cell: `w C H^T V`."""
        return self.weight * self.kernel.covary(np.asarray(self.rows.cells.T @ V))

    def product(self, V: Array) -> Array:
        """Return the term times vectors."""
        return np.asarray(self.rows.cells @ self.cell_values(V))

    def quadratic_forms(self, V: Array) -> Array:
        """Return `v^T w H C H^T v` of every column."""
        T = np.asarray(self.rows.cells.T @ V)
        return np.asarray(self.weight * np.einsum("ij,ij->j", T, self.kernel.covary(T)))

    def cross(self, others: PairRows) -> Array:
        """Return the term between the training rows and others, of shape (n_rows, n_others)."""
        cells = others.cells.T.toarray()
        return self.weight * np.asarray(self.rows.cells @ self.kernel.covary(cells))

    def of_pair(self, k: int, cells: Array) -> tuple[Array, Callable[[slice], Array]]:
        """Return the prior variances of mixtures of a pair's cells, a column each, ...

        ... and a function that gives the covariances of some of them with the training rows.
        """
        start, end = self.kernel.starts[k : k + 2]
        of_rows = self.rows.cells.tocsc()[:, start:end].tocsr()
        covariances = self.weight * self.kernel.covary_pair(k, cells)
        prior: Array = np.einsum("ij,ij->j", cells, covariances)
        return prior, lambda part: np.asarray(of_rows @ covariances[:, part])

    def prior(self, others: PairRows) -> Array:
        """Return the term of every row with itself."""
        return self.weight * others.diagonal

    def gram(self, others: PairRows) -> Array:
        """Return the term between all pairs of some rows."""
        H = others.cells
        return self.weight * np.asarray(H @ self.kernel.covary(H.T.toarray()))


def dense_columns(X: Matrix, features: NDArray[np.intp]) -> Array:
    """Return some columns, dense and in double precision."""
    columns = X[:, features]
    dense = columns.toarray() if sparse.issparse(columns) else columns
    return np.asarray(dense, dtype=np.float64)


def grids_of(columns: Array, n_knots: int) -> tuple[list[Array], list[Array]]:
    """Return the knots of each feature, and the covariance among them."""
    grids = [knots_of(column, n_knots) for column in columns.T]
    return grids, [centred_covariance(*pair) for pair in zip(columns.T, grids, strict=True)]


def knots_of(column: Array, n_knots: int) -> Array:
    """Return the distinct values of a feature, or quantiles of its values where there are more."""
    values = np.unique(column)
    if len(values) <= n_knots:
        return values
    return np.unique(np.quantile(column, np.linspace(0.0, 1.0, n_knots), method="nearest"))


def cell_among(column: Array, knots: Array) -> tuple[NDArray[np.intp], Array]:
    """Return the knot to the left of each value, and the fraction that the next one has in it."""
    if len(knots) < 2:
        return np.zeros(len(column), dtype=np.intp), np.zeros(len(column))
    left = np.clip(np.searchsorted(knots, column, side="right") - 1, 0, len(knots) - 2)
    width = knots[left + 1] - knots[left]
    above = np.clip(column, knots[0], knots[-1]) - knots[left]
    # Weights may have brought knots together.
    share = np.divide(above, width, out=np.zeros(len(column)), where=width > 0.0)
    return left, share


def centred_covariance(column: Array, knots: Array) -> Array:
    """Return the covariance among knots of a Brownian motion less its mean over the rows."""
    left, share = cell_among(column, knots)
    n = len(knots)
    of_left = np.bincount(left, 1.0 - share, n)
    masses = of_left + np.bincount(np.minimum(left + 1, n - 1), share, n)
    masses = masses / len(column)
    steps = np.arange(n, dtype=np.float64)
    C = np.minimum.outer(steps, steps)
    means = C @ masses
    C += masses @ means - means - means[:, None]
    mean = float(np.mean(_variances(left, share, C)))
    return C / mean if mean > 0.0 else np.zeros((n, n))


def _variances(left: NDArray[np.intp], share: Array, C: Array) -> Array:
    """Return the variances of mixtures of neighbouring knots."""
    right = np.minimum(left + 1, len(C) - 1)
    ends = (1.0 - share) ** 2 * C[left, left] + share**2 * C[right, right]
    return np.asarray(ends + 2.0 * share * (1.0 - share) * C[left, right])


def _share(of_next: Array, step: int) -> Array:
    return of_next if step == 1 else 1.0 - of_next


def _root(C: Array) -> Array:
    """Return `F` with `F F^T = C`, and no more columns than the rank."""
    values, vectors = linalg.eigh(C, check_finite=False)
    kept = values > _RANK_TOLERANCE * values[-1]
    return np.asarray(vectors[:, kept] * np.sqrt(values[kept]))
