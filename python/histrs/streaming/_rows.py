"""What rows of a model are, and the checks of a chunk of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from histrs._checks.sparse import is_sparse, sound
from histrs._checks.validation import canonical, check_finite
from histrs._frames import numbers_of

# An array or a frame, a CSR matrix, a dask array, a lazy frame, or an iterable of such chunks. Or
# the path of an .npy or .npz file, or of Parquet or CSV files.
Rows: TypeAlias = Any
# Rows, their targets and their weights.
Chunk: TypeAlias = tuple[Any, NDArray[Any] | None, Any]

# What estimators ask of scikit-learn's check of rows.
ROW_CHECKS: dict[str, Any] = {"accept_sparse": "csr", "dtype": [np.float64, np.float32]}


def set_n_features(model: Any, n_features: int, names: Sequence[str] | None = None) -> None:
    """Take note of features, and of their names; those of an earlier fit are not theirs."""
    model.n_features_in_ = n_features
    model.__dict__.pop("feature_names_in_", None)
    if names is not None:
        model.feature_names_in_ = np.array(names, dtype=object)


def names_in(model: Any) -> list[str] | None:
    """Return the names of the features of a model, where they have some."""
    names = getattr(model, "feature_names_in_", None)
    return None if names is None else list(names)


def checked(rows: Any, name: str = "Z") -> Any:
    """Return finite rows, as an array of two dimensions or as CSR."""
    Z = matrix(rows, name)
    if Z.dtype.kind == "f":
        check_finite(Z, name)
    return Z


def matrix(rows: Any, name: str = "Z") -> Any:
    """Return rows, finite or not; a memmap is not read."""
    rows = numbers_of(rows, name)
    Z: Any = canonical(sound(rows, name).tocsr()) if is_sparse(rows) else np.asarray(rows)
    n_columns(Z, name)
    if Z.dtype.kind not in "fiub":
        raise ValueError(f"{name} has dtype {Z.dtype}: expected real numbers.")
    return Z


def n_columns(rows: Any, name: str = "Z") -> int:
    """Return the number of columns of what must be a matrix."""
    shape = np.shape(rows)
    if len(shape) != 2:
        raise ValueError(f"{name} has shape {shape}: expected rows and columns, a 2D array.")
    return int(shape[1])
