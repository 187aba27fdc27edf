"""Rows that are fewer than their features, in coordinates of their own."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from histrs._lapack import qr
from histrs._sparse import is_sparse
from histrs.streaming._rows import checked
from histrs.streaming._source import RowSource
from histrs.streaming._sums import Array


@dataclass(frozen=True)
class RowSpace:
    """An orthonormal basis of a space that holds all rows.

    Moments of `n` rows have `n^2` entries in it, not the square of the number of features. What is
    learned of them by principal components or ridge regression is the same, for it lies in the
    space.
    """

    n_features: int
    columns: NDArray[np.intp]
    """The features that are not zero in every row."""
    basis: Array
    """Columns that span the rows, in these features, (len(columns), k)."""

    def expanded(self, coefficients: Array) -> Array:
        """Return coefficients of the features, (T, n_features), from those of the basis."""
        whole = np.zeros((len(coefficients), self.n_features))
        whole[:, self.columns] = coefficients @ self.basis.T
        return whole


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
    columns = np.unique(Z.indices) if is_sparse(Z) else np.arange(n_features)
    dense = Z[:, columns].toarray() if is_sparse(Z) else Z
    basis, coordinates = qr(np.asarray(dense, dtype=np.float64).T)
    if not np.isfinite(coordinates).all():
        return None
    return source.with_rows(coordinates.T), RowSpace(n_features, columns.astype(np.intp), basis)
