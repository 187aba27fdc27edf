"""Labels to places among the classes, and scores to labels."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d


def checked_labels(y: ArrayLike) -> NDArray[Any]:
    """Return labels as a row of classes, and refuse what are no classes."""
    check_classification_targets(y)
    labels: NDArray[Any] = column_or_1d(y, warn=True)
    return labels


def encode(y: ArrayLike) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return the classes in order, and the place of each label among them."""
    classes, places = np.unique(checked_labels(y), return_inverse=True)
    return classes, places.astype(np.int64, copy=False)


def best_class(scores: NDArray[Any], classes: NDArray[Any]) -> NDArray[Any]:
    """Return the class with the largest score in each row.

    Two classes may have one column, or none, whose sign decides; 0 stands for the first.
    """
    if scores.ndim == 2 and scores.shape[1] == 1:
        scores = scores[:, 0]
    best = (scores > 0).astype(np.intp) if scores.ndim == 1 else np.argmax(scores, axis=1)
    return np.asarray(classes[best])
