"""Covariance descriptors of sets of features."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from numbers import Real
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from histrs._checks.scale import check_squares
from histrs._checks.sparse import refuse_sparse
from histrs._checks.validation import check_array
from histrs._warnings import warn

Shrinkage: TypeAlias = float | Literal["ledoit-wolf", "oas"] | None
Float64: TypeAlias = NDArray[np.float64]


def covariance_descriptors(
    F: ArrayLike | Sequence[ArrayLike],
    *,
    regions: ArrayLike | None = None,
    shrinkage: Shrinkage = None,
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
    shrinkage : float, {"ledoit-wolf", "oas"} or None, default=None
        Weight :math:`s` of the multiple of the identity in
        :math:`(1 - s) X + s\, \mathrm{tr}(X)/p\, I`. A number in [0, 1], or estimated for each
        set as scikit-learn's `ledoit_wolf` and `oas` do. None is 0: the matrix is then singular
        with fewer than p + 1 samples. "ledoit-wolf" needs the samples, and so no `regions`.

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
    .. [1] M. J. Kusner, N. I. Kolkin, S. Tyree and K. Q. Weinberger, "Image data compression for
       covariance and histogram descriptors", 2015.
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
    _check_shrinkage(shrinkage)
    refuse_sparse(F, "F")
    if regions is not None:
        return _of_regions(F, regions, shrinkage)
    sets = [_check_set(f, i) for i, f in enumerate(_iterate(F))]
    if not sets:
        raise ValueError("F has no sets: give at least one array of shape (n_samples, p).")
    p = sets[0].shape[1]
    for i, f in enumerate(sets):
        if f.shape[1] != p:
            raise ValueError(
                f"F[{i}] has {f.shape[1]} features, but F[0] has {p}; give the same features in "
                "the same order."
            )
    _warn_of_few_samples(sets, isinstance(F, np.ndarray) and F.ndim == 3, shrinkage)
    dtype = np.result_type(*{f.dtype for f in sets})
    out = np.empty((len(sets), p, p), dtype=dtype)
    for i, f in enumerate(sets):
        out[i] = _covariance(f.astype(np.float64), shrinkage)
    return out


def _warn_of_few_samples(sets: list[NDArray[Any]], is_stack: bool, shrinkage: Shrinkage) -> None:
    """Warn where samples and features may have changed roles, or a matrix will be singular.

    Sets of different sizes that are shrunk are neither.
    """
    n, p = min(len(f) for f in sets), sets[0].shape[1]
    if n >= p or not (is_stack or shrinkage is None or shrinkage == 0):
        return
    i = next(i for i, f in enumerate(sets) if len(f) < p)
    warn(
        f"F[{i}] has fewer samples, {len(sets[i])}, than features, {p}: each row of a set is a "
        "sample. If F has channels before times, give F.swapaxes(1, 2); else the covariance is "
        "singular: give more samples, or shrinkage."
    )


def _iterate(F: Any) -> Iterable[Any]:
    if isinstance(F, np.ndarray) and F.dtype != object and F.ndim != 3:
        raise ValueError(
            f"F has shape {F.shape}: give sets of shape (n_sets, n_samples, p), or a list of "
            "(n_samples, p) arrays; a single set f is f[None]."
        )
    if not hasattr(F, "__iter__"):
        raise ValueError("F is not a sequence of arrays of shape (n_samples, p).")
    sets: Iterable[Any] = F
    return sets


def _check_set(f: Any, i: int) -> NDArray[Any]:
    name = f"F[{i}]"
    checked: NDArray[Any] = check_array(
        f, input_name=name, dtype=[np.float64, np.float32], ensure_all_finite=False
    )
    if len(checked) < 2:
        raise ValueError(f"{name} has 1 sample: a covariance takes at least 2; drop the set.")
    _check_finite(checked, name)
    check_squares(checked, name)
    return checked


def _check_finite(f: NDArray[Any], name: str) -> None:
    if not np.isfinite(f).all():
        index = np.argwhere(~np.isfinite(f))[0].tolist()
        raise ValueError(
            f"{name}{index} = {f[tuple(index)]}: Input F contains NaN or infinity; impute or drop "
            "the sample."
        )


def _check_shrinkage(shrinkage: Any) -> None:
    if isinstance(shrinkage, Real):
        if not 0.0 <= float(shrinkage) <= 1.0:
            raise ValueError(f"shrinkage = {shrinkage} is out of range: a weight in [0, 1].")
    elif shrinkage is not None and shrinkage not in ("ledoit-wolf", "oas"):
        raise ValueError(
            f"shrinkage = {shrinkage!r} is not known: a number in [0, 1], 'ledoit-wolf', 'oas' or "
            "None."
        )


# ---- one set -----------------------------------------------------------------------------------


def _covariance(f: Float64, shrinkage: Shrinkage) -> Float64:
    n = len(f)
    centred = f - f.mean(axis=0)
    biased = centred.T @ centred / n
    if shrinkage == "ledoit-wolf":
        weight = _ledoit_wolf(centred, biased)
    else:
        weight = _weight(biased[None], np.array([n]), shrinkage)[0]
    return _shrunk(biased * (n / (n - 1)), weight)


def _shrunk(X: Float64, weight: Any) -> Float64:
    """Return ``(1 - s) X + s tr(X)/p I`` of one matrix, or of a stack with a weight each."""
    p = X.shape[-1]
    size = np.trace(X, axis1=-2, axis2=-1) / p
    weight = np.asarray(weight)[..., None, None]
    return np.asarray((1.0 - weight) * X + weight * np.asarray(size)[..., None, None] * np.eye(p))


def _weight(biased: Float64, n: NDArray[Any], shrinkage: Shrinkage) -> Float64:
    """Return the weight of the identity where second moments determine it."""
    if shrinkage != "oas":
        return np.full(len(biased), 0.0 if shrinkage is None else float(shrinkage))
    p = biased.shape[1]
    # Chen, Wiesel, Eldar and Hero 2010, equation 23, as scikit-learn has it.
    square = np.mean(biased**2, axis=(1, 2))
    mean2 = (np.trace(biased, axis1=1, axis2=2) / p) ** 2
    spread = (n + 1.0) * (square - mean2 / p)
    ratio = np.divide(square + mean2, spread, out=np.ones(len(biased)), where=spread > 0.0)
    return np.asarray(np.minimum(ratio, 1.0))


def _ledoit_wolf(centred: Float64, biased: Float64) -> float:
    """Return the weight of Ledoit and Wolf 2004, lemma 3.4: fourth over second moments."""
    n, p = centred.shape
    mean = np.trace(biased) / p
    square = np.sum(biased**2)
    spread = (square - p * mean**2) / p
    fourth = np.sum(np.einsum("rj,rj->r", centred, centred) ** 2)
    error = min((fourth / n - square) / (n * p), spread)
    return float(error / spread) if error > 0.0 else 0.0


# ---- regions of an image -----------------------------------------------------------------------


def _of_regions(F: Any, regions: ArrayLike, shrinkage: Shrinkage) -> NDArray[Any]:
    if shrinkage == "ledoit-wolf":
        raise ValueError(
            "shrinkage = 'ledoit-wolf' needs the samples of each set, and integral images keep "
            "only their first two moments: use 'oas' or a number with regions."
        )
    image = check_array(
        F, input_name="F", dtype=[np.float64, np.float32], allow_nd=True, ensure_all_finite=False
    )
    if image.ndim != 3 or image.shape[2] == 0:
        raise ValueError(f"F has shape {image.shape}: regions are of an image (height, width, p).")
    _check_finite(image, "F")
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
    weight = _weight(X / n[:, None, None], n, shrinkage)
    return _shrunk(X / (n - 1)[:, None, None], weight).astype(image.dtype)


def _sums(values: Float64, corners: tuple[NDArray[Any], ...]) -> Float64:
    """Return sums over rectangles, from the integral image of `values`."""
    integral = np.zeros((values.shape[0] + 1, values.shape[1] + 1, values.shape[2]))
    np.cumsum(values, axis=0, out=integral[1:, 1:])
    np.cumsum(integral[1:, 1:], axis=1, out=integral[1:, 1:])
    top, left, bottom, right = corners
    total: Float64 = (
        integral[bottom, right]
        - integral[top, right]
        - integral[bottom, left]
        + integral[top, left]
    )
    return total


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
