"""Codebooks by k-means, one for each block of columns."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from itertools import pairwise
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans, MiniBatchKMeans
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from histrs._checks.sparse import is_sparse
from histrs._threads import blas_threads_at_most, in_threads
from histrs._typing import Array, Matrix
from histrs.quantization._metrics import CodeMetric

# Rounds of assignment and update after k-means, where the metric is not Euclidean in coordinates.
N_REFINEMENTS = 3


def block(X: Matrix, start: int, stop: int) -> Array:
    """Return a block of columns, dense and in double precision."""
    part: Any = X[:, start:stop]
    return np.asarray(part.toarray() if is_sparse(part) else part, dtype=np.float64)


def learn(
    X: Matrix,
    offsets: NDArray[np.int64],
    n_codes: int,
    metric: CodeMetric,
    algorithm: str,
    max_iter: int,
    rng: np.random.RandomState,
    n_threads: int,
    progress: Callable[[str], None],
) -> tuple[Array, int]:
    """Return codebooks of shape (n_blocks, n_codes, width), and the most iterations of a block.

    Narrower blocks have zeros behind their columns. `progress` is told of each block.
    """
    seeds = rng.randint(np.iinfo(np.int32).max, size=len(offsets) - 1)
    lock = Lock()
    kind = KMeans if algorithm == "lloyd" else MiniBatchKMeans

    def centres(start: int, stop: int, seed: int) -> tuple[Array, int]:
        means = kind(n_codes, n_init=1, max_iter=max_iter, random_state=int(seed))
        # OpenMP counts for each thread by itself.
        with threadpool_limits(1, user_api="openmp"):
            means.fit(metric.coordinates(block(X, start, stop)))
        with lock:
            progress(f"columns {start} to {stop}, {means.n_iter_} iterations of k-means")
        return metric.values(means.cluster_centers_), int(means.n_iter_)

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
    metric: CodeMetric,
    encode: Callable[[Array], NDArray[Any]],
) -> Array:
    """Return codebooks after rounds of Lloyd's algorithm in the metric itself."""
    update = metric.centres
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
