"""Strategy for cost matrices between the bins of a histogram."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from numpy.typing import NDArray

from histrs.testing._common import (
    LAYOUTS,
    DType,
    Layout,
    Size,
    check_scale,
    draw_bytes,
    draw_scale,
    floating,
    lay_out,
    named,
    option,
    power_of_two,
    sizes,
)

Kind: TypeAlias = Literal["any", "metric", "pseudometric", "discrete", "grid", "squared", "cost"]

_KINDS = ("metric", "pseudometric", "discrete", "grid", "squared", "cost")
_SCALES = {"float32": {"tiny": 1e-30, "huge": 1e30}, "float64": {"tiny": 1e-300, "huge": 1e300}}
_SPREAD = 2.0**18  # the largest squared distance drawn is 3 * 255**2


def ground_distances(
    d: Size = (1, 33),
    kind: Kind | SearchStrategy[Kind] = "metric",
    *,
    dtype: DType = np.float64,
    scale: float | str | SearchStrategy[float | str] = 1.0,
    layout: Layout | SearchStrategy[Layout] = "any",
) -> SearchStrategy[NDArray[Any]]:
    """Strategy for matrices of distances between histogram bins.

    Every matrix is exactly symmetric and non-negative, with a zero diagonal.

    Parameters
    ----------
    d : int, (int, int) or strategy of int, default=(1, 33)
        Number of bins; a pair is an inclusive range.
    kind : {"metric", "pseudometric", "discrete", "grid", "squared", "cost", "any"} or strategy \
of them, default="metric"
        What holds besides:

        * "metric": shortest paths in a graph. Distances between different bins are positive, and
          the triangle inequality holds exactly, not just up to rounding.
        * "pseudometric": the same, but different bins may be at distance zero.
        * "discrete": all different bins are at the same distance, also a metric.
        * "grid": Euclidean distances between the cells of a grid with `d` cells, a metric up to
          rounding.
        * "squared": squared Euclidean distances between points, which may coincide. The triangle
          inequality does not hold in general.
        * "cost": nothing more.
    dtype : dtype or strategy of dtypes, default=numpy.float64
        `float32` or `float64`.
    scale : float, {"tiny", "huge", "any"} or strategy of them, default=1.0
        The distances are multiplied by the power of two nearest to it, which is exact. "tiny"
        and "huge" are 1e-300 and 1e300, or 1e-30 and 1e30 in single precision; "any" is one of
        these or ordinary.
    layout : {"any", "C", "F", "sliced", "strided", "reversed", "readonly"} or strategy of them, \
default="any"
        Memory layout, as in `histograms`.

    Returns
    -------
    strategy of ndarray of shape (d, d)
        Strategy for cost matrices.

    Examples
    --------
    >>> from hypothesis import given, settings
    >>> from histrs.testing import ground_distances
    >>> @settings(max_examples=20, database=None)
    ... @given(M=ground_distances(d=(1, 9), kind="metric"))
    ... def test_no_detour_is_shorter(M):
    ...     detours = M[:, :, None] + M[None, :, :]
    ...     assert (M <= detours.min(axis=1)).all()
    >>> test_no_detour_is_shorter()
    """
    return _ground_distances(
        sizes("d", d),
        named("kind", kind, _KINDS),
        option(dtype, floating),
        option(scale, check_scale("tiny", "huge", "any")),
        named("layout", layout, LAYOUTS),
    )


@st.composite
def _ground_distances(
    draw: st.DrawFn,
    d_strategy: SearchStrategy[int],
    kind_strategy: SearchStrategy[str],
    dtype_strategy: SearchStrategy[np.dtype[Any]],
    scale_strategy: SearchStrategy[float | str],
    layout_strategy: SearchStrategy[str],
) -> NDArray[Any]:
    d, kind, dtype = draw(d_strategy), draw(kind_strategy), draw(dtype_strategy)
    distances: NDArray[Any]
    if kind == "discrete":
        distances = 1.0 - np.eye(d)
    elif kind == "grid":
        heights = [height for height in range(1, d + 1) if d % height == 0]
        width = d // draw(st.sampled_from(heights)) if heights else 1
        distances = np.sqrt(_squared_distances(np.stack(np.divmod(np.arange(d), width), axis=1)))
    elif kind == "squared":
        n_axes = draw(st.integers(1, 3))
        distances = _squared_distances(draw_bytes(draw, d * n_axes).reshape(d, n_axes))
    else:
        distances = np.zeros((d, d), dtype=np.intp)
        upper = np.triu_indices(d, k=1)
        distances[upper] = draw_bytes(draw, len(upper[0])) + (kind == "metric")
        distances += distances.T
        if kind != "cost":
            # Floyd-Warshall on integers, whose sums are exact.
            for k in range(d):
                through = distances[:, k, None] + distances[None, k, :]
                distances = np.minimum(distances, through)
    scale = power_of_two(draw_scale(draw, scale_strategy, dtype, _SCALES, _SPREAD))
    return lay_out(distances.astype(dtype) * dtype.type(scale), draw(layout_strategy))


def _squared_distances(points: NDArray[np.intp]) -> NDArray[np.intp]:
    difference = points[:, None, :] - points[None, :, :]
    squared: NDArray[np.intp] = np.square(difference).sum(axis=2)
    return squared
