"""The metrics that codewords may have: their means, their distances and their inner products."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from histrs._typing import Array
from histrs.kernel_approximation import InnerProduct
from histrs.quantization._inner_product import (
    FactoredProduct,
    IntersectionProduct,
    chi2_product,
    hellinger_product,
)

_NEWTON_STEPS = 4


class CodeMetric(NamedTuple):
    """A metric between rows and codewords; the distances themselves are the core's."""

    # `(values, decoded)`: the distance, summed over all entries.
    distortion: Callable[[Array, Array], float]
    # `(codebooks, n_threads)`: the inner product of the codewords in its kernel.
    inner_product: Callable[[Array, int], InnerProduct]
    # The coordinates in which codewords are means, and the values at coordinates.
    coordinates: Callable[[Array], Array]
    values: Callable[[Array], Array]
    # `(values, codes, centres)`: the best codewords, where those are no means of coordinates.
    centres: Callable[[Array, NDArray[Any], Array], Array] | None = None
    # Whether rows are histograms, and whether k-means squares their roots.
    is_of_histograms: bool = True
    is_of_roots: bool = False


def _same(values: Array) -> Array:
    return values


def _square_error(values: Array, decoded: Array) -> float:
    return float(((values - decoded) ** 2).sum())


def _chi2_error(values: Array, decoded: Array) -> float:
    total = values + decoded
    share = np.divide(values - decoded, total, where=total > 0, out=total * 0)
    return float(((values - decoded) * share).sum())


def sums_by_code(values: Array, codes: NDArray[Any], n_codes: int) -> Array:
    """Return the sum of the rows of each code."""
    n = len(codes)
    rows = sparse.csr_array((np.ones(n), codes, np.arange(n + 1)), shape=(n, n_codes))
    return np.asarray(rows.T @ values)


def _medians(values: Array, codes: NDArray[Any], centres: Array) -> Array:
    """Return the least medians, which minimise `sum |x - z|`."""
    n_codes = len(centres)
    counts = np.bincount(codes, minlength=n_codes)
    middle = np.cumsum(counts) - counts + (counts - 1) // 2
    used = counts > 0
    centres = centres.copy()
    for column, out in zip(values.T, centres.T, strict=True):
        out[used] = column[np.lexsort((column, codes))][middle[used]]
    return centres


def _chi2_centres(values: Array, codes: NDArray[Any], centres: Array) -> Array:
    """Return the minimisers of `sum (x - z)^2 / (x + z)`, by Newton's method."""
    n_codes = len(centres)
    counts = np.bincount(codes, minlength=n_codes)[:, None]
    used = counts[:, 0] > 0
    positive = used[:, None] & (sums_by_code(values, codes, n_codes) > 0)
    z = np.where(positive, np.maximum(centres, np.finfo(np.float64).tiny), centres)
    z[used[:, None] & ~positive] = 0.0
    for _ in range(_NEWTON_STEPS):
        share = np.divide(values, total := values + z[codes], where=total > 0, out=total * 0)
        # The derivative of the sum is `sum 1 - 4 (x / (x + z))^2`.
        excess = 4 * sums_by_code(share**2, codes, n_codes) - counts
        inverse = np.divide(share**2, total, where=total > 0, out=total * 0)
        slope = 8 * sums_by_code(inverse, codes, n_codes)
        step = np.divide(excess, slope, where=slope > 0, out=np.zeros_like(z))
        z = np.where(positive, np.maximum(z + step, z / 4), z)
    return z


# An entry for each of the registry that `has_codewords`.
METRICS: Mapping[str, CodeMetric] = {
    "euclidean": CodeMetric(
        _square_error,
        lambda codebooks, _: FactoredProduct(codebooks),
        _same,
        _same,
        is_of_histograms=False,
    ),
    "hellinger": CodeMetric(
        lambda values, decoded: _square_error(np.sqrt(values), np.sqrt(decoded)),
        lambda codebooks, _: hellinger_product(codebooks),
        np.sqrt,
        np.square,
        is_of_roots=True,
    ),
    "chi2": CodeMetric(
        _chi2_error,
        lambda codebooks, _: chi2_product(codebooks),
        np.sqrt,
        np.square,
        _chi2_centres,
        is_of_roots=True,
    ),
    "intersection": CodeMetric(
        lambda values, decoded: float(np.abs(values - decoded).sum()),
        IntersectionProduct,
        _same,
        # K-means leaves of means of zeros a rounding below 0.
        lambda means: np.maximum(means, 0.0),
        _medians,
    ),
}


def inner_product(codebooks: Array, metric: str, n_threads: int, n_levels: int = 1) -> InnerProduct:
    """Return the inner product of the codewords of a metric's kernel.

    Levels of the same block, which share its columns, follow one another.
    """
    books, n_codes, width = codebooks.shape
    codebooks = codebooks.reshape(books // n_levels, n_levels * n_codes, width)
    return METRICS[metric].inner_product(codebooks, n_threads)
