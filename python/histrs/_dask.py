"""Dask collections, told apart without importing dask."""

from __future__ import annotations

from typing import Any

import numpy as np


def is_dask(rows: Any) -> bool:
    """Say whether rows are a dask array, without importing dask."""
    return all(hasattr(rows, name) for name in ("__dask_graph__", "to_delayed", "numblocks"))


def in_memory(values: Any) -> Any:
    """Return an array of dask as one of NumPy; anything else as it is."""
    return np.asarray(values.compute()) if is_dask(values) else values
