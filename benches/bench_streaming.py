"""Principal components in one pass, beside those of all rows in memory."""

import numpy as np
from sklearn.decomposition import PCA

from benches._harness import Check, Figure, Measured, Side, Target, Trial, row
from histrs.streaming import StreamingPCA

OURS = "StreamingPCA, chunks of 4096 rows"
PEER = 'PCA(svd_solver="covariance_eigh"), in memory'
CHUNK = 4096


@row("streaming-pca", "Principal components, out of core")
def streaming_pca(quick: bool) -> Trial:
    """The same components, of rows that are seen once."""
    n, d, k = (2_000, 50, 5) if quick else (60_000, 1_000, 100)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d)) * np.linspace(1, 3, d) + 1
    # Uneven variances, so that the components are determined.
    X[:, :k] *= np.geomspace(20, 4, k)

    def ours(_):
        pca = StreamingPCA(k)
        for start in range(0, n, CHUNK):
            pca.partial_fit(X[start : start + CHUNK])
        return pca.components_, pca.explained_variance_

    def theirs(_):
        pca = PCA(k, svd_solver="covariance_eigh").fit(X)
        return pca.components_, pca.explained_variance_

    def differences(results):
        reference = results[PEER][1]
        return {name: np.max(np.abs(r[1] / reference - 1)) for name, r in results.items()}

    def figures(m: Measured):
        operations = n * d * (d + 1)
        return [
            Figure(f"{side}: a second, sums alone", operations / m.median(side) / 1e9, "GFLOP")
            for side in (OURS, PEER)
        ]

    return Trial(
        [Side(OURS, ours, memory=True), Side(PEER, theirs, peer=True, memory=True)],
        targets=[Target("no slower than in memory", lambda m: m.slowdown(OURS), at_most=1)],
        checks=[Check("largest relative difference of a variance", differences, limit=1e-9)],
        figures=figures,
        note=f"{n:,} x {d:,}, {k} components. The rows are in memory for both sides here, so that "
        "no disk is measured.",
    )
