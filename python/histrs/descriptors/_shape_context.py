"""Shape contexts: log-polar histograms of where the edge points of an image lie."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike
from scipy import ndimage

from histrs._checks.numbers import numbers_checked
from histrs._checks.sparse import refuse_sparse
from histrs._checks.validation import check_random_state, real_array
from histrs._typing import Array

Origin: TypeAlias = Literal["mean", "centroid", "points"]

# Of points, rings and angles: more are a slip of the pen.
_MOST = 2**31 - 1
# Of the longer side of an image, what a blur may be.
_WIDEST = 10.0


@numbers_checked
def edge_points(
    image: ArrayLike, *, sigma: float = 1.0, threshold: float = 0.2
) -> tuple[Array, Array]:
    """Find the edges of an image: ridges of its gradient.

    The image is smoothed and differentiated by a Gaussian. A pixel is on an edge when its
    gradient is no shorter than at both neighbours in its direction, to the nearest of eight. It is
    also longer than `threshold` times the longest.

    Parameters
    ----------
    image : array-like of shape (height, width)
        Grey values.
    sigma : float, default=1
        Standard deviation of the Gaussian, in pixels.
    threshold : float, default=0.2
        Part of the longest gradient that an edge must exceed, in [0, 1).

    Returns
    -------
    points : ndarray of shape (n_points, 2)
        Row and column of every edge pixel, in the order of the pixels.
    tangents : ndarray of shape (n_points,)
        The direction of the edge there, in radians, with the brighter side on its left as the
        image is seen: a quarter turn from the gradient. Angles run from right to up.

    Raises
    ------
    ValueError
        If the image is empty, not two-dimensional or not finite (the message names the pixel),
        or a parameter is out of its range.

    Examples
    --------
    >>> import numpy as np
    >>> from histrs.descriptors import edge_points
    >>> image = np.zeros((9, 9))
    >>> image[3:6, 3:6] = 1
    >>> points, tangents = edge_points(image, sigma=0.5)
    >>> points.shape, tangents.shape
    ((8, 2), (8,))
    """
    return _edge_points(_check_image(image, "image"), sigma, threshold)


@numbers_checked
def shape_context(
    images: ArrayLike | Sequence[ArrayLike],
    *,
    n_points: int = 100,
    n_radii: int = 5,
    n_angles: int = 12,
    radii: tuple[float, float] = (0.125, 2.0),
    origin: Origin = "mean",
    rotation_invariant: bool = False,
    sigma: float = 1.0,
    threshold: float = 0.2,
    random_state: int | np.random.RandomState | None = None,
) -> Array:
    r"""Compute log-polar histograms of the edge points of images.

    The shape context of an edge point :math:`p_i` of an image, among its edge points
    :math:`p_1, \ldots, p_n`, is the histogram

    .. math:: h_i(k) = \#\{ j \ne i : p_j - p_i \in \mathrm{bin}(k) \}

    over bins that are even in the logarithm of the distance and in the angle (equation 3 of [1]_).
    Distances are in units of the mean distance of all pairs, so that the scale of the shape does
    not matter. The smallest of `radii` bounds the innermost ring, which reaches to the origin.
    Points beyond the largest are not counted. Histograms are divided by their sums.

    Parameters
    ----------
    images : array-like of shape (n_images, height, width), or sequence of 2-D arrays
        Grey values.
    n_points : int, default=100
        Edge points to draw at random; all, where there are no more.
    n_radii, n_angles : int, default=5 and 12
        Rings and sectors.
    radii : pair of float, default=(0.125, 2)
        Outer radius of the innermost and of the outermost ring, in mean distances.
    origin : {"mean", "centroid", "points"}, default="mean"
        "mean" returns one histogram per image, the mean over its points, as compact as in [2]_.
        "centroid" returns one about the centre of its points, and "points" one for every point.
    rotation_invariant : bool, default=False
        Measure angles from the direction of the edge in the point (section 3.1.1 of [1]_). Turning
        the image then changes histograms by pixels and sampling alone. Not for "centroid", which
        has no direction.
    sigma, threshold : float, default=1 and 0.2
        How edges are found: see `edge_points`.
    random_state : int, RandomState instance or None, default=None
        For the points drawn.

    Returns
    -------
    histograms : ndarray of shape (n_images, n_radii * n_angles)
        Histograms of sum 1, ring after ring from the inside, each from the angle 0 (right) on and
        by way of up. With `origin="points"` of shape (n_images, n_points, n_radii * n_angles),
        where every image must have as many edge points.

    Raises
    ------
    ValueError
        If an image has less than two edge points, or with "points" less than `n_points`. If it is
        empty or not finite. If a parameter is out of its range. The message names the image.

    See Also
    --------
    histrs.metrics.sinkhorn_distances, histrs.metrics.emd_distances : Distances that know which
        bins are near each other.

    Notes
    -----
    The angle is cyclic. The L1 distance of [2]_ between bins, which suits as a cost matrix, is
    ``abs(ring_i - ring_j) + min(s, n_angles - s)`` where ``s = abs(sector_i - sector_j)``.

    References
    ----------
    .. [1] S. Belongie, J. Malik and J. Puzicha, "Shape matching and object recognition using shape
       contexts", IEEE Transactions on Pattern Analysis and Machine Intelligence, 2002.
    .. [2] M. Kusner, N. Kolkin, S. Tyree and K. Weinberger, "Image data compression for covariance
       and histogram descriptors", arXiv:1412.1740, 2015.

    Examples
    --------
    >>> import numpy as np
    >>> from histrs.descriptors import shape_context
    >>> rows, columns = np.indices((32, 32))
    >>> disc = (rows - 16) ** 2 + (columns - 16) ** 2 < 100
    >>> H = shape_context([disc, rows > columns], random_state=0)
    >>> H.shape
    (2, 60)
    >>> H.sum(axis=1).round(12)
    array([1., 1.])
    """
    edges = _check_parameters(n_points, n_radii, n_angles, radii, origin, rotation_invariant)
    random = check_random_state(random_state)
    histograms = []
    for i, image in enumerate(_as_images(images)):
        points, tangents = _edge_points(image, sigma, threshold)
        need = n_points if origin == "points" else 2
        if len(points) < need:
            raise ValueError(
                f"images[{i}] has {len(points)} edge point(s), and {need} are needed: lower "
                'threshold or sigma, leave out blank images, or with origin="points" lower '
                "n_points."
            )
        if len(points) > n_points:
            chosen = np.sort(random.choice(len(points), n_points, replace=False))
            points, tangents = points[chosen], tangents[chosen]
        turn = tangents if rotation_invariant else np.zeros(len(points))
        histograms.append(_contexts(points, turn, edges, n_angles, origin))
    empty = (0, n_points) if origin == "points" else (0,)
    return np.stack(histograms) if histograms else np.zeros((*empty, n_radii * n_angles))


def _contexts(points: Array, turn: Array, edges: Array, n_angles: int, origin: Origin) -> Array:
    """Return the histograms of sum 1 about every point, their mean, or the one of the centre."""
    between = points - points[:, None]
    unit = np.hypot(*np.moveaxis(between, -1, 0)).sum() / (len(points) * (len(points) - 1))
    if origin == "centroid":
        between, turn = (points - points.mean(axis=0))[None], np.zeros(1)
    down, right = np.moveaxis(between, -1, 0)
    distance = np.hypot(down, right) / unit
    ring = np.searchsorted(edges, distance)
    angle = np.arctan2(-down, right) - turn[:, None]
    # The small number puts directions along pixels, which rounding moves, in the sector they open.
    sector = np.floor(angle / (2 * np.pi) * n_angles + 1e-9).astype(np.int64) % n_angles
    counted = ring < len(edges)
    if origin != "centroid":
        np.fill_diagonal(counted, False)
    n_bins = len(edges) * n_angles
    bins = np.arange(len(between))[:, None] * n_bins + ring * n_angles + sector
    counts = np.bincount(bins[counted], minlength=len(between) * n_bins).reshape(-1, n_bins)
    total = counts.sum(axis=1, keepdims=True)
    contexts = counts / np.maximum(total, 1)
    if origin == "points":
        return np.asarray(contexts)
    # A point far from all others says nothing, and does not count.
    return np.asarray(contexts.sum(axis=0) / max(np.count_nonzero(total), 1))


def _edge_points(image: Array, sigma: float, threshold: float) -> tuple[Array, Array]:
    if not (np.isfinite(sigma) and sigma > 0):
        raise ValueError(f"sigma = {sigma}: must be positive and finite.")
    if sigma > _WIDEST * max(image.shape):
        raise ValueError(
            f"sigma = {sigma} blurs away an image of shape {image.shape}: give a few pixels."
        )
    if not 0 <= threshold < 1:
        raise ValueError(f"threshold = {threshold}: must be in [0, 1).")
    largest = np.abs(image).max()
    image = image / largest if largest > 0 else image
    down = ndimage.gaussian_filter(image, sigma, order=(1, 0), mode="nearest")
    right = ndimage.gaussian_filter(image, sigma, order=(0, 1), mode="nearest")
    length = np.hypot(down, right)
    # Gradients of an image without edges are rounding errors.
    ridge = length > max(threshold * length.max(), 1e-9)
    octant = np.round(np.arctan2(down, right) / (np.pi / 4)).astype(np.int64) % 4
    padded = np.pad(length, 1)
    height, width = length.shape
    for number, (i, j) in enumerate([(0, 1), (1, 1), (1, 0), (1, -1)]):
        ahead = padded[1 + i : 1 + i + height, 1 + j : 1 + j + width]
        behind = padded[1 - i : 1 - i + height, 1 - j : 1 - j + width]
        # Of two equal neighbours, as on both sides of a step, one is the edge, rounding apart.
        highest = (length >= ahead * (1 - 1e-9)) & (length > behind * (1 + 1e-9))
        ridge &= (octant != number) | highest
    points = np.argwhere(ridge)
    rows, columns = points.T
    # The brighter side is on the left of the direction that is a quarter turn before the gradient.
    tangents = np.arctan2(-right[rows, columns], -down[rows, columns])
    return points.astype(np.float64), tangents


def _check_parameters(
    n_points: int,
    n_radii: int,
    n_angles: int,
    radii: tuple[float, float],
    origin: str,
    rotation_invariant: bool,
) -> Array:
    """Return the outer radii of the rings."""
    for name, value, least in [
        ("n_points", n_points, 2),
        ("n_radii", n_radii, 1),
        ("n_angles", n_angles, 1),
    ]:
        if not least <= value <= _MOST:
            raise ValueError(f"{name} = {value}: must be at least {least}, and at most {_MOST}.")
    inner, outer = radii
    if not 0 < inner < outer < np.inf:
        raise ValueError(f"radii = {radii!r}: give two finite numbers, 0 < inner < outer.")
    if origin not in get_args(Origin):
        words = ", ".join(repr(word) for word in get_args(Origin))
        raise ValueError(f"origin = {origin!r}: must be one of {words}.")
    if rotation_invariant and origin == "centroid":
        raise ValueError(
            'rotation_invariant=True needs a direction, and origin="centroid" has none; set origin '
            'to "mean" or "points".'
        )
    return np.geomspace(inner, outer, n_radii) if n_radii > 1 else np.array([float(outer)])


def _as_images(images: ArrayLike | Sequence[ArrayLike]) -> list[Array]:
    refuse_sparse(images, "images")
    if isinstance(images, np.ndarray) and images.ndim == 2 and images.dtype != object:
        raise ValueError(
            f"images has shape {images.shape}: one image is images[None], of shape "
            "(1, height, width)."
        )
    sequence: Any = images
    return [_check_image(image, f"images[{i}]") for i, image in enumerate(sequence)]


def _check_image(image: ArrayLike, name: str) -> Array:
    pixels = real_array(image, name)
    if pixels.ndim != 2 or pixels.size == 0:
        raise ValueError(
            f"{name} has shape {pixels.shape}: an image has grey values of shape "
            "(height, width); convert colours to grey first."
        )
    bad = np.argwhere(~np.isfinite(pixels))
    if len(bad):
        row, column = bad[0]
        raise ValueError(
            f"{name}[{row}, {column}] = {pixels[row, column]}: contains NaN or infinity; fill the "
            "pixel."
        )
    return pixels
