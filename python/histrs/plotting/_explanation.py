"""One prediction, feature by feature."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np

from histrs._estimator import documented
from histrs.gaussian_process._posterior.functions import Explanation
from histrs.gaussian_process._tabular.explanation import TabularExplanation
from histrs.plotting._docs import AXES
from histrs.plotting._pyplot import import_pyplot


@documented(AXES)
def plot_explanation(
    explanation: Explanation | TabularExplanation,
    row: int = 0,
    *,
    output: int = 0,
    max_features: int = 10,
    ax: Any = None,
) -> Any:
    """Draw what features and pairs add to one prediction, with two standard deviations.

    The largest come first.

    Parameters
    ----------
    explanation : Explanation or TabularExplanation
        Result of `explain`, of `IntersectionGPRegressor` or `TabularGPRegressor`, or of their
        classifiers. The latter have one more bar, for the remainder.
    row : int, default=0
        Which of its rows.
    {output}
    max_features : int, default=10
        At most so many bars; all other features share one bar without a band.
    {ax}

    Returns
    -------
    ax : matplotlib Axes
        Where it was drawn.

    Raises
    ------
    ValueError
        If there is no such row or output, or no feature may be drawn.

    Examples
    --------
    >>> import numpy as np
    >>> from histrs.gaussian_process import IntersectionGPRegressor
    >>> from histrs.plotting import plot_explanation
    >>> X = np.random.default_rng(0).random((100, 3))
    >>> model = IntersectionGPRegressor().fit(X, X[:, 0] - X[:, 2])
    >>> ax = plot_explanation(model.explain(X[:1]))  # doctest: +SKIP
    """
    values, std = explanation.values, explanation.std
    if values.ndim == 2:
        values, std = values[:, :, None], std[:, :, None]
    for name, index, size in (("row", row, values.shape[0]), ("output", output, values.shape[2])):
        if not 0 <= index < size:
            raise ValueError(f"{name} = {index}: give a number from 0 to {size - 1}.")
    if max_features < 1:
        raise ValueError(f"max_features = {max_features}: give at least 1.")
    adds, std = values[row, :, output], std[row, :, output]
    order = np.argsort(-np.abs(adds), kind="stable")
    shown, rest = order[:max_features], order[max_features:]
    names = [_label(explanation, row, int(term)) for term in shown]
    heights, bands = adds[shown], 2.0 * std[shown]
    if len(rest) > 0:
        names.append(f"{len(rest)} others")
        heights, bands = np.append(heights, adds[rest].sum()), np.append(bands, 0.0)
    remainder = 0.0
    if isinstance(explanation, TabularExplanation):
        remainder = float(explanation.remainder.reshape(values.shape[0], -1)[row, output])
        names.append("all else")
        heights, bands = np.append(heights, remainder), np.append(bands, 0.0)
    if ax is None:
        _, ax = import_pyplot().subplots(figsize=(6, 1.0 + 0.28 * len(names)), layout="constrained")
    positions = np.arange(len(names))
    colors = np.where(heights < 0.0, "C3", "C0")
    ax.barh(positions, heights, xerr=bands, color=colors, ecolor="0.3", capsize=2.0)
    ax.axvline(0.0, color="0.3", linewidth=0.8)
    ax.set_yticks(positions, names)
    ax.invert_yaxis()
    offset = float(np.ravel(explanation.offset)[output])
    sum_of_all = offset + float(adds.sum()) + remainder
    ax.set_xlabel(f"added to {offset:.4g}, which gives {sum_of_all:.4g}")
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    return ax


def _label(explanation: Explanation | TabularExplanation, row: int, term: int) -> str:
    """Return the name of a term with the values of its features."""
    n_features = explanation.data.shape[1]
    own = [term] if term < n_features else explanation.pairs[term - n_features]
    held = [explanation.data[row, d] for d in own]
    texts = [f"{value:.4g}" if isinstance(value, Real) else str(value) for value in held]
    return ", ".join(f"{explanation.names[d]} = {text}" for d, text in zip(own, texts, strict=True))
