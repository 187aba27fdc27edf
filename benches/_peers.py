"""What users would write today with NumPy, SciPy and scikit-learn, as fast as we could make it."""

import ctypes
import os
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg
from scipy.spatial.distance import cdist
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.metrics import pairwise_distances
from threadpoolctl import threadpool_limits

from benches._harness import Check, Side

N_THREADS = (
    len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
)


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(N_THREADS)


# ---- reading memory -------------------------------------------------------------------------


def stream(values: NDArray[Any]) -> float:
    """Read every value once: NumPy's sum, a part in each thread."""
    return float(sum(_pool().map(np.sum, np.array_split(values, N_THREADS))))


def stream_blas(values: NDArray[Any]) -> float:
    """Read every value once: the threaded inner product of BLAS."""
    return float(values @ values)


# ---- copying by an index --------------------------------------------------------------------

# What a product with sorted columns cannot do without: to read and to write a row, one or ten
# numbers, for each value that is stored. Compiled, as NumPy takes up to nine times as long.
_COPY = """
#include <stdint.h>
#include <string.h>
#define COPY(width) \
    void copy_##width(const uint32_t *index, size_t n, const double *from, double *to) \
    { \
        for (size_t j = 0; j < n; j++) { \
            size_t at = width * (size_t)index[j]; \
            memcpy(to + at, from + at, width * sizeof(double)); \
        } \
    }
COPY(1)
COPY(10)
"""


@cache
def _compiled_copies() -> ctypes.CDLL:
    with TemporaryDirectory() as folder:
        source, library = Path(folder, "copy.c"), Path(folder, "copy.so")
        source.write_text(_COPY)
        options = ["-O3", "-march=native", "-shared", "-fPIC"]
        subprocess.run(["cc", *options, str(source), "-o", str(library)], check=True)
        return ctypes.CDLL(str(library))


def copy_by_index(index: NDArray[np.uint32], V: NDArray[np.float64], n_threads: int) -> None:
    """Copy rows of one or ten numbers by an index, a part of it in each thread to its own place."""
    copy = getattr(_compiled_copies(), f"copy_{V.shape[1]}")
    out = np.empty((n_threads, *V.shape))

    def run(part: NDArray[np.uint32], out: NDArray[np.float64]) -> None:
        copy(
            *(ctypes.c_void_p(part.ctypes.data), ctypes.c_size_t(len(part))),
            *(ctypes.c_void_p(array.ctypes.data) for array in (V, out)),
        )

    list(_pool().map(run, np.array_split(index, n_threads), out))


# ---- the matrix of the intersection kernel --------------------------------------------------

Gram = NDArray[Any]
_ROWS = 64


def _symmetric(X: NDArray[Any], size: int, block: Callable[[slice, slice], Gram]) -> Gram:
    """Fill the upper blocks in all threads and mirror them."""
    n = len(X)
    K = np.empty((n, n), dtype=X.dtype)
    slices = [slice(i, min(i + size, n)) for i in range(0, n, size)]

    def fill(i: int) -> None:
        for other in slices[i:]:
            part = block(slices[i], other)
            K[slices[i], other] = part
            K[other, slices[i]] = part.T

    with threadpool_limits(1, user_api="blas"):
        list(_pool().map(fill, range(len(slices))))
    return K


def gram_by_rows(X: NDArray[Any]) -> Gram:
    """Minima of one row and a block of rows that stays in the cache, summed by BLAS."""
    ones = np.ones(X.shape[1], dtype=X.dtype)

    def block(rows: slice, others: slice) -> Gram:
        Y = X[others]
        minima = np.empty_like(Y)
        out = np.empty((rows.stop - rows.start, len(Y)), dtype=X.dtype)
        for x, sums in zip(X[rows], out, strict=True):
            np.minimum(x, Y, out=minima)
            np.dot(minima, ones, out=sums)
        return out

    return _symmetric(X, _ROWS, block)


def gram_by_features(X: NDArray[Any]) -> Gram:
    """Minima of one feature at a time, added up in a block that stays in the cache."""
    by_feature = np.ascontiguousarray(X.T)

    def block(rows: slice, others: slice) -> Gram:
        out = np.zeros((rows.stop - rows.start, others.stop - others.start), dtype=X.dtype)
        minima = np.empty_like(out)
        for feature in by_feature:
            np.minimum(feature[rows, None], feature[others], out=minima)
            out += minima
        return out

    return _symmetric(X, 2 * _ROWS, block)


def gram_by_cdist(X: NDArray[Any]) -> Gram:
    """SciPy's city-block distance: `min(a, b) = (a + b - |a - b|) / 2`, blocks in threads."""
    mass = X.sum(axis=1)

    def block(rows: slice, others: slice) -> Gram:
        distance = cdist(X[rows], X[others], "cityblock")
        return (mass[rows, None] + mass[others] - distance) / 2

    return _symmetric(X, 2 * _ROWS, block)


def gram_by_sklearn(X: Any) -> Gram:
    """scikit-learn's L1 distance, dense or CSR."""
    mass = np.asarray(X.sum(axis=1)).ravel()
    K = pairwise_distances(X, metric="l1", n_jobs=N_THREADS)
    np.subtract(mass[:, None], K, out=K)
    K += mass
    K /= 2
    return K


# ---- the Gaussian process by factorisation --------------------------------------------------


def cholesky_weights(K: Gram, noise: float, Y: NDArray[Any]) -> NDArray[Any]:
    """Solve `(K + noise I) alpha = Y` by LAPACK, in the place of `K`."""
    K[np.diag_indices_from(K)] += noise
    factor = linalg.cho_factor(K.T, lower=True, overwrite_a=True, check_finite=False)
    return linalg.cho_solve(factor, Y.astype(K.dtype), check_finite=False)


# ---- gradient boosting ----------------------------------------------------------------------

BOOSTING = "HistGradientBoostingRegressor"


def boosting(data: Callable[[], Any], digest: Callable[[Any], dict[str, float]]) -> Side:
    """Return gradient boosting with its defaults as a peer, fitted to rows and targets."""
    return Side(
        BOOSTING,
        lambda data: HistGradientBoostingRegressor(random_state=0).fit(*data),
        data,
        digest,
        peer=True,
        memory=True,
    )


def no_worse_than_boosting(name: str) -> Check:
    """Return a check of the "rmse" in the digests of a side and of gradient boosting."""
    return Check(
        "RMSE over that of the peer",
        lambda results: {name: results[name]["rmse"] / results[BOOSTING]["rmse"]},
        limit=1.0,
    )
