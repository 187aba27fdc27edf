"""Sparse results, with indices that every library takes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse


def csr_result(
    parts: tuple[NDArray[Any], NDArray[Any], NDArray[Any], int], n_rows: int
) -> sparse.csr_array[Any, tuple[int, int]]:
    """Return `data, indices, indptr, width` of the core as a CSR matrix.

    Indices have 32 bits where they fit. The core counts rows in 64 bits, which SciPy would keep,
    and which liblinear, libsvm and scikit-learn's trees refuse.
    """
    data, indices, indptr, width = parts
    index = np.int32 if _fits(len(data), width) else np.int64
    indices, indptr = indices.astype(index, copy=False), indptr.astype(index, copy=False)
    return sparse.csr_array((data, indices, indptr), shape=(n_rows, width))


def small_indices(X: Any) -> Any:
    """Return rows, those of a CSR matrix with indices of 32 bits where they fit."""
    is_sparse: bool = sparse.issparse(X)
    if not is_sparse or not _fits(len(X.data), X.shape[1]):
        return X
    parts = X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32)
    return type(X)(parts, shape=X.shape)


def _fits(n_stored: int, width: int) -> bool:
    return bool(max(n_stored, width) <= np.iinfo(np.int32).max)
