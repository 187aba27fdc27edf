"""Euclidean distances, of rows in single precision too."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import pairwise_distances

from histrs._checks.rows import rows_of
from histrs._checks.validation import count_threads
from histrs._typing import Matrix

# Up to here sums of very many squares are far from the end of single precision.
_LARGEST_SINGLE = 1e12


def euclidean_distances(X: Matrix, Y: Matrix, *, n_jobs: int | None, **params: Any) -> NDArray[Any]:
    """Return Euclidean distances; in double precision where single holds no squares."""
    X, Y = rows_of(X), rows_of(Y)
    if X.dtype == Y.dtype == np.float32 and max(map(_largest, (X, Y))) > _LARGEST_SINGLE:
        X, Y = X.astype(np.float64), Y.astype(np.float64)
    # joblib would start as many threads as it is asked for.
    n_threads = None if n_jobs is None else count_threads(n_jobs)
    distances: NDArray[Any] = pairwise_distances(X, Y, n_jobs=n_threads, **params)
    return distances


def _largest(X: Matrix) -> float:
    sizes: Any = abs(X)
    return float(sizes.max())
