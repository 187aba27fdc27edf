"""The distance that a kernel induces."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from histrs._validation import Matrix

# Rows whose kernel with themselves is computed at once.
_BLOCK = 64


def induced_by(kernel: Callable[..., NDArray[Any]]) -> Callable[..., NDArray[Any]]:
    """Return the squared distance ``k(x, x) + k(y, y) - 2 k(x, y)``."""

    def distances(X: Matrix, Y: Matrix, *, n_jobs: int | None, **params: Any) -> NDArray[Any]:
        # In double precision, of which the difference takes half.
        wide = [Z.astype(np.float64, copy=False) for Z in (X, Y)]

        def own(Z: Matrix) -> NDArray[np.float64]:
            blocks = (Z[start : start + _BLOCK] for start in range(0, Z.shape[0], _BLOCK))
            parts = [kernel(block, block, n_jobs=n_jobs, **params).diagonal() for block in blocks]
            return np.concatenate(parts)

        with np.errstate(over="ignore", invalid="ignore"):
            D = own(wide[0])[:, None] + own(wide[1]) - 2.0 * kernel(*wide, n_jobs=n_jobs, **params)
        if not np.isfinite(D).all():
            raise ValueError("sums of kernel values overflow; divide the columns by a scale.")
        return np.maximum(D, 0.0).astype(np.result_type(X.dtype, Y.dtype), copy=False)

    return distances
