"""Rows below rows, in the container of the first."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from histrs._checks.sparse import is_sparse
from histrs._typing import Matrix
from histrs.gaussian_process._kernels.algebra import Views


def stacked(X: Any, below: Any) -> Any:
    """Return the rows of both, in the container of the first."""
    if isinstance(X, Views):
        return Views(*map(stacked, X.of, below.of))
    if not is_sparse(X):
        return np.vstack([X, below.toarray() if is_sparse(below) else below])
    both: Matrix = type(X)(sparse.vstack([X, sparse.csr_array(below)], format="csr"))
    return both
