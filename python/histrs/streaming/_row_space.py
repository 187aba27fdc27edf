"""Rows that are fewer than their features, in coordinates of their own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from histrs._checks.sparse import is_sparse
from histrs._solvers.lapack import qr
from histrs._typing import Array
from histrs.streaming._rows import checked
from histrs.streaming._source import RowSource


@dataclass(frozen=True)
class RowSpace:
    """An orthonormal basis of the differences of the rows from one of them.

    Moments of `n` rows have `n^2` entries in it, not the square of the number of features. What is
    learned of them by principal components or ridge regression is the same, for it lies in the
    space. Rows that are equal differ by nothing, where coordinates of the rows themselves would
    differ by rounding.
    """

    n_features: int
    columns: NDArray[np.intp]
    """The features that are not zero in every row."""
    basis: Array
    """Columns that span the differences, in these features, (len(columns), k)."""
    origin: Array
    """The row that the others differ from, in these features."""

    def expanded(self, coefficients: Array) -> Array:
        """Return coefficients of the features, (T, n_features), from those of the basis."""
        whole = np.zeros((len(coefficients), self.n_features))
        whole[:, self.columns] = coefficients @ self.basis.T
        return whole

    def at_zero(self, coefficients: Array, at_origin: Array) -> Array:
        """Return scores at zero in all features, (T,), from those at the origin of the space."""
        return at_origin - coefficients @ (self.basis.T @ self.origin)


def row_space(source: RowSource) -> tuple[RowSource, RowSpace] | None:
    """Return the source in coordinates of its rows, where these are an array of fewer rows.

    None where they are not, or a row is too large to have a length: moments say which entry is.
    """
    rows: Any = source.rows
    is_array = isinstance(rows, np.ndarray) or is_sparse(rows)
    if not is_array or source.feature_map is not None or np.ndim(rows) != 2:
        return None
    n_rows, n_features = rows.shape
    if not 0 < n_rows < n_features:
        return None
    Z = checked(rows, "rows")
    columns = _columns_of(Z)
    dense = np.asarray(Z[:, columns].toarray() if is_sparse(Z) else Z, dtype=np.float64)
    origin = dense[source.first_used()].copy()
    with np.errstate(over="ignore", invalid="ignore"):
        basis, coordinates = qr((dense - origin).T)
    if not np.isfinite(coordinates).all():
        return None
    return source.with_rows(coordinates.T), RowSpace(n_features, columns, basis, origin)


def _columns_of(Z: Any) -> NDArray[np.intp]:
    """Return the columns that are stored, one at least."""
    if not is_sparse(Z):
        return np.arange(Z.shape[1])
    stored: NDArray[np.intp] = np.unique(Z.indices).astype(np.intp)
    return stored if len(stored) > 0 else np.zeros(1, dtype=np.intp)
