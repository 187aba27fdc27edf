"""The intersection kernel between all rows, beside what NumPy, SciPy and scikit-learn offer."""

from functools import partial

import numpy as np
from scipy import sparse

from benches import _peers
from benches._data import gamma_values, sparse_values
from benches._harness import Check, Figure, Measured, Side, Target, Trial, row
from histrs.metrics import intersection_kernel

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
