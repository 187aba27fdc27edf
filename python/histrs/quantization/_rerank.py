"""Candidates of a search among codes, in the order of the distances of rows as they are."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from histrs import _histrs
from histrs._checks.scale import may_overflow
from histrs.quantization._rotation import check_range


def reranked(
    X: NDArray[Any],
    stored: NDArray[Any],
    candidates: NDArray[np.int64],
    k: int,
    metric: str,
    n_threads: int,
    first: int,
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return exact values and the nearest `k` of the candidates of each query.

    `X` are queries from `first` on, and `stored` the indexed rows. Of rows that are equally near,
    the first comes first.
    """
    inner, dtype = metric == "inner_product", np.result_type(X, stored)
    candidates = np.sort(candidates, axis=1)
    values = _histrs.candidate_values(
        stored.astype(dtype, copy=False), X.astype(dtype, copy=False), candidates, inner, n_threads
    )
    check_range(values, first, "compared with the indexed rows")
    best = np.argsort(-values if inner else values, axis=1, kind="stable")[:, :k]
    values = np.take_along_axis(values, best, axis=1)
    rows = np.take_along_axis(candidates, best, axis=1)
    if metric == "euclidean":
        values = np.sqrt(values)
    with may_overflow():
        return values.astype(X.dtype, copy=False), rows
