"""The Sinkhorn distance of chosen pairs."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from histrs import _histrs
from histrs._checks.validation import count_threads, to_core
from histrs._typing import Matrix
from histrs.transport._arguments import check_costs, check_pair
from histrs.transport._distances import warn_of_worst
from histrs.transport._ground import GridDistance


def sinkhorn_of_pairs(
    X: Matrix,
    Y: Matrix,
    rows: NDArray[np.intp],
    columns: NDArray[np.intp],
    *,
    M: ArrayLike | GridDistance,
    reg: float,
    tol: float = 1e-6,
    max_iter: int = 1000,
    cost: str = "transport",
    starts: NDArray[np.float32] | None = None,
    n_jobs: int | None = None,
) -> NDArray[Any]:
    """Return the distances of ``X[rows[k]]`` and ``Y[columns[k]]`` as of `sinkhorn_distances`.

    The iteration of a pair begins where the logarithm of the scaling of its row of `X` is
    ``starts[k]``.
    """
    X, other = check_pair(X, Y)
    assert other is not None
    M = check_costs(M, X.shape[1], other.shape[1])
    values, errors = _histrs.sinkhorn_pairs(
        to_core(X),
        to_core(other),
        rows.astype(np.int64),
        columns.astype(np.int64),
        starts,
        M,
        reg,
        tol,
        max_iter,
        cost == "regularized",
        count_threads(n_jobs),
    )
    if not np.all(errors <= tol):
        # As a table in which an index is that of its pair.
        table = np.zeros((X.shape[0], other.shape[0]))
        table[rows, columns] = errors
        warn_of_worst(table, tol, max_iter)
    return values
