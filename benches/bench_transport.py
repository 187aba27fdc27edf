"""Sinkhorn distances of all pairs, beside POT's one-to-many solver."""

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benches._harness import Check, Figure, Measured, Side, Target, Trial, row
from histrs.metrics import sinkhorn_distances

OURS = "sinkhorn_distances"
OURS_SINGLE = "sinkhorn_distances, float32"
PEER = "POT, one to many, each pair once"
REG = 1 / 9
"""Of the median of the ground distance: the lambda = 9 of M. Cuturi's experiments."""


def _bags_of_words(n: int, d: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return smoothed histograms over words in five dimensions, and the words' distances."""
    rng = np.random.default_rng(0)
    words = rng.standard_normal((d, 5))
    M = np.linalg.norm(words[:, None] - words, axis=2)
    X = rng.standard_gamma(0.5, size=(n, d)) + 0.01
    return X / X.sum(axis=1, keepdims=True), M / np.median(M)


def _peer(X: NDArray[np.float64], M: NDArray[np.float64], tol: float) -> Any:
    """Solve row by row against the rows below; return the distances and the largest error."""
    import ot

    n = len(X)
    K = np.exp(-M / REG)
    D = np.zeros((n, n))
    scalings = []
    for i in range(n - 1):
        below = np.ascontiguousarray(X[i + 1 :].T)
        D[i, i + 1 :], log = ot.bregman.sinkhorn_knopp(
            X[i], below, M, REG, numItermax=20_000, stopThr=tol, log=True, warn=False
        )
        scalings.append((log["u"], log["v"]))

    def errors() -> float:
        worst = 0.0
        for i, (u, v) in enumerate(scalings):
            rows = np.abs(u * (K @ v) - X[i][:, None]).sum(axis=0)
            columns = np.abs(v * (K.T @ u) - X[i + 1 :].T).sum(axis=0)
            worst = max(worst, float((rows + columns).max()))
        return worst

    return D, errors


def sinkhorn(quick: bool, *, d: int, n: int, tol: float) -> Trial:
    """All pairs at one marginal error."""
    n = 12 if quick else n
    X, M = _bags_of_words(n, d)
    single = X.astype(np.float32)
    upper = np.triu_indices(n, k=1)

    def ours(X: NDArray[Any]) -> Any:
        D, info = sinkhorn_distances(X, M=M, reg=REG, tol=tol, max_iter=20_000, return_info=True)
        return D, info.errors.max, info.n_iter[upper].mean

    exact = sinkhorn_distances(X, M=M, reg=REG, tol=1e-11, max_iter=20_000)[upper]
    sides = [
        Side(OURS, lambda _: ours(X)),
        Side(PEER, lambda _: _peer(X, M, tol), peer=True),
    ]
    if tol >= 1e-6:
        sides.append(Side(OURS_SINGLE, lambda _: ours(single)))

    def marginals(results):
        return {name: result[1]() / tol for name, result in results.items()}

    def differences(results):
        return {name: np.max(np.abs(r[0][upper] / exact - 1)) for name, r in results.items()}

    def figures(m: Measured):
        pairs = n * (n + 1) / 2
        return [
            Figure("mean iterations of a pair", m.digests[OURS][2]()),
            *(
                Figure(f"{side.name}: a pair", m.median(side.name) / pairs * 1e6, "us")
                for side in sides
            ),
        ]

    return Trial(
        sides,
        targets=[Target("10x faster than POT", lambda m: m.speedup(OURS), at_least=10)],
        checks=[
            # POT stops by the Euclidean norm of the errors of all pairs together.
            Check("largest L1 error of the marginals, in tolerances", marginals, limit=10),
            Check("largest relative difference of a distance", differences, limit=1e3 * tol),
        ],
        figures=figures,
        note=f"{n} smoothed bags of words, {d} bins; regularisation a ninth of the median of the "
        f"Euclidean ground distance; tolerance {tol:g}. The peer solves each row against the rows "
        "below it and leaves out the pairs of a row with itself, on which it is slowest; "
        "sinkhorn_distances computes them.",
    )


for _d, _n in [(60, 80), (400, 30)]:
    for _name, _tol in [("1e-6", 1e-6), ("1e-9", 1e-9)]:
        row(f"sinkhorn-{_d}-{_name}", f"Sinkhorn, all pairs, {_d} bins, to {_name}")(
            partial(sinkhorn, d=_d, n=_n, tol=_tol)
        )
