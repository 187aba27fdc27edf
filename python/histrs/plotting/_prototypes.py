"""What compression costs, and what the prototypes are."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from histrs.plotting._pyplot import import_pyplot
from histrs.prototypes._base import PrototypeClassifier
from histrs.prototypes._curve import CompressionCurve

_MARKERS = "osv^Dx<>P*"
_COLUMNS = 6


def plot_compression(
    curves: Mapping[str, CompressionCurve], *, full_error: float | None = None, ax: Any = None
) -> Any:
    """Draw test errors against the size of the compressed set, as figures 2 and 4 of [1]_.

    Parameters
    ----------
    curves : mapping of str to CompressionCurve
        The curve of each method, from :func:`~histrs.prototypes.compression_curve`. Several runs
        are drawn as mean and standard deviation.
    full_error : float or None, default=None
        The test error with all training samples: a horizontal line.
    ax : matplotlib.axes.Axes, default=None
        Where to draw; None makes a figure.

    Returns
    -------
    ax : matplotlib.axes.Axes
        The axes, with a line for each method.

    Raises
    ------
    ImportError
        If Matplotlib is not installed.

    References
    ----------
    .. [1] M. J. Kusner, N. I. Kolkin, S. Tyree and K. Q. Weinberger, "Image data compression for
       covariance and histogram descriptors", 2015.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> import numpy as np
    >>> from histrs.plotting import plot_compression
    >>> from histrs.prototypes import CompressionCurve
    >>> curve = CompressionCurve(np.array([0.02, 0.16]), np.array([[0.2, 0.24], [0.1, 0.1]]))
    >>> ax = plot_compression({"SCC": curve}, full_error=0.09)
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['all samples', 'SCC']
    """
    if ax is None:
        _, ax = import_pyplot().subplots(layout="constrained")
    if full_error is not None:
        ax.axhline(100 * full_error, ls=":", color="0.3", label="all samples")
    for (name, (ratios, errors)), marker in zip(
        curves.items(), _MARKERS * len(curves), strict=False
    ):
        ax.errorbar(
            100 * ratios,
            100 * errors.mean(axis=1),
            yerr=100 * errors.std(axis=1) if errors.shape[1] > 1 else None,
            marker=marker,
            markersize=4,
            capsize=2,
            lw=1.2,
            label=name,
        )
    ticks = sorted({round(100 * float(r), 1) for curve in curves.values() for r in curve.ratios})
    ax.set_xscale("log")
    ax.set_xticks(_spaced(ticks), [f"{tick:g}" for tick in _spaced(ticks)])
    ax.minorticks_off()
    ax.set(xlabel="prototypes, % of the training samples", ylabel="test error, %")
    ax.grid(alpha=0.3)
    ax.legend(fontsize="small")
    return ax


def _spaced(ticks: list[float]) -> list[float]:
    """Leave out ticks whose labels would meet."""
    kept: list[float] = []
    for tick in ticks:
        if not kept or tick > 1.25 * kept[-1]:
            kept.append(tick)
    return kept


def plot_prototypes(
    model: PrototypeClassifier,
    *,
    features: tuple[int, int] = (0, 1),
    shape: tuple[int, int] | None = None,
    max_prototypes: int = 36,
    figure: Any = None,
) -> Any:
    r"""Draw prototypes: covariances as ellipses, histograms as bars or images.

    The ellipse of a matrix :math:`P` is :math:`x^\top P^{-1} x = 1` of two features: one standard
    deviation. All covariances of a class share a panel; each histogram has one.

    Parameters
    ----------
    model : classifier of `histrs.prototypes`
        A fitted one.
    features : pair of int, default=(0, 1)
        The two features of covariances that are drawn.
    shape : pair of int or None, default=None
        Rows and columns of the images that histograms are; None draws bars.
    max_prototypes : int, default=36
        Most histograms that are drawn, the first ones.
    figure : matplotlib.figure.Figure, default=None
        Where to draw; None makes one.

    Returns
    -------
    figure : matplotlib.figure.Figure
        The figure.

    Raises
    ------
    ImportError
        If Matplotlib is not installed.
    ValueError
        If a feature is not there, or images of `shape` have not as many cells as there are
        bins.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> import numpy as np
    >>> from histrs.plotting import plot_prototypes
    >>> from histrs.prototypes import RandomSubset
    >>> X = np.stack([np.diag([1.0, 2.0]), np.diag([2.0, 1.0])])
    >>> figure = plot_prototypes(RandomSubset(1).fit(X, ["tall", "wide"]))
    >>> [ax.get_title() for ax in figure.axes]
    ['tall', 'wide']
    """
    check_is_fitted(model)
    if figure is None:
        figure = import_pyplot().figure(layout="constrained")
    prototypes = model.prototypes_
    if prototypes.ndim == 3:
        _draw_ellipses(figure, model, _checked_features(features, prototypes.shape[1]))
    else:
        dense = prototypes.toarray() if hasattr(prototypes, "toarray") else prototypes
        _draw_histograms(figure, dense[:max_prototypes], model.prototype_labels_, shape)
    return figure


def _checked_features(features: tuple[int, int], p: int) -> list[int]:
    bad = [feature for feature in features if not 0 <= feature < p]
    if bad:
        raise ValueError(
            f"features = {features}: give numbers from 0 to {p - 1}, rows of a matrix."
        )
    return list(features)


def _panels(figure: Any, n: int, **options: Any) -> Any:
    columns = min(n, _COLUMNS)
    axes = figure.subplots(-(-n // columns), columns, squeeze=False, **options).ravel()
    for ax in axes[n:]:
        ax.remove()
    return axes[:n]


def _draw_ellipses(figure: Any, model: PrototypeClassifier, features: list[int]) -> None:
    angle = np.linspace(0, 2 * math.pi, 100)
    circle = np.stack([np.cos(angle), np.sin(angle)])
    classes = np.unique(model.prototype_labels_)
    panels = _panels(figure, len(classes), sharex=True, sharey=True)
    for ax, label in zip(panels, classes, strict=True):
        for P in model.prototypes_[model.prototype_labels_ == label]:
            root = np.linalg.cholesky(P[np.ix_(features, features)].astype(np.float64))
            ax.plot(*(root @ circle), lw=1)
        ax.set_title(str(label), fontsize="small")
    figure.supxlabel(f"feature {features[0]}")
    figure.supylabel(f"feature {features[1]}")


def _draw_histograms(
    figure: Any, histograms: NDArray[Any], labels: NDArray[Any], shape: tuple[int, int] | None
) -> None:
    n_bins = histograms.shape[1]
    if shape is not None and shape[0] * shape[1] != n_bins:
        raise ValueError(
            f"shape = {shape} has {shape[0] * shape[1]} cells: give {n_bins}, one for each bin."
        )
    panels = _panels(figure, len(histograms), sharey=shape is None)
    for ax, histogram, label in zip(panels, histograms, labels, strict=False):
        if shape is None:
            ax.bar(np.arange(n_bins), histogram, width=1.0)
            ax.tick_params(labelsize="x-small")
        else:
            ax.imshow(histogram.reshape(shape), cmap="magma")
            ax.set(xticks=[], yticks=[])
        ax.set_title(str(label), fontsize="small")
