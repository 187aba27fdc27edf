"""Functions of two features, as maps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from histrs._estimator import documented
from histrs.gaussian_process import IntersectionGPClassifier, IntersectionGPRegressor
from histrs.plotting._docs import AXES
from histrs.plotting._gaussian_process import _name, check_output
from histrs.plotting._pyplot import import_pyplot

# Pairs that are drawn where none are named.
_MOST = 3
# Deviations from 0 within which a function is said to be none.
_SURE = 2.0


@documented(AXES)
def plot_pair_functions(
    model: IntersectionGPClassifier | IntersectionGPRegressor,
    pairs: Sequence[Sequence[int | str]] | None = None,
    *,
    output: int = 0,
    bands: bool = True,
    feature_names: Sequence[str] | None = None,
    axes: Any = None,
) -> Any:
    """Draw what pairs of features add to the posterior mean, beside what each adds by itself.

    Parameters
    ----------
    model : IntersectionGPClassifier or IntersectionGPRegressor
        A fitted model whose kernel has `Interactions`.
    pairs : sequence of pairs of int or str, default=None
        Which of the model's pairs; None takes the three whose functions vary most.
    {output}
    bands : bool, default=True
        Whether to hatch where the function is within two posterior standard deviations of 0.
    {feature_names}
    axes : array-like of matplotlib Axes, default=None
        Where to draw, one per pair; None makes a figure.

    Returns
    -------
    axes : ndarray of matplotlib Axes
        Where it was drawn, one per pair.

    Raises
    ------
    ValueError
        If there is no such output or pair, the model has no pairs, or `axes` are too few.

    Examples
    --------
    >>> import numpy as np
    >>> from histrs.gaussian_process import IntersectionGPRegressor
    >>> from histrs.gaussian_process.kernels import Interactions, Intersection
    >>> from histrs.plotting import plot_pair_functions
    >>> X = np.random.default_rng(0).random((200, 4))
    >>> kernel = Intersection() + Interactions(1)
    >>> model = IntersectionGPRegressor(kernel).fit(X, X[:, 0] * X[:, 1])
    >>> axes = plot_pair_functions(model)  # doctest: +SKIP
    """
    check_is_fitted(model)
    check_output(model, output)
    functions = model.pair_functions(pairs)
    if not functions:
        raise ValueError("The model has no pairs of features: fit with Interactions.")
    if pairs is None:
        functions.sort(key=lambda function: -float(np.std(_of_output(function.values, output))))
        functions = functions[:_MOST]
    if bands:
        functions = model.pair_functions([f.features for f in functions], return_std=True)
    if axes is None:
        size = (3.6 * len(functions), 3.0)
        _, axes = import_pyplot().subplots(
            1, len(functions), figsize=size, squeeze=False, layout="constrained"
        )
    axes = np.atleast_1d(axes).ravel()
    if axes.size < len(functions):
        raise ValueError(f"{axes.size} axes for {len(functions)} pairs: give one for each.")
    for ax, function in zip(axes, functions, strict=False):
        std = None if function.std is None else _of_output(function.std, output)
        draw_map(ax, *function.knots, _of_output(function.values, output), std, centre=0.0)
        ax.set_xlabel(_name(model, feature_names, function.features[0]))
        ax.set_ylabel(_name(model, feature_names, function.features[1]))
    return axes[: len(functions)]


def draw_map(
    ax: Any, x: ArrayLike, y: ArrayLike, values: Any, std: Any, *, centre: float | None
) -> None:
    """Draw a function on a grid, and hatch where it is not certainly off the centre."""
    x, y = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    middle = float(np.mean(values)) if centre is None else centre
    most = float(np.max(np.abs(values - middle), initial=0.0)) or 1.0
    if len(x) < 2 or len(y) < 2:
        raise ValueError("A feature of the pair has one value: there is nothing to draw.")
    image = ax.pcolormesh(
        x,
        y,
        values.T,
        cmap="RdBu_r",
        vmin=middle - most,
        vmax=middle + most,
        shading="gouraud",
        rasterized=True,
    )
    ax.figure.colorbar(image, ax=ax)
    if std is not None:
        unsure = (np.abs(values - middle) <= _SURE * std).astype(np.float64).T
        # Without an outline, which would hide what is beneath.
        ax.contourf(x, y, unsure, levels=[0.5, 1.5], colors="none", hatches=["////"])


def _of_output(values: Any, output: int) -> Any:
    """Return the map of an output, or what all outputs share."""
    return values if values.ndim == 2 else values[:, :, output]
