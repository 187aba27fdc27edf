"""Tables of targets of which some are NaN, and which targets miss the same rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils._missing import is_pandas_na

from histrs._solvers.preconditioners import Indices
from histrs._typing import Array
from histrs._weights import RowWeights


class TrainingRows(NamedTuple):
    """Rows to learn from."""

    checked: Any
    Y: Array
    """Targets, NaN where they are missing."""
    weights: Array | None
    given: Any
    """The rows as the user gave them."""
    copies: Array | None = None
    """How many rows each stands for, if not as many as its weight."""


class Pattern(NamedTuple):
    """Targets that miss the same rows."""

    rows: Indices
    """Those that have them."""
    targets: Indices


def entries_of(y: Any) -> NDArray[Any]:
    """Return targets as an array; what a frame of nullable columns lacks is NaN."""
    if hasattr(y, "to_numpy") and hasattr(y, "iloc"):
        try:
            return np.asarray(y.to_numpy(dtype=np.float64, na_value=np.nan))
        except (TypeError, ValueError):
            pass
    values = np.asarray(y)
    if values.dtype.kind != "O":
        return values
    # Neither a number nor equal to itself or to anything else.
    lacking = [is_pandas_na(entry) for entry in values.flat]
    if not any(lacking):
        return values
    return np.where(np.reshape(lacking, values.shape), np.nan, values).astype(np.float64)


def missing_targets(y: Any) -> NDArray[np.bool_] | None:
    """Return which entries of a table of targets are NaN; None where none are, or it is no table.

    A single column of targets that is one-dimensional is not looked at: scikit-learn refuses NaN.
    """
    if sparse.issparse(y):
        return None
    try:
        values = entries_of(y)
        if values.ndim != 2 or values.dtype.kind not in "fO":
            return None
        missing: NDArray[np.bool_] = np.isnan(values.astype(np.float64, copy=False))
    except (TypeError, ValueError):
        return None
    return missing if np.any(missing) else None


def filled(y: Any, missing: NDArray[np.bool_] | None) -> Any:
    """Return targets with 0 where they are missing; pandas' NA is NaN, which checks can name."""
    if missing is not None:
        return np.where(missing, 0.0, np.asarray(entries_of(y), dtype=np.float64))
    has_objects = getattr(getattr(y, "dtype", None), "kind", "") == "O"
    return entries_of(y) if has_objects else y


def with_targets(given: RowWeights, missing: NDArray[np.bool_] | None) -> RowWeights:
    """Return the rows of positive weight that have a target at least, and their weights.

    Raises
    ------
    ValueError
        If none has.
    """
    if missing is None:
        return given
    indices = np.arange(len(missing)) if given.kept is None else given.kept
    some = ~np.all(missing[indices], axis=1)
    if not np.any(some):
        raise ValueError(
            "Every target of y is NaN in every row of positive weight: there is nothing to learn."
        )
    if np.all(some):
        return given
    return RowWeights(indices[some], None if given.weights is None else given.weights[some])


def patterns_of(Y: Array) -> list[Pattern]:
    """Return the patterns of missing targets, in the order of their first targets.

    One that misses all rows has none.
    """
    seen = ~np.isnan(Y)
    found: dict[bytes, list[int]] = {}
    for k, column in enumerate(seen.T):
        found.setdefault(column.tobytes(), []).append(k)
    return [
        Pattern(np.flatnonzero(seen[:, targets[0]]), np.array(targets))
        for targets in found.values()
    ]


def refuse_empty(patterns: Sequence[Pattern]) -> None:
    """Fail where a target is missing in every row."""
    for pattern in patterns:
        if len(pattern.rows) == 0:
            raise ValueError(
                f"y[:, {pattern.targets[0]}] is NaN in every row of positive weight: leave the "
                "column out."
            )
