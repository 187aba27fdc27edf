"""Kernels between all rows, beside what NumPy, SciPy and scikit-learn offer."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.spatial.distance import cdist
from sklearn.metrics import pairwise

from benches import _peers
from benches._data import gamma_values, sparse_values
from benches._harness import Check, Figure, Measured, Side, Target, Trial, row
from histrs.metrics import (
    chi2_distances,
    exp_chi2_kernel,
    hellinger_kernel,
    intersection_kernel,
    jensen_shannon_kernel,
)

OURS = "intersection_kernel"


def gram(quick: bool, *, dtype: type = np.float64, density: float = 1.0) -> Trial:
    """All pairs of 1,000 rows; the peers use that `min(a, b) = (a + b - |a - b|) / 2`, or not."""
    n, d = (200, 100) if quick else (1000, 784)
    dense = gamma_values(n, d) if density == 1 else sparse_values(n, d, density).toarray()
    dense = dense.astype(dtype)
    X = dense if density == 1 else sparse.csr_array(dense)
    sides = [
        Side(OURS, lambda _: intersection_kernel(X)),
        Side("NumPy, a row at a time", lambda _: _peers.gram_by_rows(dense), peer=True),
        Side("NumPy, a feature at a time", lambda _: _peers.gram_by_features(dense), peer=True),
        Side("SciPy cdist", lambda _: _peers.gram_by_cdist(dense), peer=True),
        Side("scikit-learn pairwise L1", lambda _: _peers.gram_by_sklearn(X), peer=True),
    ]
    if density < 1:
        sides.insert(1, Side(f"{OURS}, dense", lambda _: intersection_kernel(dense)))
    # Sums are in the precision of the result, at best.
    exact = _peers.gram_by_features(dense.astype(np.float64))

    def errors(results):
        return {name: np.max(np.abs(K - exact)) / np.max(exact) for name, K in results.items()}

    def figures(m: Measured):
        terms = n * (n + 1) / 2 * d
        return [
            Figure(f"{side.name}: a minimum of a pair", m.median(side.name) / terms * 1e9, "ns")
            for side in sides
        ]

    return Trial(
        sides,
        targets=[Target("faster than the fastest peer", lambda m: m.speedup(OURS), at_least=1)],
        checks=[
            Check(
                "largest error over the largest entry",
                errors,
                limit=1e-12 if dtype is np.float64 else 1e-5,
            )
        ],
        figures=figures,
        note=f"{n:,} x {d} gamma-distributed values. Every peer uses all cores; those of NumPy and "
        "SciPy compute every pair once, in blocks that stay in the cache."
        + ("" if density == 1 else " The peers of NumPy and SciPy are given the dense matrix."),
    )


row("gram-f64", "`intersection_kernel`, dense, float64")(gram)
row("gram-f32", "`intersection_kernel`, dense, float32")(partial(gram, dtype=np.float32))
row("gram-csr", "`intersection_kernel`, CSR, 10% stored")(partial(gram, density=0.1))


def counts(quick: bool, *, largest: int, target: float, dtype: type = np.float64) -> Trial:
    """All pairs of rows of counts, beside the same rows with one entry that is no count."""
    n, d = (200, 100) if quick else (4000, 784)
    X = np.random.default_rng(0).integers(0, largest + 1, size=(n, d)).astype(dtype)
    other = X.astype(np.float64)
    other[0, 0] = 1 / 3
    floating = "the same in floating point"
    one = f"{OURS}, one thread"
    sides = [
        Side(OURS, lambda _: intersection_kernel(X)),
        Side(one, lambda _: intersection_kernel(X, n_jobs=1)),
        Side(floating, lambda _: intersection_kernel(other), peer=True),
        Side("SciPy cdist", lambda _: _peers.gram_by_cdist(other), peer=True),
    ]
    exact = np.array([np.minimum(x, other).sum(axis=1) for x in other[:50]])

    def errors(results):
        # One row differs.
        exact_rows = exact[1:, 1:]
        return {
            name: np.max(np.abs(K[1:50, 1:] - exact_rows) / np.maximum(exact_rows, 1))
            for name, K in results.items()
        }

    def of_a_minimum(m: Measured, name: str) -> float:
        return m.median(name) / (n * (n + 1) / 2 * d) * 1e9

    return Trial(
        sides,
        targets=[
            Target("faster than the fastest peer", lambda m: m.speedup(OURS), at_least=3),
            Target(
                "ns a minimum of a pair, one thread, with all that is read and written",
                # A few rows take as long to look at as to compare.
                lambda m: np.nan if quick else of_a_minimum(m, one),
                at_most=target,
                unit=" ns",
            ),
        ],
        checks=[Check("largest relative error", errors, limit=1e-7)],
        figures=lambda m: [
            Figure(f"{side.name}: a minimum of a pair", of_a_minimum(m, side.name), "ns")
            for side in sides
        ],
        note=f"{n:,} x {d} whole numbers up to {largest:,}, in an array of {np.dtype(dtype).name}.",
    )


for _name, _largest, _target in (("bytes", 255, 0.0046), ("words", 65_535, 0.0085)):
    _title = f"`intersection_kernel` of counts up to {_largest:,}"
    _options = {"largest": _largest, "target": _target}
    row(f"counts-{_name}", _title)(partial(counts, **_options))
    for _dtype in (np.float32, np.uint8 if _largest == 255 else np.uint16):
        _kind = np.dtype(_dtype).name
        row(f"counts-{_name}-{_kind}", f"{_title}, {_kind}")(
            partial(counts, dtype=_dtype, **_options)
        )


class Metric(NamedTuple):
    """A metric of histrs and whoever else computes it, on rows that sum to 1."""

    ours: Callable[[Any], Any]
    peer: str
    run: Callable[[Any], Any]
    exact: Callable[[Any], Any]


def _js_by_cdist(X):
    return 1 - cdist(X, X, "jensenshannon") ** 2 / np.log(2)


def _blas(X):
    roots = np.sqrt(X)
    return roots @ roots.T


METRICS = {
    "chi2": Metric(
        chi2_distances,
        "scikit-learn additive_chi2_kernel, negated",
        lambda X: -pairwise.additive_chi2_kernel(X),
        lambda X: -pairwise.additive_chi2_kernel(X),
    ),
    "exp-chi2": Metric(
        exp_chi2_kernel, "scikit-learn chi2_kernel", pairwise.chi2_kernel, pairwise.chi2_kernel
    ),
    "hellinger": Metric(hellinger_kernel, "NumPy, square roots and BLAS", _blas, _blas),
    "jensen-shannon": Metric(
        jensen_shannon_kernel, "SciPy cdist, one core", _js_by_cdist, _js_by_cdist
    ),
}


def metric_gram(quick: bool, *, name: str, dtype: type = np.float64, density: float = 1.0) -> Trial:
    """All pairs of 1,000 rows that sum to 1."""
    n, d = (200, 100) if quick else (1000, 784)
    metric = METRICS[name]
    values = gamma_values(n, d) if density == 1 else sparse_values(n, d, density).toarray()
    dense = (values / values.sum(axis=1, keepdims=True)).astype(dtype)
    X = dense if density == 1 else sparse.csr_array(dense)
    ours = metric.ours.__name__
    exact = metric.exact(dense.astype(np.float64))

    def errors(results):
        return {side: np.max(np.abs(K - exact)) / np.max(exact) for side, K in results.items()}

    return Trial(
        sides=[
            Side(ours, lambda _: metric.ours(X)),
            Side(metric.peer, lambda _: metric.run(dense), peer=True),
        ],
        targets=[Target("faster than the peer", lambda m: m.speedup(ours), at_least=1)],
        checks=[
            Check(
                "largest error over the largest entry",
                errors,
                limit=1e-12 if dtype is np.float64 else 1e-4,
            )
        ],
        figures=lambda m: [
            Figure("a term of a pair", m.median(ours) / (n * (n + 1) / 2 * d) * 1e9, "ns")
        ],
        note=f"{n:,} x {d} gamma-distributed values, rows that sum to 1."
        + ("" if density == 1 else " The peer is given the dense matrix, as it takes no other."),
    )


for _name, _metric in METRICS.items():
    for _dtype in (np.float64, np.float32):
        row(
            f"{_name}-{'f64' if _dtype is np.float64 else 'f32'}",
            f"`{_metric.ours.__name__}`, dense, {np.dtype(_dtype).name}",
        )(partial(metric_gram, name=_name, dtype=_dtype))
row("chi2-csr", "`chi2_distances`, CSR, 10% stored")(partial(metric_gram, name="chi2", density=0.1))
