"""Codebooks by k-means, one for each block of columns."""

import warnings
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.cluster import KMeans, MiniBatchKMeans
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from histrs._sparse import is_sparse
from histrs._threads import blas_threads_at_most, in_threads
from histrs._validation import Matrix

Array = NDArray[np.float64]

# Rounds of assignment and update after k-means, where the metric is not Euclidean in coordinates.
N_REFINEMENTS = 3
_NEWTON_STEPS = 4


def coordinates(values: Array, metric: str) -> Array:
    """Return the coordinates in which codewords are means."""
    return np.sqrt(values) if metric in ("hellinger", "chi2") else values


def values_at(means: Array, metric: str) -> Array:
    """Return the values at coordinates."""
    if metric == "intersection":  # k-means leaves means of zeros a rounding below 0
        return np.maximum(means, 0.0)
    return means**2 if metric in ("hellinger", "chi2") else means


def block(X: Matrix, start: int, stop: int) -> Array:
    """Return a block of columns, dense and in double precision."""
    part: Any = X[:, start:stop]
    return np.asarray(part.toarray() if is_sparse(part) else part, dtype=np.float64)


def learn(
    X: Matrix,
    offsets: NDArray[np.int64],
    n_codes: int,
    metric: str,
    algorithm: str,
    max_iter: int,
    rng: np.random.RandomState,
    n_threads: int,
) -> tuple[Array, int]:
    """Return codebooks of shape (n_blocks, n_codes, width), and the most iterations of a block.

    Narrower blocks have zeros behind their columns.
    """
    seeds = rng.randint(np.iinfo(np.int32).max, size=len(offsets) - 1)
    kind = KMeans if algorithm == "lloyd" else MiniBatchKMeans

    def centres(start: int, stop: int, seed: int) -> tuple[Array, int]:
        means = kind(n_codes, n_init=1, max_iter=max_iter, random_state=int(seed))
        # OpenMP counts for each thread by itself.
        with threadpool_limits(1, user_api="openmp"):
            means.fit(coordinates(block(X, start, stop), metric))
        return values_at(means.cluster_centers_, metric), int(means.n_iter_)

    # One thread for each block: so many threads give the same bits as one.
    with blas_threads_at_most(1), warnings.catch_warnings():
        # A block with fewer distinct rows than codes has codewords that are never used.
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = in_threads(centres, offsets[:-1], offsets[1:], seeds, n_threads=n_threads)
    codebooks = np.zeros((len(seeds), n_codes, int(np.diff(offsets).max())))
    for codebook, (part, _) in zip(codebooks, found, strict=True):
        codebook[:, : part.shape[1]] = part
    return codebooks, max(n_iter for _, n_iter in found)


def refine(
    X: Matrix,
    offsets: NDArray[np.int64],
    codebooks: Array,
    metric: str,
    encode: Callable[[Array], NDArray[Any]],
) -> Array:
    """Return codebooks after rounds of Lloyd's algorithm in the metric itself."""
    update = {"chi2": _chi2_centres, "intersection": _medians}.get(metric)
    if update is None:
        return codebooks
    for _ in range(N_REFINEMENTS):
        codes = encode(codebooks)
        codebooks = codebooks.copy()
        for m, (start, stop) in enumerate(pairwise(offsets)):
            values = block(X, start, stop)
            width = stop - start
            codebooks[m, :, :width] = update(values, codes[:, m], codebooks[m, :, :width])
    return codebooks


def sums_by_code(values: Array, codes: NDArray[Any], n_codes: int) -> Array:
    """Return the sum of the rows of each code."""
    n = len(codes)
    rows = sparse.csr_array((np.ones(n), codes, np.arange(n + 1)), shape=(n, n_codes))
    return np.asarray(rows.T @ values)


def distortion(values: Array, decoded: Array, metric: str) -> float:
    """Return the distance of a metric, summed over all entries."""
    if metric == "intersection":
        return float(np.abs(values - decoded).sum())
    if metric == "chi2":
        total = values + decoded
        share = np.divide(values - decoded, total, where=total > 0, out=total * 0)
        return float(((values - decoded) * share).sum())
    difference = coordinates(values, metric) - coordinates(decoded, metric)
    return float((difference**2).sum())


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
