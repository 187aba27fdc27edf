"""Labels of classes as targets +1 and -1, which come and go with rows."""

from __future__ import annotations

from numbers import Number
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import column_or_1d

from histrs._typing import Array


def declared_with(
    before: NDArray[Any] | None,
    classes: ArrayLike | None,
    labels: NDArray[Any],
    known: list[NDArray[Any]],
) -> NDArray[Any] | None:
    """Return classes that stay without rows, and refuse labels of others.

    Parameters
    ----------
    before : ndarray or None
        Those that were declared.
    classes : array-like or None
        Those that are declared now.
    labels : ndarray of shape (n_rows,)
        Labels of rows.
    known : list of ndarray
        Classes that there are.
    """
    if classes is None:
        return before
    given = np.unique(column_or_1d(classes))
    foreign = np.flatnonzero(~np.isin(of_one_type(labels), of_one_type(*known, given)))
    if len(foreign) > 0:
        raise ValueError(
            f"y[{foreign[0]}] = {labels.tolist()[foreign[0]]!r} is neither in classes = "
            f"{given.tolist()} nor known: add it to classes, or leave classes out."
        )
    return np.unique(given if before is None else of_one_type(before, given))


def classes_of(name: str, declared: NDArray[Any] | None, labels: NDArray[Any]) -> NDArray[Any]:
    """Return the classes of all rows and those declared: two at least."""
    classes = np.unique(labels if declared is None else of_one_type(declared, labels))
    if len(classes) < 2:
        raise ValueError(
            f"{name} needs samples of at least 2 classes, but y contains "
            f"only one class: {classes.tolist()[0]!r}. Add samples of another one."
        )
    return classes


def targets_of(labels: NDArray[Any], classes: NDArray[Any]) -> Array:
    """Return +1 for the class of an output and -1 for others; one output for two classes."""
    codes = np.searchsorted(classes, labels)
    positive = codes[:, None] == ([1] if len(classes) == 2 else np.arange(len(classes)))
    return np.where(positive, 1.0, -1.0)


def weights_to_start_from(classes: NDArray[Any], before: NDArray[Any], weights: Array) -> Array:
    """Return the weights of the outputs that there are now, from those of earlier classes.

    The targets of n classes add up to 2 - n in every row, and their weights are as linear: so
    much is known of a class that no row has been of.
    """
    if weights.shape[1] == 1:
        weights = np.hstack([-weights, weights])
    n = len(before)
    of_new = weights.sum(axis=1) / (n - 2) if n > 2 else np.zeros(len(weights))
    known = dict(zip(before.tolist(), weights.T, strict=True))
    outputs = classes[1:] if len(classes) == 2 else classes
    return np.column_stack([known.get(label, of_new) for label in outputs.tolist()])


def one_an_output(systems: tuple[Any, ...], n_outputs: int) -> tuple[Any, ...]:
    """Return as many systems as outputs: classes that are new begin like the last one."""
    if len(systems) in (1, n_outputs):
        return systems
    return tuple(systems[min(k, len(systems) - 1)] for k in range(n_outputs))


def of_one_type(*labels: NDArray[Any]) -> NDArray[Any]:
    """Return all labels together, unless NumPy would turn numbers into strings."""
    kinds = {_kind(part) for part in labels}
    if len(kinds) > 1:
        raise ValueError(
            f"Labels are {' and '.join(sorted(kinds))}: give them all as one, as in earlier calls."
        )
    return np.concatenate(labels)


def _kind(labels: NDArray[Any]) -> str:
    if labels.dtype.kind in "biuf":
        return "numbers"
    if labels.dtype.kind != "O":
        return "strings"
    types = {
        "strings" if isinstance(x, str) else "numbers" if isinstance(x, Number) else "objects"
        for x in labels
    }
    return types.pop() if len(types) == 1 else "objects"
