"""Where results go: arrays of the caller that are written into, and sparse ones."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from histrs._checks.sparse import is_sparse


def checked_out(
    out: Any, shape: tuple[int, ...], dtype: Any, what: str, *, c_contiguous: bool = False
) -> NDArray[Any]:
    """Return the memory of `out`, which must hold what it is for; `what` names that, in the plural.

    Raises ValueError if it is no array of that shape and dtype, or cannot be written to.
    """
    fits = (
        isinstance(out, np.ndarray)
        and out.shape == shape
        and out.dtype == dtype
        and out.flags.writeable
        and out.flags.aligned
        and (out.flags.c_contiguous or not c_contiguous)
    )
    if not fits:
        layout = ", with contiguous rows" if c_contiguous else ""
        raise ValueError(
            f"out is {_described(out)}: give a writeable array of shape {shape} and dtype "
            f"{np.dtype(dtype)} for the {what}{layout}."
        )
    return np.asarray(out)


def apart_from(out: NDArray[Any], rows: Any) -> Any:
    """Return rows that stay as they are while `out` is written: a copy where they overlap."""
    values = rows.data if is_sparse(rows) else rows
    return rows.copy() if np.may_share_memory(values, out) else rows


def _described(out: Any) -> str:
    if not isinstance(out, np.ndarray):
        return f"a {type(out).__name__}"
    notes = "" if out.flags.writeable else ", read-only"
    notes += "" if out.flags.aligned else ", not aligned"
    notes += "" if out.flags.c_contiguous else ", not contiguous"
    return f"an array of shape {out.shape} and dtype {out.dtype}{notes}"


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
