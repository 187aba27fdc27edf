"""Whether probabilities and intervals are what they say."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import norm
from sklearn.base import is_classifier
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from histrs._estimator import documented
from histrs.plotting._docs import AXES
from histrs.plotting._pyplot import import_pyplot

_LEVELS = np.linspace(0.05, 0.95, 19)


@documented(AXES)
def plot_calibration(
    model: Any, X: ArrayLike, y: ArrayLike, *, n_bins: int = 10, ax: Any = None
) -> Any:
    r"""Draw how often a model is right beside how sure it says that it is.

    For a classifier, rows are put into bins by the probability of the second of two classes, or of
    the predicted one of several. Each bin with rows is a point: mean probability and observed
    fraction, with a bar of two standard errors. The legend has the expected calibration error,
    :math:`\sum_b \frac{n_b}{n} |\bar p_b - \bar y_b|`.

    For a regressor, each point is a central interval of the predictive normal distribution: its
    nominal probability, and the fraction of rows within it.

    Parameters
    ----------
    model : estimator
        A fitted classifier with ``predict_proba``, or a regressor of one target whose ``predict``
        takes ``return_std``: those of this package, and scikit-learn's.
    X : array-like of shape (n_samples, n_features)
        Rows that the model has not seen.
    y : array-like of shape (n_samples,)
        Their labels or targets.
    n_bins : int, default=10
        Bins of equal width, of a classifier.
    {ax}

    Returns
    -------
    ax : matplotlib Axes
        Where it was drawn.

    Raises
    ------
    ValueError
        If `X` and `y` differ in length or have no rows, if `n_bins` is not positive, or if `y`
        has several targets.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from histrs.gaussian_process import TabularGPClassifier
    >>> from histrs.plotting import plot_calibration
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = TabularGPClassifier(random_state=0).fit(X[:400], y[:400])
    >>> ax = plot_calibration(model, X[400:], y[400:])  # doctest: +SKIP
    """
    check_is_fitted(model)
    y = np.asarray(y)
    check_consistent_length(X, y)
    if y.ndim != 1 or len(y) == 0:
        raise ValueError(f"y has shape {y.shape}: give one label or target for each of some rows.")
    if n_bins < 1:
        raise ValueError(f"n_bins = {n_bins}: give at least one bin.")
    if ax is None:
        _, ax = import_pyplot().subplots(figsize=(4.5, 4.5), layout="constrained")
    ax.plot([0.0, 1.0], [0.0, 1.0], color="0.7", linewidth=1.0)
    if is_classifier(model):
        _draw_classifier(ax, *_sure_and_right(model, X, y), n_bins)
    else:
        mean, std = model.predict(X, return_std=True)
        _draw_intervals(ax, mean, std, y)
    ax.set_xlim(0.0, 1.0)
    ax.set_ylim(0.0, 1.0)
    ax.set_aspect("equal")
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    ax.legend(frameon=False, loc="upper left")
    return ax


def _sure_and_right(
    model: Any, X: ArrayLike, y: NDArray[Any]
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return the probability of a class for every row, and whether the row is of it."""
    probabilities = np.asarray(model.predict_proba(X), dtype=np.float64)
    classes = np.asarray(model.classes_)
    if len(classes) == 2:
        return probabilities[:, 1], y == classes[1]
    best = np.argmax(probabilities, axis=1)
    return probabilities[np.arange(len(y)), best], y == classes[best]


def _draw_classifier(
    ax: Any, sure: NDArray[np.float64], right: NDArray[np.bool_], n_bins: int
) -> None:
    bins = np.minimum((sure * n_bins).astype(np.intp), n_bins - 1)
    counts = np.bincount(bins, minlength=n_bins)
    filled = counts > 0
    n = counts[filled]
    mean = np.bincount(bins, sure, n_bins)[filled] / n
    share = np.bincount(bins, right, n_bins)[filled] / n
    error = float(np.sum(n * np.abs(mean - share)) / len(sure))
    bar = 2.0 * np.sqrt(share * (1.0 - share) / n)
    below, above = np.minimum(bar, share), np.minimum(bar, 1.0 - share)
    label = f"expected calibration error {error:.3f}"
    ax.errorbar(mean, share, [below, above], fmt="o-", markersize=4.0, linewidth=1.0, label=label)
    ax.set_xlabel("predicted probability")
    ax.set_ylabel("observed share")


def _draw_intervals(
    ax: Any, mean: NDArray[np.float64], std: NDArray[np.float64], y: NDArray[Any]
) -> None:
    with np.errstate(divide="ignore", invalid="ignore"):
        distance = np.abs(y - mean) / std
    # A prediction without doubt is within every interval where it is right.
    distance = np.where(y == mean, 0.0, distance)
    within = np.mean(distance[:, None] <= norm.ppf(0.5 + 0.5 * _LEVELS), axis=0)
    label = f"95% intervals hold {within[-1]:.1%}"
    ax.plot(_LEVELS, within, "o-", markersize=4.0, linewidth=1.0, label=label)
    ax.set_xlabel("probability of the interval")
    ax.set_ylabel("fraction of rows within")
