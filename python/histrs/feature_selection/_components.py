"""The components of columns, of all rows or in fewer that have the same products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

from histrs._typing import Array
from histrs.feature_selection._inclusion import rotated
from histrs.feature_selection._shapes import N_SHAPES, shapes_of

# Rows whose components are in memory at once, where only sums of products are needed.
_ROWS_A_BLOCK = 8192
# Columns whose components are in memory at once, beside those that the chains see.
_BLOCK = 256


def short(X: Any, Y: Array) -> tuple[Array, Array]:
    """Return components of all columns, and targets, in no more rows than there are components.

    Of many rows, only sums of products are needed.
    """
    n, n_features = X.shape
    n_components = N_SHAPES * n_features
    if n <= n_components:
        return _components(X), Y
    columns = [shapes_of(_column(X, d)) for d in range(n_features)]
    # As cells, rows take one byte per column.
    cells = np.stack([cells.astype(np.uint8) for _, cells in columns], axis=1)
    grams, slopes = np.zeros((n_components, n_components)), np.zeros((n_components, Y.shape[1]))
    for start in range(0, n, _ROWS_A_BLOCK):
        part = slice(start, start + _ROWS_A_BLOCK)
        Z = np.hstack([shapes[cells[part, d]] for d, (shapes, _) in enumerate(columns)])
        grams += Z.T @ Z
        slopes += Z.T @ Y[part]
    rows, targets = rotated(grams, slopes)
    return rows.reshape(-1, n_features, N_SHAPES), targets


def _column(X: Any, d: int) -> Array:
    column = X[:, [d]]
    return np.asarray(column.toarray() if sparse.issparse(X) else column).ravel()


def _components(X: Any) -> Array:
    """Return the components of all columns, of shape (n_samples, n_features, n_shapes)."""
    columns = [shapes_of(_column(X, d)) for d in range(X.shape[1])]
    return np.stack([shapes[cells] for shapes, cells in columns], axis=1)


def in_blocks(X: Any, of_shapes: Callable[[Array], Array]) -> Array:
    """Return what a function says of the components of every column, some columns at a time."""
    n_features = X.shape[1]
    starts = range(0, n_features, _BLOCK)
    return np.concatenate([of_shapes(_components(X[:, k : k + _BLOCK])) for k in starts])
