"""What features do on average."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from histrs._estimator import documented
from histrs.gaussian_process._tabular.partial_dependence import PartialDependence
from histrs.plotting._docs import AXES
from histrs.plotting._pairs import draw_map
from histrs.plotting._pyplot import import_pyplot


@documented(AXES)
def plot_partial_dependence(
    dependence: PartialDependence,
    *,
    output: int = 0,
    feature_names: Sequence[str] | None = None,
    ax: Any = None,
) -> Any:
    """Draw the mean effect of a feature with two standard deviations, or of two as a map.

    On a map, thin lines are of equal standard deviation. Each category of a feature is a point with
    a bar. For a numerical and a categorical feature, each category is a line.

    Parameters
    ----------
    dependence : PartialDependence
        What `TabularGPRegressor.partial_dependence` or `TabularGPClassifier.partial_dependence`
        returns.
    {output}
    feature_names : sequence of str, default=None
        Names of all features; None takes numbers.
    {ax}

    Returns
    -------
    ax : matplotlib Axes
        Where it was drawn.

    Raises
    ------
    ValueError
        If there is no such output.

    Examples
    --------
    >>> import numpy as np
    >>> from histrs.gaussian_process import TabularGPRegressor
    >>> from histrs.plotting import plot_partial_dependence
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> model = TabularGPRegressor(random_state=0).fit(X, X[:, 0] * X[:, 1])  # doctest: +SKIP
    >>> ax = plot_partial_dependence(model.partial_dependence(X, (0, 1)))  # doctest: +SKIP
    """
    mean, std, grid = dependence.mean, dependence.std, dependence.grid
    if mean.ndim == len(grid):
        mean, std = mean[..., None], std[..., None]
    if not 0 <= output < mean.shape[-1]:
        raise ValueError(f"output = {output}: give a number from 0 to {mean.shape[-1] - 1}.")
    mean, std = mean[..., output], std[..., output]
    names = [
        f"feature {d}" if feature_names is None else str(feature_names[d])
        for d in dependence.features
    ]
    if ax is None:
        _, ax = import_pyplot().subplots(figsize=(4.4, 3.4), layout="constrained")
    categories = [values.dtype.kind not in "fiu" for values in grid]
    if len(grid) == 1:
        _draw_function(ax, grid[0], mean, std, None)
    elif any(categories):
        # The one with a line for each of its values.
        of_lines = categories.index(True)
        if of_lines == 0:
            mean, std = mean.T, std.T
        for k, value in enumerate(grid[of_lines]):
            _draw_function(ax, grid[1 - of_lines], mean[:, k], std[:, k], str(value))
        ax.legend(title=names[of_lines], frameon=False)
        names = [names[1 - of_lines]]
    else:
        draw_map(ax, grid[0], grid[1], mean, None, centre=None)
        lines = ax.contour(grid[0], grid[1], std.T, levels=4, colors="0.25", linewidths=0.7)
        ax.clabel(lines, fontsize="x-small", fmt="±%.2g")
        ax.set_ylabel(names[1])
    ax.set_xlabel(names[0])
    if len(names) == 1:
        ax.set_ylabel("average prediction")
        for side in ("top", "right"):
            ax.spines[side].set_visible(False)
    return ax


def _draw_function(ax: Any, values: Any, mean: Any, std: Any, label: str | None) -> None:
    """Draw a line with its band, or points with bars of categories."""
    if values.dtype.kind in "fiu":
        ax.plot(values, mean, label=label)
        ax.fill_between(values, mean - 2 * std, mean + 2 * std, alpha=0.25, linewidth=0)
        return
    positions = np.arange(len(values))
    ax.errorbar(positions, mean, 2 * std, fmt="o", capsize=3.0, label=label)
    ax.set_xticks(positions, [str(value) for value in values])
