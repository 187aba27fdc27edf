"""The distance that a kernel induces."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from typing import Any

import numpy as np
from numpy.typing import NDArray

from histrs._checks.rows import Checked
from histrs._typing import Matrix

# Rows whose kernel with themselves is computed at once.
_BLOCK = 64


def induced_by(kernel: Callable[..., NDArray[Any]]) -> Callable[..., NDArray[Any]]:
    """Return the squared distance ``k(x, x) + k(y, y) - 2 k(x, y)``."""

    @wraps(kernel)
    def distances(
        X: Matrix | Checked, Y: Matrix | Checked, *, n_jobs: int | None, **params: Any
    ) -> NDArray[Any]:
        def own(Z: Any) -> NDArray[np.float64]:
            blocks = (Z[start : start + _BLOCK] for start in range(0, Z.shape[0], _BLOCK))
            parts = [kernel(block, block, n_jobs=n_jobs, **params).diagonal() for block in blocks]
            return np.concatenate(parts)

        # Of checked rows what they have with themselves is computed once, however many others they
        # meet.
        wide = [_wide(Z) for Z in (X, Y)]
        left, right = (
            Z.once((kernel, *sorted(params.items())), partial(own, Z))
            if isinstance(Z, Checked)
            else own(Z)
            for Z in wide
        )
        with np.errstate(over="ignore", invalid="ignore"):
            D = left[:, None] + right - 2.0 * kernel(*wide, n_jobs=n_jobs, **params)
        if not np.isfinite(D).all():
            raise ValueError("sums of kernel values overflow; divide the columns by a scale.")
        return np.maximum(D, 0.0).astype(np.result_type(X.dtype, Y.dtype), copy=False)

    return distances


def _wide(Z: Any) -> Any:
    """Return rows in double precision, of which the difference takes half."""
    if not isinstance(Z, Checked):
        return Z.astype(np.float64, copy=False)
    return Z.once("wide", lambda: Checked(Z.rows.astype(np.float64, copy=False)))
