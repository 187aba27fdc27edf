"""Arguments at the door: histograms as the core takes them, and numbers of threads."""

import numbers
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray
from scipy import sparse

Matrix: TypeAlias = NDArray[Any] | sparse.csr_matrix | sparse.csr_array
CoreMatrix: TypeAlias = (
    NDArray[Any] | tuple[NDArray[Any], NDArray[np.int32], NDArray[np.int64], int]
)

# What every check of histograms asks of scikit-learn. The core itself looks for negative and
# non-finite entries, because it can name the place of the first and reads the data anyway.
HISTOGRAM_CHECKS: Mapping[str, Any] = {
    "accept_sparse": "csr",
    "dtype": [np.float64, np.float32],
    "ensure_all_finite": False,
}


def to_core(X: Matrix) -> CoreMatrix:
    """Return `X`, checked by scikit-learn, in the form that the core takes without a copy."""
    if not sparse.issparse(X):
        return np.asarray(X)
    if X.shape[1] > np.iinfo(np.int32).max:
        raise ValueError(
            f"X has {X.shape[1]} columns, and the column index type holds at most "
            f"{np.iinfo(np.int32).max}; hash or select features first."
        )
    return (
        X.data,
        X.indices.astype(np.int32, copy=False),
        X.indptr.astype(np.int64, copy=False),
        X.shape[1],
    )


def canonical(X: Matrix) -> Matrix:
    """Return `X` with sorted indices, no duplicates and no stored zeros, copied if need be."""
    if not sparse.issparse(X) or (X.has_canonical_format and np.all(X.data)):
        return X
    X = X.copy()
    X.sum_duplicates()
    X.eliminate_zeros()
    return X


def count_threads(n_jobs: int | None) -> int:
    """Return the number of threads that `n_jobs` asks for; None asks for every core."""
    if n_jobs is not None and not isinstance(n_jobs, numbers.Integral):
        raise TypeError(f"n_jobs must be an integer or None, got {n_jobs!r}.")
    if n_jobs == 0:
        raise ValueError("n_jobs == 0 has no meaning; use -1 for every core.")
    return int(effective_n_jobs(-1 if n_jobs is None else n_jobs))
