"""Work on blocks that lie on the workers of a cluster, some of which may be lost.

All that tasks need is in their graph, and so is computed again where a worker is lost with it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

# Vectors with a number for each row are meant to be sent.
_QUIET = {"distributed.admin.large-graph-warning-threshold": "1 PB"}


def _quiet() -> AbstractContextManager[Any]:
    import dask

    # Where there is a client, distributed was imported; its settings come with it.
    return dask.config.set(_QUIET) if "distributed" in sys.modules else nullcontext()


def computed(delayed: Any) -> Any:
    """Return a delayed value, or a list of them, computed."""
    import dask

    with _quiet():
        return dask.compute(delayed)[0]


def kept(delayed: Sequence[Any]) -> list[Any]:
    """Return delayed values that stay where they were computed."""
    import dask

    with _quiet():
        return list(dask.persist(*delayed))


def placed(array: Any) -> Any:
    """Return an array as an argument of several tasks."""
    import dask

    return dask.delayed(array, pure=False, traverse=False)


def lazy(work: Callable[..., Any]) -> Any:
    """Return a function whose calls are delayed."""
    import dask

    return dask.delayed(work, pure=False, traverse=False)


def delayed_call(made: Any, name: str, *arguments: Any) -> Any:
    """Return what a method of a delayed object returns, delayed."""
    return lazy(_called)(made, name, *arguments)


def _called(made: Any, name: str, *arguments: Any) -> Any:
    return getattr(made, name)(*arguments)


def total(parts: Sequence[Any], add: Callable[..., Any] = np.add) -> Any:
    """Return the sum of delayed values, pair by pair: its bits depend on their number alone."""
    delayed_add, level = lazy(add), list(parts)
    while len(level) > 1:
        pairs = [level[k : k + 2] for k in range(0, len(level), 2)]
        level = [delayed_add(*pair) if len(pair) == 2 else pair[0] for pair in pairs]
    return level[0]
