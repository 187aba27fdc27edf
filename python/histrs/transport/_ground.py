"""Costs between the cells of a grid."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.distance import cdist

from histrs._checks.numbers import numbers_checked
from histrs._checks.sparse import refuse_sparse
from histrs._checks.validation import real_array
from histrs._typing import Array

# No machine holds the distances of more.
_MOST_CELLS = 1 << 28

Metric: TypeAlias = Literal["euclidean", "cityblock", "chebyshev"]
# The norms whose powers are sums over axes, by power.
_ADDITIVE = {("euclidean", 2.0), ("cityblock", 1.0)}


@dataclass(frozen=True)
class GridDistance:
    r"""Costs between the cells of a grid that add up over its axes, without their matrix.

    .. math:: M_{ij} = \sum_k C^{(k)}_{i_k j_k}

    Sinkhorn distances, plans, divergences and barycentres take it in place of `M`. With
    :math:`\exp(-M / \mathrm{reg})` they multiply axis by axis [1]_: for images of
    :math:`n \times n` pixels that takes :math:`2 n^3` products instead of :math:`n^4`. Other
    functions make the matrix of `grid_ground_distance`.

    Squared Euclidean distances add up, and so do "cityblock" distances. Others do so along a single
    axis alone.

    Parameters
    ----------
    shape_of_grid : int or sequence of int
        Cells along each axis; the cells are in C order, as ``image.ravel()`` has them.
    metric : {"euclidean", "cityblock", "chebyshev"}, default="euclidean"
        The norm.
    power : float, default=2
        Its power: 2 with "euclidean" and 1 with "cityblock", or any for a single axis.
    spacing : float or array-like of shape (n_axes,), default=1
        Width of a cell along each axis.
    cyclic : bool or sequence of bool of shape (n_axes,), default=False
        Axes whose last cell is beside the first.

    Raises
    ------
    ValueError
        If the costs do not add up over the axes, or an argument is one that `grid_ground_distance`
        refuses.

    References
    ----------
    .. [1] J. Solomon et al., "Convolutional Wasserstein distances: efficient optimal transportation
       on geometric domains", ACM Transactions on Graphics, 2015.

    Examples
    --------
    >>> import numpy as np
    >>> from histrs.metrics import sinkhorn_distances
    >>> from histrs.transport import GridDistance
    >>> M = GridDistance((64, 64), power=2)
    >>> images = np.zeros((2, 64, 64))
    >>> images[0, 10, 10] = images[1, 13, 14] = 1
    >>> sinkhorn_distances(images.reshape(2, -1), M=M, reg=4.0).round(6)
    array([[ 0., 25.],
           [25.,  0.]])
    """

    shape_of_grid: int | Sequence[int]
    metric: Metric = "euclidean"
    power: float = 2.0
    spacing: ArrayLike = 1.0
    cyclic: bool | Sequence[bool] = False

    def __post_init__(self) -> None:
        lengths = _lengths(self.shape_of_grid)
        # Costs of one cell for each axis: every check, and no work.
        one = (1,) * len(lengths)
        grid_ground_distance(
            one, self.metric, power=self.power, spacing=self.spacing, cyclic=self.cyclic
        )
        if len(lengths) > 1 and (self.metric, float(self.power)) not in _ADDITIVE:
            raise ValueError(
                f"metric = {self.metric!r} to the power {self.power} does not add up over axes: "
                'take "euclidean" to the power 2 or "cityblock" to the power 1, or the matrix of '
                "grid_ground_distance."
            )

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of the matrix."""
        n = math.prod(_lengths(self.shape_of_grid))
        return n, n

    @property
    def axes(self) -> list[Array]:
        """The costs along each axis, of shape (n_cells, n_cells) of that axis."""
        lengths = _lengths(self.shape_of_grid)
        spacing = np.broadcast_to(real_array(self.spacing, "spacing"), len(lengths))
        cyclic = np.broadcast_to(np.asarray(self.cyclic), len(lengths))
        return [
            grid_ground_distance(n, self.metric, power=self.power, spacing=s, cyclic=bool(c))
            for n, s, c in zip(lengths, spacing, cyclic, strict=True)
        ]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """Return the matrix."""
        M = grid_ground_distance(
            self.shape_of_grid,
            self.metric,
            power=self.power,
            spacing=self.spacing,
            cyclic=self.cyclic,
        )
        return M.astype(dtype, copy=False) if dtype is not None else M


@numbers_checked
def grid_ground_distance(
    shape: int | Sequence[int],
    metric: Metric = "euclidean",
    *,
    power: float = 1.0,
    spacing: ArrayLike = 1.0,
    cyclic: bool | Sequence[bool] = False,
) -> Array:
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
    cyclic : bool or sequence of bool of shape (n_axes,), default=False
        Axes whose last cell is beside the first, such as angles, hues or hours: along these the
        difference is taken the shorter way round.

    Returns
    -------
    M : ndarray of float64 of shape (n_cells, n_cells)
        Cost matrix: symmetric, with a zero diagonal.

    Raises
    ------
    ValueError
        If a length, the metric, the power, a spacing or `cyclic` is not as above.

    Examples
    --------
    >>> from histrs.transport import grid_ground_distance
    >>> grid_ground_distance(4, power=2)
    array([[0., 1., 4., 9.],
           [1., 0., 1., 4.],
           [4., 1., 0., 1.],
           [9., 4., 1., 0.]])

    Of eight directions, 45 degrees apart:

    >>> grid_ground_distance(8, spacing=45, cyclic=True)[0]
    array([  0.,  45.,  90., 135., 180., 135.,  90.,  45.])
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
    round_axes = np.asarray(cyclic)
    if round_axes.dtype != bool or round_axes.shape not in ((), (len(lengths),)):
        raise ValueError(
            f"cyclic = {cyclic!r}: must be True or False, or one of these for each of "
            f"{len(lengths)} axes."
        )
    if np.any(round_axes):
        round_axes = np.broadcast_to(round_axes, len(lengths))
        widths = np.broadcast_to(widths, len(lengths))
        return _cyclic_distances(lengths, metric, power, widths, round_axes)
    positions = np.indices(lengths).reshape(len(lengths), -1).T * widths
    if metric == "euclidean" and power == 2:
        # Without the root, whole numbers stay whole.
        return np.asarray(cdist(positions, positions, "sqeuclidean"))
    return np.asarray(cdist(positions, positions, metric) ** power)


def _cyclic_distances(
    lengths: tuple[int, ...], metric: Metric, power: float, widths: Array, cyclic: NDArray[np.bool_]
) -> Array:
    """Return distances of which those along some axes go the shorter way round."""
    positions = np.indices(lengths).reshape(len(lengths), -1)
    total = np.zeros((positions.shape[1], positions.shape[1]))
    for index, length, width, is_round in zip(positions, lengths, widths, cyclic, strict=True):
        steps = np.abs(np.subtract.outer(np.arange(length), np.arange(length)))
        along = width * (np.minimum(steps, length - steps) if is_round else steps)
        along = along**2 if metric == "euclidean" else along
        each = along[np.ix_(index, index)]
        total = np.maximum(total, each) if metric == "chebyshev" else total + each
    return np.asarray(total ** (power / 2 if metric == "euclidean" else power))


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
