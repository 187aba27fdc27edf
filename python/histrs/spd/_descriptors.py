"""Covariance descriptors of sets of features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from histrs import _histrs
from histrs._checks.scale import check_squares
from histrs._checks.sparse import refuse_sparse
from histrs._checks.validation import check_array, check_finite, count_threads
from histrs._estimator import documented
from histrs._warnings import warn
from histrs.spd._docs import MATRICES
from histrs.spd._logarithms import Float64

Shrinkage: TypeAlias = float | Literal["scm", "oas", "lwf"]

_CHECKS: Mapping[str, Any] = {"dtype": [np.float64, np.float32], "ensure_all_finite": False}


@documented(MATRICES)
def covariance_descriptors(
    F: ArrayLike | Sequence[ArrayLike],
    *,
    regions: ArrayLike | None = None,
    shrinkage: Shrinkage = "scm",
) -> NDArray[Any]:
    r"""Compute the covariance matrices of sets of features.

    .. math:: X = \frac{1}{n - 1} \sum_{r=1}^{n} (x_r - \mu)(x_r - \mu)^T

    Section 2 of [1]_: a set may be the pixels of an image, each with its colours and gradients, or
    the samples of a recording, each with its channels.

    Parameters
    ----------
    F : array-like of shape (n_sets, n_samples, p), or sequence of (n_samples_i, p) arrays
        Features; sets of different sizes come as a list. With `regions`, one image of shape
        (height, width, p).
    regions : array-like of int of shape (n_sets, 4), default=None
        Rectangles ``(top, left, bottom, right)`` of the image, without row `bottom` and column
        `right`. Each takes the same time whatever its size: sums come from integral images [2]_.
    shrinkage : {"scm", "oas", "lwf"} or float, default="scm"
        Weight :math:`s` of the multiple of the identity in
        :math:`(1 - s) X + s\, \mathrm{tr}(X)/p\, I`, as of :class:`Covariances`: of "scm" it is
        0, and the matrix singular with fewer than p + 1 samples. "lwf" needs the samples, and so no
        `regions`.

    Returns
    -------
    X : ndarray of shape (n_sets, p, p)
        Covariance matrices; float32 when all features are, else float64. Sums are in double
        precision. Scikit-learn divides by n where the paper and this function divide by n - 1:
        otherwise the matrices are the same.

    Warns
    -----
    UserWarning
        If a set has fewer samples than features, unless sets of a list are shrunk: of signals
        with the channels before the times, the axes have to be swapped.

    Raises
    ------
    ValueError
        If a set has fewer than two samples, features differ in number or are not finite, or a
        region is empty or not within the image; the message names it.

    See Also
    --------
    project_to_spd : Raises the smallest eigenvalues instead.
    histrs.metrics.jbld_distances : Compares the matrices.

    References
    ----------
    {kusner}
    .. [2] O. Tuzel, F. Porikli and P. Meer, "Region covariance: a fast descriptor for detection
       and classification", ECCV 2006.

    Examples
    --------
    >>> import numpy as np
    >>> from histrs.spd import covariance_descriptors
    >>> covariance_descriptors([[[0.0, 0.0], [2.0, 0.0], [4.0, 3.0]], [[1.0, 1.0], [3.0, 0.0]]])
    array([[[ 4. ,  3. ],
            [ 3. ,  3. ]],
    <BLANKLINE>
           [[ 2. , -1. ],
            [-1. ,  0.5]]])
    """
    weight: Any = shrinkage
    is_weight = isinstance(weight, Real) and 0.0 <= float(weight) <= 1.0
    if not is_weight and shrinkage not in ("scm", "oas", "lwf"):
        raise ValueError(
            f'shrinkage = {shrinkage!r} is not known: "scm", "oas", "lwf" or a number in [0, 1].'
        )
    refuse_sparse(F, "F")
    if regions is not None:
        return _of_regions(F, regions, shrinkage)
    sets = _checked_sets(F)
    sizes, p = np.array([len(f) for f in sets]), sets[0].shape[1]
    few = np.flatnonzero(sizes < p)
    # Sets of different sizes that are shrunk are no signals, and not singular.
    if len(few) > 0 and (getattr(F, "ndim", 0) == 3 or shrinkage in ("scm", 0)):
        warn(
            f"F[{few[0]}] has fewer samples, {sizes[few[0]]}, than features, {p}: each row of a "
            "set is a sample. If F has channels before times, give F.swapaxes(1, 2); else the "
            "covariance is singular: give more samples, or shrinkage."
        )
    out = np.empty((len(sets), p, p), dtype=np.result_type(*{f.dtype for f in sets}))
    for n in np.unique(sizes):
        own = np.flatnonzero(sizes == n)
        signals = np.stack([sets[i].T for i in own]).astype(np.float64, copy=False)
        biased, _ = _histrs.signal_covariances(signals, shrinkage, count_threads(None))
        out[own] = biased * (n / (n - 1))
    return out


def _checked_sets(F: Any) -> list[NDArray[Any]]:
    if isinstance(F, np.ndarray) and F.dtype != object and F.ndim != 3:
        raise ValueError(
            f"F has shape {F.shape}: give sets of shape (n_sets, n_samples, p), or a list of "
            "(n_samples, p) arrays; a single set f is f[None]."
        )
    if not hasattr(F, "__iter__"):
        raise ValueError("F is not a sequence of arrays of shape (n_samples, p).")
    sets: list[NDArray[Any]] = []
    for i, given in enumerate(F):
        f = check_array(given, input_name=f"F[{i}]", **_CHECKS)
        if len(f) < 2:
            raise ValueError(f"F[{i}] has 1 sample: a covariance takes at least 2; drop the set.")
        check_finite(f, f"F[{i}]")
        check_squares(f, f"F[{i}]")
        sets.append(f)
        if f.shape[1] != sets[0].shape[1]:
            raise ValueError(
                f"F[{i}] has {f.shape[1]} features, but F[0] has {sets[0].shape[1]}; give the same "
                "features in the same order."
            )
    if not sets:
        raise ValueError("F has no sets: give at least one array of shape (n_samples, p).")
    return sets


def _of_regions(F: Any, regions: ArrayLike, shrinkage: Shrinkage) -> NDArray[Any]:
    if shrinkage == "lwf":
        raise ValueError(
            "shrinkage = 'lwf' needs the samples of each set, and integral images keep "
            "only their first two moments: use 'oas' or a number with regions."
        )
    image = check_array(F, input_name="F", allow_nd=True, **_CHECKS)
    if image.ndim != 3 or image.shape[2] == 0:
        raise ValueError(f"F has shape {image.shape}: regions are of an image (height, width, p).")
    check_finite(image, "F")
    top, left, bottom, right = _check_regions(regions, image.shape).T
    n = (bottom - top) * (right - left)
    p = image.shape[2]
    rows, columns = np.tril_indices(p)
    # Around the mean of the image, so that the difference of sums keeps its digits.
    centred = image - image.mean(axis=(0, 1), dtype=np.float64)
    corners = (top, left, bottom, right)
    sums = _sums(centred, corners)
    products = np.empty((len(n), len(rows)))
    for k, (i, j) in enumerate(zip(rows, columns, strict=True)):
        products[:, k] = _sums((centred[..., i] * centred[..., j])[..., None], corners)[:, 0]
    products -= sums[:, rows] * sums[:, columns] / n[:, None]
    X = np.empty((len(n), p, p))
    X[:, rows, columns] = X[:, columns, rows] = products
    weight: Any = 0.0 if shrinkage == "scm" else shrinkage
    if shrinkage == "oas":
        weight = _oas(X / n[:, None, None], n)[:, None, None]
    X /= (n - 1)[:, None, None]
    size = np.trace(X, axis1=1, axis2=2)[:, None, None] / p
    return np.asarray((1.0 - weight) * X + weight * size * np.eye(p), dtype=image.dtype)


def _oas(biased: Float64, n: NDArray[Any]) -> Float64:
    """Return the weight of Chen, Wiesel, Eldar and Hero 2010, equation 23."""
    p = biased.shape[1]
    square = np.mean(biased**2, axis=(1, 2))
    mean2 = (np.trace(biased, axis1=1, axis2=2) / p) ** 2
    spread = (n + 1.0) * (square - mean2 / p)
    ratio = np.divide(square + mean2, spread, out=np.ones(len(biased)), where=spread > 0.0)
    return np.asarray(np.minimum(ratio, 1.0))


def _sums(values: Float64, corners: tuple[NDArray[Any], ...]) -> Float64:
    """Return sums over rectangles, from the integral image of `values`."""
    integral = np.zeros((values.shape[0] + 1, values.shape[1] + 1, values.shape[2]))
    np.cumsum(values, axis=0, out=integral[1:, 1:])
    np.cumsum(integral[1:, 1:], axis=1, out=integral[1:, 1:])
    top, left, bottom, right = corners
    upper, lower = (integral[row, right] - integral[row, left] for row in (top, bottom))
    return np.asarray(lower - upper)


def _check_regions(regions: ArrayLike, shape: tuple[int, ...]) -> NDArray[np.int64]:
    given = np.asarray(regions)
    if given.ndim != 2 or given.shape[1] != 4 or not np.issubdtype(given.dtype, np.integer):
        raise ValueError(
            f"regions has shape {given.shape} and dtype {given.dtype}: give whole numbers of shape "
            "(n_sets, 4): top, left, bottom, right."
        )
    out = given.astype(np.int64)
    top, left, bottom, right = out.T
    inside = (top >= 0) & (left >= 0) & (bottom <= shape[0]) & (right <= shape[1])
    fine = inside & (top < bottom) & (left < right) & ((bottom - top) * (right - left) >= 2)
    if not fine.all():
        i = np.flatnonzero(~fine)[0]
        raise ValueError(
            f"regions[{i}] = {out[i].tolist()} is not a rectangle of at least 2 pixels within an "
            f"image of {shape[0]} x {shape[1]}: top, left, bottom, right, the last two outside."
        )
    return out
