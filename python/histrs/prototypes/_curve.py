"""Test error against the size of the compressed set."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from histrs._typing import Array, Matrix
from histrs.prototypes._base import PrototypeClassifier, SelectedPrototypes


class CompressionCurve(NamedTuple):
    """The test errors of a classifier on compressed sets of growing size.

    Attributes
    ----------
    ratios : ndarray of shape (n_ratios,)
        Numbers of prototypes over the number of training samples.
    errors : ndarray of shape (n_ratios, n_runs)
        Fractions of test samples that are misclassified, for each run.
    """

    ratios: Array
    errors: Array


def compression_curve(
    estimator: PrototypeClassifier,
    X: ArrayLike | Matrix,
    y: ArrayLike,
    X_test: ArrayLike | Matrix,
    y_test: ArrayLike,
    *,
    ratios: Iterable[float] = (0.02, 0.04, 0.08, 0.16),
    random_states: Iterable[int] = range(5),
) -> CompressionCurve:
    """Measure the test error at several sizes of the compressed set, as the paper's figures do.

    A classifier with a `compression` is fitted at each ratio. A classifier that finds its own
    number of prototypes (such as :class:`~histrs.prototypes.CondensedNN`) is fitted once a run. It
    is measured with its first prototypes, as many as each smaller ratio allows, and with all.

    Parameters
    ----------
    estimator : classifier of `histrs.prototypes`
        Cloned for each fit.
    X, y : array-like
        Training samples and their classes, as the estimator takes them.
    X_test, y_test : array-like
        Test samples and their classes.
    ratios : iterable of float, default=(0.02, 0.04, 0.08, 0.16)
        Sizes of the sets, as fractions of the number of training samples. The result has the sizes
        that were found.
    random_states : iterable of int, default=range(5)
        A run for each, where the estimator has a `random_state`; else there is one run.

    Returns
    -------
    curve : CompressionCurve
        Ratios and errors. A set smaller than a ratio in some run counts whole.

    Raises
    ------
    TypeError
        If `estimator` is of another kind.

    References
    ----------
    .. [1] M. J. Kusner, N. I. Kolkin, S. Tyree and K. Q. Weinberger, "Image data compression for
       covariance and histogram descriptors", 2015: figures 2 and 4.

    Examples
    --------
    >>> import numpy as np
    >>> from histrs.prototypes import RandomSubset, compression_curve
    >>> X = np.random.default_rng(0).standard_normal((200, 2))
    >>> y = X[:, 0] > 0
    >>> model = RandomSubset(metric="euclidean")
    >>> curve = compression_curve(model, X[:100], y[:100], X[100:], y[100:], ratios=[0.02, 0.5])
    >>> curve.ratios, curve.errors.shape
    (array([0.02, 0.5 ]), (2, 5))
    """
    if not isinstance(estimator, PrototypeClassifier):
        raise TypeError(
            f"estimator is of type {type(estimator).__name__}: give a classifier of "
            "histrs.prototypes, such as RandomSubset()."
        )
    y, y_test = np.asarray(y), np.asarray(y_test)
    ratios = np.sort(np.fromiter(ratios, dtype=np.float64))
    seeds = list(random_states) if "random_state" in estimator.get_params() else [None]
    runs = []
    for seed in seeds:
        options = {} if seed is None else {"random_state": seed}
        model = clone(estimator).set_params(**options)
        if "compression" in model.get_params():
            runs.append([_fitted(model, ratio, X, y, X_test, y_test) for ratio in ratios])
        else:
            runs.append(_prefixes(model.fit(X, y), ratios, len(y), X_test, y_test))
    table = np.array(runs)
    return CompressionCurve(table[:, :, 0].mean(axis=0), table[:, :, 1].T)


def _fitted(
    model: Any, ratio: float, X: Any, y: Any, X_test: Any, y_test: NDArray[Any]
) -> tuple[float, float]:
    model.set_params(compression=float(ratio)).fit(X, y)
    share = len(model.prototype_labels_) / len(y)
    return share, float(np.mean(model.predict(X_test) != y_test))


def _prefixes(
    model: SelectedPrototypes, ratios: Array, n: int, X_test: Any, y_test: NDArray[Any]
) -> list[tuple[float, float]]:
    labels = model.prototype_labels_
    sizes = [max(1, round(ratio * n)) for ratio in ratios]
    D = model._space().distances(model._check_queries(X_test), model.prototypes_)
    points = []
    for size in [*sizes, len(labels)]:
        part = D[:, :size]
        error = np.mean(labels[np.argmin(part, axis=1)] != y_test)
        points.append((part.shape[1] / n, float(error)))
    return points
