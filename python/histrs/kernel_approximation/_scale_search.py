"""How well a kernel predicts targets: ridge regression with each row left out in turn."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import eigh
from sklearn.preprocessing import LabelBinarizer
from sklearn.utils.multiclass import type_of_target

from histrs._checks.validation import check_array
from histrs._threads import leavable
from histrs._typing import Array
from histrs._weights import check_labels

# Binary exponent of targets above which their squares may overflow.
_LARGE = 400
# Penalties, as parts of the trace.
_PENALTIES = np.logspace(-10, 0, 21)


# Whole numbers of more values than this, and than the root of the number of rows, are no classes.
_MOST_CLASSES = 20


def signed_targets(y: ArrayLike, n_rows: int, rows: Any = slice(None)) -> Array:
    """Return numbers of some rows as they are, and classes as 1 for that of a row, -1 for others.

    Classes are what is not a number, and whole numbers of one output that have few values and are
    not stored as floats.
    """
    y = np.asarray(check_array(y, ensure_2d=False, dtype=None, input_name="y"))
    if len(y) != n_rows:
        raise ValueError(f"X has {n_rows} rows, but y {len(y)}: give each row a target.")
    y = y.ravel() if y.ndim == 2 and y.shape[1] == 1 else y
    few_classes = _are_classes(y)
    if few_classes:
        check_labels(y)
    y = y[rows]
    if few_classes:
        y = LabelBinarizer(neg_label=-1).fit_transform(y)
    return np.asarray(y, dtype=np.float64).reshape(len(y), -1)


def _are_classes(y: NDArray[Any]) -> bool:
    if y.dtype.kind not in "iuf":
        return True
    if y.dtype.kind == "f" or y.ndim > 1:
        return False
    # Counted first: type_of_target warns of many classes.
    few = len(np.unique(y)) <= max(_MOST_CLASSES, np.sqrt(len(y)))
    return few and type_of_target(y) in ("binary", "multiclass")


def leave_one_out_error(kernel: Array, targets: Array) -> float:
    r"""Return the least mean squared error of rows left out, over penalties.

    Huge targets are taken in a unit of their own.

    With :math:`Q \Lambda Q^T` the kernel of rows about their mean and
    :math:`C = \alpha (\Lambda + \alpha)^{-1}`, the error of row `i` is
    :math:`(Q C Q^T y)_i / ((Q C Q^T)_{ii} - 1/n)`; `1/n` is the intercept's.
    """
    n = len(kernel)
    # In a unit in which squares stay within the range; a power of 2 rounds nothing.
    exponent = np.frexp(np.max(np.abs(targets), initial=0.0))[1]
    if exponent > _LARGE:
        targets = np.ldexp(targets, -exponent)
    means = kernel.mean(axis=0)
    centred = kernel - means - means[:, None] + means.mean()
    values, vectors = leavable(partial(eigh, centred))
    total = float(np.trace(centred))
    projected, squares = vectors.T @ (targets - targets.mean(axis=0)), vectors**2
    errors = []
    for alpha in _PENALTIES * (total if total > 0 else 1.0):
        kept = alpha / (np.maximum(values, 0.0) + alpha)
        residual = vectors @ (kept[:, None] * projected)
        free = np.maximum(squares @ kept - 1 / n, np.finfo(np.float64).eps)
        errors.append(np.mean((residual / free[:, None]) ** 2))
    return float(np.min(errors))
