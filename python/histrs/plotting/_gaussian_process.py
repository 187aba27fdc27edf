"""What a Gaussian process has learned of each feature."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from sklearn.utils.validation import check_is_fitted

from histrs._estimator import documented
from histrs.gaussian_process import IntersectionGPClassifier, IntersectionGPRegressor
from histrs.gaussian_process._posterior.functions import ShapeFunction
from histrs.plotting._docs import AXES
from histrs.plotting._pyplot import import_pyplot

_Model: TypeAlias = IntersectionGPClassifier | IntersectionGPRegressor

# Knots at which a band is computed: each takes a solve.
_BAND_KNOTS = 65
_COLUMNS = 3


@documented(AXES)
def plot_relevance(
    model: _Model,
    *,
    feature_names: Sequence[str] | None = None,
    max_features: int = 20,
    ax: Any = None,
) -> Any:
    """Draw the learned weights of the features, largest first, as fractions of their sum.

    Weights of features of different scales compare the scales too: scale the features alike
    before the fit.

    Parameters
    ----------
    model : IntersectionGPClassifier or IntersectionGPRegressor
        A fitted model, as a rule of ``Intersection(feature_weights="ard")``.
    {feature_names}
    max_features : int, default=20
        At most so many bars; all other features share one bar.
    {ax}

    Returns
    -------
    ax : matplotlib Axes
        Where it was drawn.

    Examples
    --------
    >>> import numpy as np
    >>> from histrs.gaussian_process import IntersectionGPRegressor
    >>> from histrs.gaussian_process.kernels import Intersection
    >>> from histrs.plotting import plot_relevance
    >>> X = np.random.default_rng(0).random((200, 4))
    >>> y = np.sin(5 * X[:, 1]) + X[:, 2]
    >>> y += 0.1 * np.random.default_rng(1).standard_normal(200)
    >>> model = IntersectionGPRegressor(Intersection(feature_weights="ard")).fit(X, y)
    >>> ax = plot_relevance(model)  # doctest: +SKIP
    """
    check_is_fitted(model)
    weights = model.feature_weights_
    shares = weights / weights.sum()
    order = np.argsort(-shares, kind="stable")
    names = [_name(model, feature_names, int(d)) for d in order[:max_features]]
    heights = shares[order[:max_features]]
    rest = order[max_features:]
    if len(rest) > 0:
        names.append(f"{len(rest)} others")
        heights = np.append(heights, shares[rest].sum())
    if ax is None:
        _, ax = import_pyplot().subplots(figsize=(6, 0.8 + 0.28 * len(names)), layout="constrained")
    positions = np.arange(len(names))
    colors = ["C0"] * min(len(order), max_features) + ["0.7"] * (len(rest) > 0)
    ax.barh(positions, heights, color=colors)
    ax.set_yticks(positions, names)
    ax.invert_yaxis()
    ax.set_xlabel("fraction of the feature weights")
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    return ax


@documented(AXES)
def plot_shape_functions(
    model: _Model,
    features: Sequence[int | str] | None = None,
    *,
    output: int = 0,
    bands: bool = True,
    feature_names: Sequence[str] | None = None,
    axes: Any = None,
) -> Any:
    """Draw what each feature adds to the posterior mean, with bands of two standard deviations.

    Parameters
    ----------
    model : IntersectionGPClassifier or IntersectionGPRegressor
        A fitted model.
    features : sequence of int or str, default=None
        Indices of the features, or their names, which are those of `feature_names` or of the data
        frame of the fit; None takes the six whose functions vary most.
    {output}
    bands : bool, default=True
        Whether to draw the posterior standard deviation of each function, exact at 65 values of
        the feature; each takes a solve.
    {feature_names}
    axes : array-like of matplotlib Axes, default=None
        Where to draw, one per feature; None makes a figure.

    Returns
    -------
    axes : ndarray of matplotlib Axes
        Where it was drawn, one per feature.

    Raises
    ------
    ValueError
        If there is no such output or feature, or `axes` are fewer than the features.

    Examples
    --------
    >>> import numpy as np
    >>> from histrs.gaussian_process import IntersectionGPRegressor
    >>> from histrs.plotting import plot_shape_functions
    >>> X = np.random.default_rng(0).random((200, 4))
    >>> y = np.sin(5 * X[:, 1]) + X[:, 2]
    >>> y += 0.1 * np.random.default_rng(1).standard_normal(200)
    >>> model = IntersectionGPRegressor().fit(X, y)
    >>> axes = plot_shape_functions(model)  # doctest: +SKIP
    """
    check_is_fitted(model)
    check_output(model, output)
    if features is None:
        indices = _varied(model.shape_functions(), output)
    else:
        indices = [_index(model, feature_names, feature) for feature in features]
    functions = model.shape_functions(indices)
    spread: list[ShapeFunction] | list[None] = [None] * len(functions)
    if bands:
        spread = model.shape_functions(indices, max_knots=_BAND_KNOTS, return_std=True)
    axes = _grid(len(functions)) if axes is None else np.atleast_1d(axes)
    if axes.size < len(functions):
        raise ValueError(f"{axes.size} axes for {len(functions)} features: give one for each.")
    for ax, function, band in zip(axes.ravel(), functions, spread, strict=False):
        if band is not None and band.std is not None:
            values, std = _of_output(band.values, output), _of_output(band.std, output)
            ax.fill_between(band.knots, values - 2 * std, values + 2 * std, alpha=0.25, linewidth=0)
        ax.plot(function.knots, _of_output(function.values, output))
        ax.set_title(_name(model, feature_names, function.feature), fontsize="medium")
    return axes.ravel()[: len(functions)]


def check_output(model: _Model, output: int) -> None:
    """Refuse an output that the model does not have."""
    n_outputs = model.dual_coef_.shape[1]
    if not 0 <= output < n_outputs:
        raise ValueError(f"output = {output}: give a number from 0 to {n_outputs - 1}.")


def _of_output(values: Any, output: int) -> Any:
    """Return the column of an output, or what all outputs share."""
    return values if values.ndim == 1 else values[:, output]


def _varied(functions: list[ShapeFunction], output: int) -> list[int]:
    ranges = [float(np.ptp(_of_output(function.values, output))) for function in functions]
    return sorted(np.argsort(ranges)[::-1][: 2 * _COLUMNS].tolist())


def _names(model: _Model, feature_names: Sequence[str] | None) -> Any:
    return getattr(model, "feature_names_in_", None) if feature_names is None else feature_names


def _index(model: _Model, feature_names: Sequence[str] | None, feature: int | str) -> int:
    if not isinstance(feature, str):
        return feature
    names = _names(model, feature_names)
    if names is None:
        raise ValueError(
            f"features holds the name {feature!r}, and the model was fitted on columns without "
            "names: give feature_names, or indices."
        )
    if feature not in list(names):
        raise ValueError(f"there is no feature {feature!r}; the features are {list(names)}.")
    return list(names).index(feature)


def _name(model: _Model, feature_names: Sequence[str] | None, feature: int) -> str:
    names = _names(model, feature_names)
    return f"feature {feature}" if names is None else str(names[feature])


def _grid(n: int) -> Any:
    columns = min(n, _COLUMNS)
    rows = -(-n // max(columns, 1))
    size = (3.2 * columns, 2.4 * rows)
    figure, axes = import_pyplot().subplots(
        rows, columns, figsize=size, squeeze=False, sharey=True, layout="constrained"
    )
    for ax in axes.ravel()[n:]:
        figure.delaxes(ax)
    return axes
