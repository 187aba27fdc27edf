"""Ground distances between the cells of a grid."""

import math
import operator
from collections.abc import Sequence
from typing import Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.distance import cdist

from histrs._sparse import refuse_sparse
from histrs._validation import real_array

# No machine holds the distances of more.
_MOST_CELLS = 1 << 28

Metric: TypeAlias = Literal["euclidean", "cityblock", "chebyshev"]


def grid_ground_distance(
    shape: int | Sequence[int],
    metric: Metric = "euclidean",
    *,
    power: float = 1.0,
    spacing: ArrayLike = 1.0,
) -> NDArray[np.float64]:
    r"""Compute the distances between the cells of a grid, for histograms over pixels or bins.

    .. math:: M_{ij} = \| s \circ (p_i - p_j) \|^{\mathrm{power}}

    Parameters
    ----------
    shape : int or sequence of int
        Cells along each axis; the cells are in C order, as ``image.ravel()`` has them.
    metric : {"euclidean", "cityblock", "chebyshev"}, default="euclidean"
        The norm.
    power : float, default=1
        Above 1, `M` is no metric; 2 with "euclidean" is the squared distance of optimal
        transport between densities.
    spacing : float or array-like of shape (n_axes,), default=1
        Width :math:`s` of a cell along each axis.

    Returns
    -------
    M : ndarray of float64 of shape (n_cells, n_cells)
        Ground distance: symmetric, with a zero diagonal.

    Raises
    ------
    ValueError
        If a length, the metric, the power or a spacing is not as above.

    Examples
    --------
    >>> from histrs.transport import grid_ground_distance
    >>> grid_ground_distance(4, power=2)
    array([[0., 1., 4., 9.],
           [1., 0., 1., 4.],
           [4., 1., 0., 1.],
           [9., 4., 1., 0.]])
    """
    lengths = _lengths(shape)
    if metric not in get_args(Metric):
        words = ", ".join(repr(word) for word in get_args(Metric))
        raise ValueError(f"metric = {metric!r}: must be one of {words}.")
    if not (np.isfinite(power) and power > 0):
        raise ValueError(f"power = {power}: must be positive and finite.")
    widths = real_array(spacing, "spacing")
    if widths.shape not in ((), (len(lengths),)) or not np.all(np.isfinite(widths) & (widths > 0)):
        raise ValueError(
            f"spacing = {spacing!r}: must be a positive number, or one for each of {len(lengths)} "
            "axes."
        )
    places = np.indices(lengths).reshape(len(lengths), -1).T * widths
    if metric == "euclidean" and power == 2:
        # Without the root, whole numbers stay whole.
        return np.asarray(cdist(places, places, "sqeuclidean"))
    return np.asarray(cdist(places, places, metric) ** power)


def _lengths(shape: int | Sequence[int]) -> tuple[int, ...]:
    refuse_sparse(shape, "shape")
    try:
        lengths = tuple(operator.index(n) for n in np.atleast_1d(np.asarray(shape)).tolist())
    except TypeError as error:
        raise TypeError(f"shape must be one or more integers, got {shape!r}.") from error
    if len(lengths) == 0 or min(lengths) < 1:
        raise ValueError(f"shape = {shape!r}: must be one or more positive lengths.")
    n_cells = math.prod(lengths)
    if n_cells > _MOST_CELLS:
        raise MemoryError(
            f"shape = {shape!r}: not enough memory for an array of shape {(n_cells, n_cells)}: it "
            f"needs {8 * n_cells**2} bytes."
        )
    return lengths
