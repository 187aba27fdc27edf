"""Thousands of small fits, after which the process must not have grown.

python -m tests.fuzz.soak --fits 10000
"""

import argparse
import os
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from histrs.gaussian_process import IntersectionGPClassifier, IntersectionGPRegressor
from histrs.kernel_approximation import AdditiveChi2Map, SparseAdditiveMap
from histrs.metrics import intersection_kernel, jbld_distances
from histrs.neighbors import MetricKNNClassifier
from histrs.quantization import ProductQuantizer
from histrs.streaming import Moments
from histrs.svm import BundleSVC, IntersectionSVC

# What the process may grow by from the first tenth of the fits to the end: no allocator is exact.
LIMIT = 16 << 20


def fits(n: int) -> Iterator[Any]:
    """Fit every kind of model in turn, each on new data, and use it."""
    rng = np.random.default_rng(0)
    makers = [
        lambda: IntersectionGPRegressor(
            optimizer=None, solver="cholesky", n_jobs=2, random_state=0
        ),
        lambda: IntersectionGPRegressor(
            optimizer=None, solver="cg", preconditioner="knots", random_state=0
        ),
        lambda: IntersectionGPClassifier(optimizer=None, solver="cg", n_bins=10, random_state=0),
        lambda: MetricKNNClassifier(2, metric="euclidean"),
        lambda: IntersectionSVC(max_iter=5, random_state=0),
        lambda: BundleSVC(alpha=0.1, max_iter=20),
        lambda: AdditiveChi2Map(),
        lambda: SparseAdditiveMap(n_knots=5),
        lambda: ProductQuantizer(1, 4, random_state=0),
    ]
    for k in range(n):
        X, y = rng.random((30, 4)), np.arange(30) % 2
        model = makers[k % len(makers)]()
        model.fit(sparse.csr_array(X) if k % 3 == 0 and takes_sparse(model) else X, y)
        yield getattr(model, "predict" if hasattr(model, "predict") else "transform")(X)
        intersection_kernel(X)
        jbld_distances(np.eye(3) + np.zeros((4, 1, 1)), n_jobs=2)
        Moments(4).update(X)


def takes_sparse(model: Any) -> bool:
    """Say whether the model may be fitted on a sparse matrix."""
    return isinstance(model, (IntersectionGPRegressor, IntersectionGPClassifier, BundleSVC))


def resident() -> int:
    """Return the bytes of the process that are in memory."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main() -> int:
    """Fit, and tell what the memory was."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.soak", description=__doc__)
    parser.add_argument("--fits", type=int, default=10_000)
    n = parser.parse_args().fits
    warnings.simplefilter("ignore", ConvergenceWarning)
    sizes = []
    for k, _ in enumerate(fits(n), start=1):
        if k % max(n // 10, 1) == 0:
            sizes.append(resident())
            threads = len(os.listdir("/proc/self/task"))
            print(f"{k} fits: {sizes[-1] / 2**20:.1f} MiB, {threads} threads", flush=True)
    growth = sizes[-1] - sizes[0]
    print(f"grown by {growth / 2**20:.1f} MiB")
    return int(growth > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
