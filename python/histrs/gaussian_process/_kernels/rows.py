"""Rows of histograms as kernels hand them to the core."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from histrs._checks.validation import to_core
from histrs._typing import CoreMatrix, Matrix


def as_matrix(X: Any) -> Any:
    """Return rows as a matrix, dense or sparse."""
    return X if sparse.issparse(X) else np.asarray(X)


def double_pair(X: Matrix, Y: Matrix | None) -> tuple[CoreMatrix, CoreMatrix | None]:
    """Return both as the core takes them: in double precision and of one kind."""
    X = X.astype(np.float64, copy=False)
    if Y is None:
        return to_core(X), None
    Y = Y.astype(np.float64, copy=False)
    if sparse.issparse(X) != sparse.issparse(Y):
        X, Y = sparse.csr_array(X), sparse.csr_array(Y)
    return to_core(X), to_core(Y)
