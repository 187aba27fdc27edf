"""Sparse results."""

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
    fits = max(len(data), width) <= np.iinfo(np.int32).max
    index = np.int32 if fits else np.int64
    indices, indptr = indices.astype(index, copy=False), indptr.astype(index, copy=False)
    return sparse.csr_array((data, indices, indptr), shape=(n_rows, width))
