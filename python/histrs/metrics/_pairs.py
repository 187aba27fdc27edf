"""The arguments of a kernel: rows, and others or none."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from histrs._checks.rows import Checked
from histrs._checks.validation import (
    HISTOGRAM_CHECKS,
    canonical,
    check_array,
    check_finite,
    to_core,
)
from histrs._frames import in_order_of
from histrs._typing import CoreMatrix, Matrix


def checked_pair(
    X: ArrayLike | Matrix, Y: ArrayLike | Matrix | None
) -> tuple[CoreMatrix, CoreMatrix | None]:
    """Check both arguments and give them one dtype, as the core needs them."""
    if Y is not None:
        Y = in_order_of(X, Y)
    X = _checked_rows(X, "X")
    if Y is None:
        return to_core(X), None
    Y = _checked_rows(Y, "Y")
    check_columns(X, Y)
    dtype = np.result_type(X.dtype, Y.dtype)
    return to_core(X.astype(dtype, copy=False)), to_core(Y.astype(dtype, copy=False))


def check_columns(X: Matrix, Y: Matrix) -> None:
    """Refuse rows of different lengths."""
    if X.shape[1] != Y.shape[1]:
        raise ValueError(
            f"X has {X.shape[1]} columns but Y has {Y.shape[1]}; "
            "give both the same features in the same order."
        )


def checked_vectors(X: ArrayLike | Matrix, name: str) -> Matrix:
    """Check rows of any sign, of which nobody else asks whether they are finite."""
    vectors = _checked_rows(X, name)
    check_finite(vectors, name)
    return vectors


def _checked_rows(X: ArrayLike | Matrix | Checked, name: str) -> Matrix:
    if isinstance(X, Checked):
        return X.rows
    checks = {**HISTOGRAM_CHECKS, "ensure_min_samples": 0, "ensure_min_features": 0}
    return canonical(check_array(X, input_name=name, **checks))
