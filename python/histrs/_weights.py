"""Labels of rows as classes, and what rows weigh: checked, and times the weights of classes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import _safe_indexing, compute_class_weight
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import _num_samples, column_or_1d

from histrs._checks.scale import may_overflow
from histrs._checks.sparse import is_sparse, sound
from histrs._checks.validation import real_array
from histrs._distributed.rows import in_memory
from histrs._frames import frame_of
from histrs._typing import Array

# Of weights in units of their mean: those beyond say no more, and squares and sums do not overflow.
_RANGE = (1e-280, 1e280)

ClassWeight: TypeAlias = Mapping[Any, float] | Literal["balanced"] | None


def checked_labels(y: ArrayLike) -> NDArray[Any]:
    """Return labels as a row of classes, and refuse what are no classes."""
    check_labels(y)
    labels: NDArray[Any] = column_or_1d(y, warn=True)
    return labels


def check_labels(y: ArrayLike) -> None:
    """Refuse what are no classes."""
    try:
        # Targets of a regression are compared with their integers, which may not hold them.
        with np.errstate(invalid="ignore"):
            check_classification_targets(y)
    except TypeError:
        classes_of(y)
        raise


def dense_targets(y: Any) -> Any:
    """Return targets as they are, but an indicator of labels in no sparse matrix."""
    return y.toarray() if hasattr(y, "toarray") else y


def labels_or_indicator(y: Any) -> NDArray[Any]:
    """Return labels of one class per row, or the indicator of labels of which it may have several.

    Raises ValueError if `y` has several columns that are no indicator.
    """
    y = dense_targets(y)
    values: NDArray[Any] = np.asarray(y)
    if values.ndim != 2 or values.shape[1] == 1:
        return checked_labels(y)
    if type_of_target(values) != "multilabel-indicator" or not np.isin(values, (0, 1)).all():
        raise ValueError(
            f"y has shape {values.shape}: give one class per row, a 1d array, or an indicator of "
            "labels, whose entries are 0 and 1."
        )
    return values


def encode(y: ArrayLike) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return the classes in order, and the index of each label among them."""
    labels = checked_labels(y)
    classes = classes_of(labels)
    return classes, np.searchsorted(classes, labels).astype(np.int64, copy=False)


def classes_of(y: ArrayLike) -> NDArray[Any]:
    """Return the classes in order, and refuse labels that have none, by their index."""
    labels = np.asarray(y)
    try:
        return np.unique(labels)
    except TypeError:
        kinds = [type(label) for label in labels.ravel()]
        i = next(i for i, kind in enumerate(kinds) if kind is not kinds[0])
        # Of two kinds the one to blame is the one that is no label in any case.
        i = kinds.index(type(None)) if type(None) in kinds else i
        raise ValueError(
            f"y[{i}] = {labels.ravel()[i]!r} is of type {kinds[i].__name__}, and other labels are "
            "of other types: give labels of one type, and drop rows without a label."
        ) from None


def index_of_best(scores: NDArray[Any]) -> NDArray[np.intp]:
    """Return where the largest score of each row is.

    Two classes may have one column, or none, whose sign decides; 0 stands for the first.
    """
    if scores.ndim == 2 and scores.shape[1] == 1:
        scores = scores[:, 0]
    return (scores > 0).astype(np.intp) if scores.ndim == 1 else np.argmax(scores, axis=1)


def best_class(scores: NDArray[Any], classes: NDArray[Any]) -> NDArray[Any]:
    """Return the class with the largest score in each row, as `index_of_best` finds it."""
    return np.asarray(classes[index_of_best(scores)])


def checked_weights(sample_weight: Any, n_rows: int) -> Array:
    """Return the weights of rows; None stands for 1, and so does a number for each.

    Raises ValueError if there is not one for every row, or one is negative, NaN or infinite:
    the first is named.
    """
    if sample_weight is None:
        return np.ones(n_rows)
    weights = real_array(sample_weight, "sample_weight")
    if weights.ndim == 0:
        weights = np.full(n_rows, weights)
    if weights.shape != (n_rows,):
        raise ValueError(
            f"sample_weight has shape {weights.shape}, but ({n_rows},) is needed: a weight for "
            "each of the samples."
        )
    bad = np.flatnonzero(~((weights >= 0.0) & np.isfinite(weights)))
    if len(bad):
        raise ValueError(
            f"sample_weight[{bad[0]}] = {weights[bad[0]]}: weights must be finite and not negative."
        )
    return weights


def positive_weights(sample_weight: Any, n_rows: int) -> Array:
    """Return the weights of rows, checked, of which some is positive."""
    weights = checked_weights(sample_weight, n_rows)
    refuse_zeros(weights, "sample_weight")
    return weights


def refuse_zeros(weights: Array, of: Literal["sample_weight", "class_weight"]) -> None:
    """Fail where nothing weighs anything."""
    if not weights.any():
        one = "row" if of == "sample_weight" else "class"
        raise ValueError(f"{of} is zero everywhere: give some {one} a positive weight.")


def of_finite_sum(weights: Array) -> Array:
    """Return weights, and refuse those whose sum overflows."""
    with may_overflow():
        total = weights.sum()
    if not np.isfinite(total):
        raise ValueError("the sum of sample_weight overflows; divide it by a scale.")
    return weights


def weights_of_classes(
    class_weight: Any,
    labels: NDArray[Any],
    sample_weight: Array | None = None,
    classes: NDArray[Any] | None = None,
) -> Array:
    """Return what the class of each label weighs; "balanced" makes the sums of weights alike.

    Before its version 1.7, scikit-learn balances numbers of samples, whatever they weigh.

    Raises ValueError if the weight of a class is negative or not finite.
    """
    if classes is None:
        classes = np.unique(labels)
    codes = np.searchsorted(classes, labels)
    if isinstance(class_weight, str) and class_weight == "balanced":
        sums = np.bincount(codes, weights=sample_weight, minlength=len(classes))
        with np.errstate(divide="ignore"):
            factors = sums.sum() / (len(classes) * sums)
    else:
        factors = compute_class_weight(class_weight, classes=classes, y=labels)
    weights: Array = factors[codes]
    bad = np.flatnonzero(~((weights >= 0.0) & (weights < np.inf)))
    if len(bad) > 0:
        raise ValueError(
            f"class_weight of {labels.tolist()[bad[0]]!r} is {weights[bad[0]]}: weights must be "
            "finite and non-negative."
        )
    return weights


def product_of_weights(weights: Array, of_classes: Array) -> Array:
    """Return weights of rows times those of their classes, whose sum is finite."""
    with may_overflow():
        product = weights * of_classes
        total = product.sum()
    if not np.isfinite(total):
        raise ValueError(
            "sample_weight times class_weight overflows, or its sum: divide one by a scale."
        )
    return product


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

    Raises ValueError if a weight is negative, NaN or infinite, all are zero, or there is not
    one for every row.
    """
    if sample_weight is None:
        return RowWeights(None, None)
    weights = positive_weights(sample_weight, _num_samples(X))
    kept = np.flatnonzero(weights)
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
    """Return the weights of rows times those of their classes, as scikit-learn's `class_weight`.

    "balanced" makes the sums of weights alike. A ValueError says that the weight of a class is
    negative or not finite, or that nothing is left.
    """
    if class_weight is None:
        return given
    of_rows = np.ones(len(labels)) if given.weights is None else given.weights
    of_classes = weights_of_classes(class_weight, labels, of_rows)
    refuse_zeros(of_classes, "class_weight")
    kept = np.flatnonzero(of_classes)
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
