"""Weights of rows, checked, times those of their classes, and in units of their mean."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _check_sample_weight, _num_samples

from histrs._checks.sparse import is_sparse, sound
from histrs._distributed.rows import in_memory
from histrs._frames import frame_of
from histrs._labels import NOTHING_WEIGHS, weights_of_classes
from histrs._typing import Array

# Of weights in units of their mean: those beyond say no more, and squares and sums do not overflow.
_RANGE = (1e-280, 1e280)

ClassWeight: TypeAlias = Mapping[Any, float] | Literal["balanced"] | None


class RowWeights(NamedTuple):
    """Weights as a fit wants them."""

    kept: NDArray[np.intp] | None
    """Rows of positive weight; None for all."""
    weights: Array | None
    """Weights of these; None where none are given."""
    copies: Array | None = None
    """What these weigh without the weights of their classes, if that differs."""

    def rows(self, *arrays: Any) -> tuple[Any, ...]:
        """Return the rows of positive weight."""
        if self.kept is None:
            return arrays
        return tuple(rows_at(array, self.kept) for array in arrays)


def rows_at(rows: Any, indices: NDArray[np.intp]) -> Any:
    """Return some of the rows of an array, a frame, a list or a sparse matrix of any format."""
    frame = frame_of(rows)
    if frame is not None:
        return frame[indices]
    # Of the formats of SciPy, COO, BSR and DIA have no rows.
    return _safe_indexing(sound(rows, "X").tocsr() if is_sparse(rows) else rows, indices)


def check_weights(sample_weight: ArrayLike | None, X: Any) -> RowWeights:
    """Return the weights of rows, checked.

    Raises
    ------
    ValueError
        If a weight is negative, NaN or infinite, all are zero, or there is not one for every row.
    """
    if sample_weight is None:
        return RowWeights(None, None)
    weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    kept = np.flatnonzero(weights > 0.0)
    if len(kept) == 0:
        raise ValueError("sample_weight is zero everywhere: give some row a positive weight.")
    return RowWeights(None if len(kept) == len(weights) else kept, weights[kept])


def weighs_nothing(sample_weight: Any, X: Any) -> bool:
    """Say whether weights are 0 for every row of a chunk, which is then no rows at all."""
    if sample_weight is None:
        return False
    weights = np.asarray(in_memory(sample_weight))
    shape = (_num_samples(X),)
    numbers = weights.shape == shape and weights.size > 0 and weights.dtype.kind in "biuf"
    return numbers and not weights.any()


def times_class_weights(given: RowWeights, class_weight: Any, labels: NDArray[Any]) -> RowWeights:
    """Return the weights of rows times those of their classes.

    Parameters
    ----------
    given : RowWeights
        Weights of the rows.
    class_weight : dict, "balanced" or None
        As in scikit-learn. "balanced" makes the sums of weights alike.
    labels : ndarray of shape (n_kept,)
        Classes of these.

    Raises
    ------
    ValueError
        If the weight of a class is negative or not finite, or nothing is left.
    """
    if class_weight is None:
        return given
    of_rows = np.ones(len(labels)) if given.weights is None else given.weights
    of_classes = weights_of_classes(class_weight, labels, of_rows)
    kept = np.flatnonzero(of_classes > 0.0)
    if len(kept) == 0:
        raise ValueError(NOTHING_WEIGHS)
    indices = kept if given.kept is None else given.kept[kept]
    every = given.kept is None and len(kept) == len(labels)
    return RowWeights(None if every else indices, (of_rows * of_classes)[kept], of_rows[kept])


def refuse_balanced(class_weight: ClassWeight) -> None:
    """Fail where weights of classes depend on rows that are yet to come."""
    if class_weight == "balanced":
        raise ValueError(
            "class_weight='balanced' needs all rows at once, which partial_fit does not have: give "
            "the weight of each class, as in sklearn.utils.compute_class_weight."
        )


def in_units_of_mean(weights: Array | None) -> tuple[Array | None, float]:
    """Return weights of mean 1, None where all are 1, and what one was before."""
    if weights is None:
        return None, 1.0
    if np.ptp(weights) == 0.0:
        return None, float(weights[0])
    # Of huge weights, the sum would overflow.
    largest = float(weights.max())
    unit = largest * float(np.mean(weights / largest))
    return over_unit(weights, unit), unit


def over_unit(weights: Array, unit: float) -> Array:
    """Return weights in a unit: none becomes 0, without a logarithm, or infinite."""
    with np.errstate(over="ignore"):
        return np.clip(weights / unit, *_RANGE)
