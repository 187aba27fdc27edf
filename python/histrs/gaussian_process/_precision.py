"""Results in the precision of what is asked, as those of every estimator here."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from histrs._checks.scale import may_overflow
from histrs._frames import dtypes_of

P = ParamSpec("P")
R = TypeVar("R")

# Means, alone or with what else was asked for.
Answer: TypeAlias = NDArray[Any] | tuple[NDArray[Any], NDArray[Any]]


def is_single(values: Any) -> bool:
    """Say whether numbers are of single precision: an array of any library, or all of a frame."""
    dtypes = dtypes_of(values)
    if dtypes is None:
        return _is_single(getattr(values, "dtype", None))
    return len(dtypes) > 0 and all(map(_is_single, dtypes))


def _is_single(dtype: Any) -> bool:
    return str(dtype).lower().endswith("float32")


def in_precision_of_rows(method: Callable[P, R]) -> Callable[P, R]:
    """Return a method whose results are float32 where its rows, and a regression's targets, are.

    They are computed as ever, and rounded at last.
    """

    @wraps(method)
    def answer(*args: P.args, **kwargs: P.kwargs) -> R:
        found = method(*args, **kwargs)
        model: Any = args[0]
        X = args[1] if len(args) > 1 else kwargs.get("X", getattr(model, "X_fit_", None))
        return _rounded(found) if model._targets_are_single and is_single(X) else found

    return answer


def _rounded(found: Any) -> Any:
    if isinstance(found, tuple):
        return tuple(_rounded(part) for part in found)
    if not isinstance(found, np.ndarray) or found.dtype != np.float64:
        return found
    with may_overflow():
        return found.astype(np.float32)
