"""Stacks of matrices as arguments."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import ArrayLike, NDArray

from histrs._checks.rows import Checked
from histrs._checks.sparse import is_sparse
from histrs._checks.validation import check_array

Stack = NDArray[Any]

# What every check of matrices asks of scikit-learn. The core looks for entries that are not finite
# or not symmetric, because it can name them.
STACK_CHECKS: Mapping[str, Any] = {
    "dtype": [np.float64, np.float32],
    "allow_nd": True,
    "ensure_all_finite": False,
}


def as_stack(X: ArrayLike | Checked, name: str = "X") -> Stack:
    """Return matrices, stacked or flattened, as an array of shape (n, p, p)."""
    if isinstance(X, Checked):
        return stacked(np.asarray(X.rows), name)
    empty = {"ensure_min_samples": 0, "ensure_min_features": 0}
    if _is_list_of_matrices(X):
        check_one_shape(X, name)
    return stacked(check_array(X, input_name=name, **STACK_CHECKS, **empty), name)


def flattened(X: Any, estimator: Any = None) -> Any:
    """Return a stack of shape (n, p, p) as (n, p * p), in which scikit-learn counts features.

    Anything else is returned as it is, for scikit-learn to judge, but for one matrix of the size
    that a fitted `estimator` knows.
    """
    shape: tuple[int, ...] = X.shape if isinstance(X, np.ndarray) else ()
    is_square = len(shape) == 2 and shape[0] == shape[1] != 1
    if is_square and getattr(estimator, "n_features_in_", None) == X.size:
        raise ValueError(
            f"X has shape {shape}, that of a single matrix: a set of one matrix A is A[None]."
        )
    if not is_stack(X):
        return X
    if _is_list_of_matrices(X):
        check_one_shape(X, "X")
    X = stacked(np.asarray(X))
    return X.reshape(len(X), -1)


def is_stack(X: Any) -> bool:
    """Say whether `X` is matrices rather than rows; it may be an array of another library."""
    three = getattr(X, "ndim", None) == 3 and not is_sparse(X)
    return three or _is_list_of_matrices(X)


def _is_list_of_matrices(X: Any) -> TypeGuard[Sequence[Any]]:
    return isinstance(X, (list, tuple)) and len(X) > 0 and np.ndim(X[0]) == 2


def check_one_shape(
    X: Sequence[Any],
    name: str,
    cure: str = "matrices of different sizes have no distance; describe all by the same features",
) -> None:
    """Fail at the first array that is not of the shape of the first."""
    for i, x in enumerate(X):
        if np.shape(x) != np.shape(X[0]):
            raise ValueError(
                f"{name}[{i}] has shape {np.shape(x)}, and {name}[0] {np.shape(X[0])}: {cure}."
            )


def stacked(X: NDArray[Any], name: str = "X") -> Stack:
    """Return a view of shape (n, p, p) of an array of shape (n, p, p) or (n, p * p)."""
    if X.ndim == 2:
        p = math.isqrt(X.shape[1])
        if p * p != X.shape[1]:
            raise ValueError(
                f"{name} has {X.shape[1]} columns, which is not a square number: give matrices "
                "of shape (n, p, p), or flattened to (n, p * p)."
            )
        X = X.reshape(len(X), p, p)
    if X.ndim != 3 or X.shape[1] != X.shape[2]:
        raise ValueError(
            f"{name} has shape {X.shape}: give square matrices of shape (n, p, p), or flattened "
            "to (n, p * p). For a single matrix A, give A[None]. Signals of shape (n_trials, "
            "n_channels, n_times) become matrices by spd.Covariances."
        )
    if X.shape[1] == 0:
        raise ValueError(f"{name} has shape {X.shape}: a matrix has at least one row.")
    return X


def symmetric(X: Stack) -> Stack:
    """Return the mean of each matrix and its transpose; halves first, which cannot overflow."""
    return np.asarray(X / 2 + np.swapaxes(X, -1, -2) / 2)
