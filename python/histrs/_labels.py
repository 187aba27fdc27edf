"""Labels to indices among the classes, and scores to labels."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import column_or_1d

from histrs._checks.scale import may_overflow


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

    Raises
    ------
    ValueError
        If `y` has several columns that are no indicator.
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
            f"y[{i}] = {labels.ravel()[i]!r} is of type {kinds[i].__name__}, others are not, and "
            "they have no order: give labels of one type, and drop rows without one."
        ) from None


NOTHING_WEIGHS = "class_weight is zero for every row: give some class a positive weight."


def factors_of_classes(
    class_weight: Any,
    classes: NDArray[Any],
    codes: NDArray[np.intp],
    sample_weight: NDArray[np.float64] | None,
) -> NDArray[np.float64]:
    """Return the factor of each class; "balanced" makes the sums of weights alike.

    Before its version 1.7, scikit-learn balances numbers of samples, whatever they weigh.
    """
    if isinstance(class_weight, str) and class_weight == "balanced":
        sums = np.bincount(codes, weights=sample_weight, minlength=len(classes))
        with np.errstate(divide="ignore"):
            balanced: NDArray[np.float64] = sums.sum() / (len(classes) * sums)
        return balanced
    factors: NDArray[np.float64] = compute_class_weight(
        class_weight, classes=classes, y=classes[codes]
    )
    return factors


def weights_of_classes(
    class_weight: Any, labels: NDArray[Any], sample_weight: NDArray[np.float64] | None = None
) -> NDArray[np.float64]:
    """Return what the class of each label weighs, "balanced" by the weights of rows.

    Raises
    ------
    ValueError
        If the weight of a class is negative or not finite.
    """
    classes, codes = np.unique(labels, return_inverse=True)
    weights = factors_of_classes(class_weight, classes, codes, sample_weight)[codes]
    bad = np.flatnonzero(~((weights >= 0.0) & (weights < np.inf)))
    if len(bad) > 0:
        raise ValueError(
            f"class_weight of {labels.tolist()[bad[0]]!r} is {weights[bad[0]]}: weights are "
            "finite and non-negative."
        )
    return weights


def times_class_weights(
    weights: NDArray[np.float64], of_classes: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return weights of rows times those of their classes, whose sum is finite."""
    with may_overflow():
        product = weights * of_classes
        total = product.sum()
    if not np.isfinite(total):
        raise ValueError(
            "sample_weight times class_weight overflows, or its sum: divide one by a scale."
        )
    return product


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
