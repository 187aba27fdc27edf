"""Rows times a weight for each feature, here or on the workers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from histrs._typing import Array


def weighted(X: Any, weights: Array | None) -> Any:
    """Return rows of dask, each feature times its weight, in double precision."""
    if weights is None:
        return X
    from dask import array

    of_chunks = array.from_array(weights[None, :], chunks=(1, X.chunks[1]))
    return array.map_blocks(
        _weighted, X, of_chunks, dtype=np.float64, meta=np.empty((0, 0), np.float64)
    )


def weighted_rows(rows: NDArray[Any], weights: Array | None) -> Array:
    """Return rows in double precision, each feature times its weight."""
    rows = np.ascontiguousarray(rows, dtype=np.float64)
    return rows if weights is None else rows * weights


def _weighted(rows: NDArray[Any], weights: Array) -> Array:
    return weighted_rows(rows, weights[0])
