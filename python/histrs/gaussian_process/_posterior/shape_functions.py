"""The mean taken apart by feature."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import sparse

from histrs._typing import Array, Matrix


class ShapeFunction(NamedTuple):
    """What one feature adds to the posterior mean, a function of the feature alone."""

    feature: int
    """Index of the feature."""
    knots: Array
    """Values of the feature, ascending from 0, of shape (n_knots,)."""
    values: Array
    """The function there, of shape (n_knots,), or (n_knots, n_outputs) with several outputs."""
    std: Array | None
    """Its posterior standard deviation there, of the shape of `values`; of a classifier whose
    classes share their hyper-parameters, of shape (n_knots,)."""


def training_values(X: Matrix, feature: int, max_knots: int | None) -> Array:
    """Return 0 and the distinct values of a feature, or some of them, the largest included."""
    column = X[:, [feature]]
    entries = column.toarray() if sparse.issparse(column) else column
    knots = np.union1d([0.0], entries.astype(np.float64))
    if max_knots is not None and len(knots) > max_knots:
        knots = knots[np.linspace(0, len(knots) - 1, max_knots).round().astype(int)]
    return knots


def rows_of_one_feature(knots: Array, feature: int, n_features: int) -> Matrix:
    """Return rows that are 0 but for one feature, where the mean is that feature's function."""
    n = len(knots)
    indices = np.full(n, feature, dtype=np.int32)
    return sparse.csr_array((knots, indices, np.arange(n + 1)), shape=(n, n_features))
