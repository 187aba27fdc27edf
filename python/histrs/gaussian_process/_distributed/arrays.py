"""Dask arrays as arguments of a Gaussian process: checked, and weighted where they lie."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from histrs import _histrs
from histrs._checks.validation import HISTOGRAM_CHECKS, validate_data, validate_fit
from histrs._distributed.rows import (
    Part,
    as_rows,
    in_memory,
    is_dask,
    of_floats,
    stand_in,
    stand_in_to_fit,
)
from histrs._typing import Array


def weighted(X: Any, weights: Array | None) -> Any:
    """Return rows of dask, each feature times its weight, in double precision."""
    if weights is None:
        return X
    from dask import array

    of_chunks = array.from_array(weights[None, :], chunks=(1, X.chunks[1]))
    return array.map_blocks(
        _weighted, X, of_chunks, dtype=np.float64, meta=np.empty((0, 0), np.float64)
    )


def weighted_rows(rows: NDArray[Any], weights: Array | None) -> Array:
    """Return rows in double precision, each feature times its weight."""
    rows = np.ascontiguousarray(rows, dtype=np.float64)
    return rows if weights is None else rows * weights


def _weighted(rows: NDArray[Any], weights: Array) -> Array:
    return weighted_rows(rows, weights[0])


def refuse_distributed(model: Any, what: str) -> None:
    """Refuse what would bring the training rows here, or needs them here."""
    if is_dask(getattr(model, "X_fit_", None)):
        raise ValueError(
            f"{what} needs the training rows in one process, and those of this fit are a dask "
            "array: fit a NumPy array, or a part of the rows."
        )


def rows_to_fit(
    model: Any, X: Any, y: ArrayLike, *, reset: bool, **checks: Any
) -> tuple[Any, NDArray[Any]]:
    """Return training rows, whose entries are looked at by the workers, and checked targets."""
    _, y = validate_fit(model, stand_in_to_fit(X), in_memory(y), reset=reset, **checks)
    return of_floats(X), y


def rows_to_predict(model: Any, X: Any) -> Any:
    """Return rows, whose entries are looked at where they lie."""
    validate_data(model, stand_in(X), reset=False, **HISTOGRAM_CHECKS)
    return _with_checks(of_floats(X))


def check_entries(X: Any) -> None:
    """Refuse entries of rows that are none of histograms, where they lie."""
    partitions = _with_checks(X).to_delayed().ravel()
    import dask

    nothing = dask.delayed(_nothing, pure=False, traverse=False)
    dask.compute(*(nothing(part) for part in partitions))


def _with_checks(X: Any) -> Any:
    return X.map_blocks(_checked, dtype=X.dtype, meta=np.empty((0, 0), X.dtype))


def _nothing(rows: NDArray[Any]) -> None:
    pass


def _checked(rows: NDArray[Any], block_info: Any = None) -> NDArray[Any]:
    rows = as_rows(rows)
    (first, _), (column, _) = block_info[0]["array-location"]
    # Where sizes of partitions are unknown, the index is that in the partition.
    row = 0 if np.isnan(first) else int(first)
    with Part(row, int(column)).naming_indices():
        _histrs.check_histograms(rows, 1)
    return rows
