"""Rows whose squares double precision can hold."""

from typing import Any

import numpy as np
from scipy import sparse


def check_squares(X: Any, name: str = "X") -> None:
    """Refuse finite values of which a sum of squares would overflow, with the place of one."""
    is_sparse: bool = sparse.issparse(X)
    values = X.data if is_sparse else X
    largest = max(float(values.max(initial=0.0)), -float(values.min(initial=0.0)))
    # Sums over the entries, of differences and of their products with weights.
    if largest * 1e4 * max(1.0, float(values.size)) ** 0.5 <= np.sqrt(np.finfo(np.float64).max):
        return
    if not np.isfinite(largest):
        return  # for the check of finite values to name
    i = int(np.argmax(np.abs(values)))
    if is_sparse:
        rows = X.tocsr()
        place = [int(np.searchsorted(rows.indptr, i, side="right")) - 1, int(rows.indices[i])]
    else:
        place = [int(k) for k in np.unravel_index(i, values.shape)]
    index = ", ".join(map(str, place))
    raise ValueError(
        f"{name}[{index}] = {values.ravel()[i]:.3g}: squares of such values overflow; divide the "
        "columns by a scale."
    )
