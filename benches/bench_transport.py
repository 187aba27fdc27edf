"""Sinkhorn distances of all pairs, beside the fastest of POT's solvers of the same problem."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.preprocessing import normalize

from benches import _data
from benches._harness import Check, Figure, Measured, Side, Target, Trial, row
from histrs.cluster import MetricKMeans
from histrs.metrics import (
    emd_distances,
    partial_sinkhorn_distances,
    sinkhorn_distances,
    unbalanced_sinkhorn_distances,
)
from histrs.transport import (
    GridDistance,
    grid_ground_distance,
    sinkhorn_barycenter,
    sinkhorn_divergences,
)

OURS = "sinkhorn_distances"
OURS_SINGLE = "sinkhorn_distances, float32"
PEER = "POT, one to many, each pair once"
BATCH = "POT, solve_batch, each pair once"
REG = 1 / 9
"""Of the median of the ground distance: the lambda = 9 of M. Cuturi's experiments."""
DEAR = 1e3
"""What the peer takes for infinite: its kernel is 0 there, and its costs stay numbers."""


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


def _batch(X: NDArray[np.float64], M: NDArray[np.float64], tol: float) -> Any:
    """Solve a row with the rows below it as a batch of problems, as `_peer` does."""
    import ot

    n = len(X)
    D = np.zeros((n, n))
    worst = 0.0
    for i in range(n - 1):
        below = X[i + 1 :]
        costs = np.broadcast_to(M, (len(below), *M.shape))
        above = np.broadcast_to(X[i], below.shape)
        found = ot.solve_batch(
            costs, REG, above, below, max_iter=20_000, tol=tol, method="sinkhorn", grad="detach"
        )
        D[i, i + 1 :] = found.value_linear
        errors = np.abs(found.plan.sum(axis=2) - above).sum(axis=1)
        errors += np.abs(found.plan.sum(axis=1) - below).sum(axis=1)
        worst = max(worst, float(errors.max()))
    return D, lambda: worst


def sinkhorn(quick: bool, *, d: int, n: int, tol: float, forbidden: float = 0.0) -> Trial:
    """All pairs at one marginal error; of all moves, the longest may be forbidden."""
    n = 12 if quick else n
    X, M = _bags_of_words(n, d)
    of_peer = M
    if forbidden > 0.0:
        too_far = np.quantile(M, 1 - forbidden) < M
        M, of_peer = np.where(too_far, np.inf, M), np.where(too_far, DEAR, M)
    single = X.astype(np.float32)
    upper = np.triu_indices(n, k=1)

    def ours(X: NDArray[Any]) -> Any:
        D, info = sinkhorn_distances(X, M=M, reg=REG, tol=tol, max_iter=20_000, return_info=True)
        return D, info.errors.max, info.n_iter[upper].mean

    exact = sinkhorn_distances(X, M=M, reg=REG, tol=1e-11, max_iter=20_000)[upper]
    sides = [
        Side(OURS, lambda _: ours(X)),
        Side(PEER, lambda _: _peer(X, of_peer, tol), peer=True),
        Side(BATCH, lambda _: _batch(X, of_peer, tol), peer=True),
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
            # POT stops by the Euclidean norm of the errors of all pairs together, or of one pair.
            Check("largest L1 error of the marginals, in tolerances", marginals, limit=10),
            Check("largest relative difference of a distance", differences, limit=1e3 * tol),
        ],
        figures=figures,
        note=f"{n} smoothed bags of words, {d} bins; regularisation a ninth of the median of the "
        f"Euclidean cost matrix; tolerance {tol:g}. "
        + (f"The longest {forbidden:.0%} of all moves are forbidden. " if forbidden else "")
        + "The peers solve each row against the rows "
        "below it and leave out the pairs of a row with itself, on which they are slowest; "
        "sinkhorn_distances computes them.",
    )


for _d, _n in [(60, 80), (400, 30)]:
    for _name, _tol in [("1e-6", 1e-6), ("1e-9", 1e-9)]:
        row(f"sinkhorn-{_d}-{_name}", f"Sinkhorn, all pairs, {_d} bins, to {_name}")(
            partial(sinkhorn, d=_d, n=_n, tol=_tol)
        )


row("sinkhorn-forbidden", "Sinkhorn, all pairs, infinite costs, 60 bins, to 1e-6")(
    partial(sinkhorn, d=60, n=80, tol=1e-6, forbidden=0.1)
)


# ---- masses that differ -----------------------------------------------------------------------

PLAIN, INVARIANT = "POT, pair by pair", "POT, pair by pair, translation invariant"
PENALTY, SHARE = 1.0, 0.7
"""Of a unit of mass, in medians of the ground distance; of the least mass, what is moved."""

Matrix = NDArray[np.float64]
Plan = Callable[[Matrix, Matrix], Matrix]


def _each_pair(X: Matrix, M: Matrix, plan: Plan) -> Matrix:
    """Return the costs of transport of a pair after the other, each once."""
    D = np.zeros((len(X), len(X)))
    for i, j in zip(*np.triu_indices(len(X), k=1), strict=True):
        D[i, j] = np.sum(plan(X[i], X[j]) * M)
    return D


def _unbalanced_peer(M: Matrix, tol: float, method: str) -> Plan:
    import ot

    def plan(a: Matrix, b: Matrix) -> Matrix:
        # So that the measure of reference is that of histrs, which has the mass of its factors.
        unit = np.sqrt(a.sum() * b.sum())
        scaled: Matrix = ot.unbalanced.sinkhorn_unbalanced(
            a / unit, b / unit, M, REG, PENALTY, method=method, stopThr=tol, numItermax=20_000
        )
        return unit * scaled

    return plan


def _partial_peer(M: Matrix, tol: float, mass: float) -> Plan:
    import ot

    def plan(a: Matrix, b: Matrix) -> Matrix:
        found: Matrix = ot.partial.entropic_partial_wasserstein(
            a, b, M, REG, m=mass, stopThr=tol * mass, numItermax=20_000
        )
        return found

    return plan


def _relaxed(
    X: Matrix, tol: float, ours: str, call: Callable[[float], Any], peers: list[Side], note: str
) -> Trial:
    """Compare transport that need not move all mass; `call` takes a tolerance."""
    upper = np.triu_indices(len(X), k=1)
    exact = call(1e-11)[upper]

    def differences(results):
        return {name: np.max(np.abs(D[upper] / exact - 1)) for name, D in results.items()}

    def figures(m: Measured):
        n_pairs = len(exact)
        return [
            Figure(f"{name}: a pair", m.median(name) / n_pairs * 1e6, "us") for name in m.seconds
        ]

    return Trial(
        [Side(ours, lambda _: call(tol)), *peers],
        targets=[Target("10x faster than POT", lambda m: m.speedup(ours), at_least=10)],
        checks=[Check("largest relative difference of a distance", differences, limit=1e3 * tol)],
        figures=figures,
        note=f"{len(X)} smoothed bags of words of different mass, {X.shape[1]} bins; "
        f"regularisation a ninth of the median of the Euclidean cost matrix; tolerance "
        f"{tol:g}, and 1e-11 for the exact result. {note} POT leaves out the pairs of a "
        "row with itself, and computes each other once.",
    )


def _masses(quick: bool) -> tuple[Matrix, Matrix]:
    X, M = _bags_of_words(8 if quick else 40, 60)
    return X * np.random.default_rng(1).uniform(0.5, 2.0, size=(len(X), 1)), M


@row("sinkhorn-unbalanced", "Unbalanced Sinkhorn, all pairs, 60 bins, to 1e-6")
def unbalanced(quick: bool) -> Trial:
    """Mass is created and destroyed at a price."""
    X, M = _masses(quick)
    tol = 1e-6

    def call(tol: float) -> Any:
        return unbalanced_sinkhorn_distances(
            X, M=M, reg=REG, reg_m=PENALTY, tol=tol, max_iter=20_000, cost="transport"
        )

    def peer(method: str) -> Callable[[Any], Matrix]:
        return lambda _: _each_pair(X, M, _unbalanced_peer(M, tol, method))

    peers = [
        Side(PLAIN, peer("sinkhorn"), peer=True),
        Side(INVARIANT, peer("sinkhorn_translation_invariant"), peer=True),
    ]
    note = (
        "To create or to destroy a unit of mass costs the median. POT's solver of one histogram "
        "against many regularises towards equal entries of the plan, which is another problem."
    )
    return _relaxed(X, tol, "unbalanced_sinkhorn_distances", call, peers, note)


@row("sinkhorn-partial", "Partial Sinkhorn, all pairs, 60 bins, to 1e-6")
def partial_transport(quick: bool) -> Trial:
    """Only a part of the mass is moved."""
    X, M = _masses(quick)
    tol, mass = 1e-6, SHARE * float(X.sum(axis=1).min())

    def call(tol: float) -> Any:
        return partial_sinkhorn_distances(X, M=M, reg=REG, mass=mass, tol=tol, max_iter=20_000)

    peers = [Side(PLAIN, lambda _: _each_pair(X, M, _partial_peer(M, tol, mass)), peer=True)]
    note = f"{SHARE:.0%} of the smallest mass is moved."
    return _relaxed(X, tol, "partial_sinkhorn_distances", call, peers, note)


# ---- barycentres ------------------------------------------------------------------------------

BARYCENTER, BARYCENTER_LOG = "sinkhorn_barycenter", "POT, sinkhorn_log"
BARYCENTER_PLAIN = "POT, sinkhorn"


def barycenter(quick: bool, *, reg: float, debiased: bool, tol: float) -> Trial:
    """Of densities on a line, beside both of POT's solvers where the kernel is in range."""
    import ot

    d = 60 if quick else 200
    rng = np.random.default_rng(0)
    places = np.linspace(0, 1, d)
    # To sharpen what is narrower than the blur is an ill-posed problem.
    narrow, wide = (0.06, 0.15) if debiased else (0.02, 0.1)
    centres, widths = rng.uniform(0.2, 0.8, (8, 2, 1)), rng.uniform(narrow, wide, (8, 2, 1))
    X = np.exp(-0.5 * np.square((places - centres) / widths)).sum(axis=1) + 1e-9
    X /= X.sum(axis=1, keepdims=True)
    M = np.square(places[:, None] - places)

    def ours(tol: float) -> Any:
        return sinkhorn_barycenter(
            X, M=M, reg=reg, debiased=debiased, tol=tol, max_iter=20_000, return_info=True
        )

    def peer(_: Any, method: str) -> Any:
        solver = ot.bregman.barycenter_debiased if debiased else ot.bregman.barycenter
        options = {"method": method, "stopThr": tol, "numItermax": 20_000}
        return solver(X.T, M, reg, log=True, **options)

    exact = ours(tol / 100)[0]
    peers = [BARYCENTER_LOG, *([BARYCENTER_PLAIN] if reg >= 0.01 else [])]

    def n_iter(name: str, info: Any) -> int:
        return int(info.n_iter) if name == BARYCENTER else info["niter"] + 1

    def errors(results):
        return {name: np.abs(b - exact).sum() for name, (b, _) in results.items()}

    def faster(m: Measured, than: str) -> float:
        return m.median(than) / m.median(BARYCENTER)

    return Trial(
        [
            Side(BARYCENTER, lambda _: ours(tol)),
            *(
                Side(name, partial(peer, method=name.removeprefix("POT, ")), peer=True)
                for name in peers
            ),
        ],
        targets=[
            Target(
                "3x faster than POT in the log domain", partial(faster, than=peers[0]), at_least=3
            ),
            *(
                Target(f"faster than {name}", partial(faster, than=name), at_least=1)
                for name in peers[1:]
            ),
        ],
        checks=[Check("L1 error of the barycentre", errors, limit=0.1 if debiased else 1e3 * tol)],
        figures=lambda m: [
            *(
                Figure(f"iterations, {name}", n_iter(name, info))
                for name, (_, info) in m.digests.items()
            ),
            *(
                Figure(f"L1 error, {name}, in millionths", 1e6 * error)
                for name, error in errors(m.digests).items()
            ),
        ],
        note=f"8 mixtures of two Gaussians on {d} bins; the regularisation is {reg:g} of the "
        f"largest squared distance{', and exp(-1000) is 0 in double precision' * (reg <= 1e-3)}. "
        f"Tolerance {tol:g}: ours bounds the L1 error of every marginal, POT's the sum of the "
        "standard deviations of the histograms' marginals, at every tenth iteration. Errors are "
        "differences from our result to a hundredth of the tolerance.",
    )


row("sinkhorn-barycenter", "Barycentre, 8 histograms, 200 bins, to 1e-6")(
    partial(barycenter, reg=0.02, debiased=False, tol=1e-6)
)
row("sinkhorn-barycenter-small", "Barycentre, small regularisation, 200 bins, to 1e-6")(
    partial(barycenter, reg=1e-3, debiased=False, tol=1e-6)
)
row("sinkhorn-barycenter-debiased", "Debiased barycentre, small regularisation, to 1e-4")(
    partial(barycenter, reg=1e-3, debiased=True, tol=1e-4)
)


IMAGES, IMAGES_PEER = "sinkhorn_barycenter, GridDistance", "POT, convolutional_barycenter2d"
DEBIASED_PEER = f"{IMAGES_PEER}_debiased"


def _images(n: int, side: int) -> tuple[Matrix, GridDistance]:
    """Return images of three Gaussians each, and the distance of pixels; sides have length 1."""
    rng = np.random.default_rng(0)
    rows, columns = np.mgrid[0:side, 0:side] / (side - 1)
    images = np.full((n, side, side), 1e-5)
    for image in images:
        for (r, c), width in zip(
            rng.uniform(0.2, 0.8, (3, 2)), rng.uniform(0.03, 0.1, 3), strict=True
        ):
            image += np.exp(-0.5 * (np.square(rows - r) + np.square(columns - c)) / width**2)
    images /= images.sum(axis=(1, 2), keepdims=True)
    return images, GridDistance((side, side), spacing=1 / (side - 1))


@row("sinkhorn-barycenter-images", "Barycentre, 4 images of 64 x 64 pixels, to 1e-6")
def barycenter_of_images(quick: bool) -> Trial:
    """A separable kernel: both multiply axis by axis."""
    import ot

    reg, tol = 0.01, 1e-6
    images, grid = _images(4, 16 if quick else 64)

    def ours(tol: float) -> Any:
        return sinkhorn_barycenter(images.reshape(4, -1), M=grid, reg=reg, tol=tol)

    def peer(_: Any) -> Any:
        found = ot.bregman.convolutional_barycenter2d(images, reg, numItermax=20_000, stopThr=1e-9)
        return found.ravel()

    exact = ours(tol / 1000)

    def errors(results):
        return {name: np.abs(b - exact).sum() for name, b in results.items()}

    return Trial(
        [Side(IMAGES, lambda _: ours(tol)), Side(IMAGES_PEER, peer, peer=True)],
        targets=[
            Target("faster than POT", lambda m: m.speedup(IMAGES), at_least=1),
            Target(
                "L1 error", lambda m: 1e6 * errors(m.digests)[IMAGES], at_most=1, unit=" millionths"
            ),
        ],
        checks=[Check("L1 error of the barycentre", errors, limit=1e-4)],
        figures=lambda m: [
            Figure(f"L1 error, {name}, in millionths", 1e6 * error)
            for name, error in errors(m.digests).items()
        ],
        note=f"Three Gaussians an image; the sides have length 1, and `reg` is {reg:g}. "
        "POT adds 1e-30 to its products, which its kernels fall below at smaller regularisations. "
        f"Tolerances {tol:g} of ours, and 1e-9 of POT's own error.",
    )


def debiased_barycenter_of_images(
    quick: bool, *, n: int, side: int, tol: float, tol_of_peer: float, error: float
) -> Trial:
    """Compared by the mean Sinkhorn divergence, which the barycentre minimises."""
    import ot

    reg = 0.01
    images, grid = _images(n, 16 if quick else side)
    X = images.reshape(n, -1)

    def ours(tol: float) -> Any:
        return sinkhorn_barycenter(X, M=grid, reg=reg, debiased=True, tol=tol)

    def peer(_: Any) -> Any:
        return ot.bregman.convolutional_barycenter2d_debiased(
            images, reg, numItermax=20_000, stopThr=tol_of_peer
        )

    def divergence(b: Matrix) -> float:
        row = b.reshape(1, -1) / b.sum()
        return float(sinkhorn_divergences(row, X, M=grid, reg=reg, max_iter=20_000).mean())

    best = divergence(ours(tol / 4))

    def excess(results):
        least = min(best, *results.values())
        return {name: value - least for name, value in results.items()}

    return Trial(
        [
            Side(IMAGES, lambda _: ours(tol), digest=divergence),
            Side(DEBIASED_PEER, peer, digest=divergence, peer=True),
        ],
        targets=[
            Target("faster than POT", lambda m: m.speedup(IMAGES), at_least=1),
            Target(
                "divergence above the least",
                lambda m: 1e6 * excess(m.digests)[IMAGES],
                at_most=1e6 * error,
                unit=" millionths",
            ),
        ],
        checks=[Check("divergence above the least", excess, limit=2 * error)],
        figures=lambda m: [
            Figure(f"divergence above the least, {name}, in millionths", 1e6 * error)
            for name, error in excess(m.digests).items()
        ],
        note=f"The images of the barycentre above; `reg` is {reg:g}. Tolerances {tol:g} of ours, "
        f"and {tol_of_peer:g} of POT's own error. Both come near the least divergence slowly.",
    )


row("sinkhorn-images-debiased", "Debiased barycentre, 4 images of 64 x 64, to 1e-5")(
    partial(debiased_barycenter_of_images, n=4, side=64, tol=5e-4, tol_of_peer=1e-6, error=1e-5)
)
row("sinkhorn-images-20", "Debiased barycentre, 20 images of 28 x 28, to 1e-6")(
    partial(debiased_barycenter_of_images, n=20, side=28, tol=2e-4, tol_of_peer=5e-6, error=1e-6)
)


# ---- the exact distance -----------------------------------------------------------------------

EMD, EMD_PEER = "emd_distances", "POT, emd2 on bins with mass, each pair once"


@row("emd-60", "Exact earth mover's distance, all pairs, 60 bins, half of them empty")
def emd(quick: bool) -> Trial:
    """All pairs in one call, beside one call for each pair."""
    import ot

    n = 10 if quick else 80
    X, M = _bags_of_words(n, 60)
    X[np.random.default_rng(1).random(X.shape) < 0.5] = 0.0
    X /= X.sum(axis=1, keepdims=True)

    def peer(_: Any) -> Matrix:
        bins = [np.flatnonzero(x) for x in X]
        masses = [x[own] for x, own in zip(X, bins, strict=True)]
        D = np.zeros((n, n))
        for i, j in zip(*np.triu_indices(n, k=1), strict=True):
            D[i, j] = D[j, i] = ot.emd2(masses[i], masses[j], M[np.ix_(bins[i], bins[j])])
        return D

    expected = peer(None)

    def differences(results):
        return {name: np.max(np.abs(D - expected)) for name, D in results.items()}

    return Trial(
        [Side(EMD, lambda _: emd_distances(X, M=M)), Side(EMD_PEER, peer, peer=True)],
        targets=[Target("3x faster than POT", lambda m: m.speedup(EMD), at_least=3)],
        checks=[Check("largest difference of a distance", differences, limit=1e-9)],
        figures=lambda m: [
            Figure(f"{name}: a pair", m.median(name) / (n * (n - 1) / 2) * 1e6, "us")
            for name in m.seconds
        ],
        note=f"{n} bags of words, Euclidean cost matrix. Both are network simplex methods. Ours "
        "leaves out the mass that both histograms have in a bin, because it does not move if "
        "the costs are a metric.",
    )


WORDS, WORDS_PEER = "emd_distances, positions", "POT, emd2 on words of both, each pair"


@row("emd-words", "Word mover's distance, 10 queries, 200 texts")
def words(quick: bool) -> Trial:
    """Costs are computed between the words of two texts."""
    import ot
    from scipy.spatial.distance import cdist

    n, n_queries = (20, 2) if quick else (200, 10)
    rng = np.random.default_rng(0)
    n_words = 5000
    places = rng.standard_normal((n_words, 50))
    frequencies = 1 / (10 + np.arange(n_words))
    texts = rng.multinomial(80, frequencies / frequencies.sum(), size=n).astype(float)

    def peer(_: Any) -> Matrix:
        D = np.zeros((n_queries, n))
        bins = [np.flatnonzero(text) for text in texts]
        masses = [text[own] / text.sum() for text, own in zip(texts, bins, strict=True)]
        for i, j in np.ndindex(*D.shape):
            D[i, j] = ot.emd2(masses[i], masses[j], cdist(places[bins[i]], places[bins[j]]))
        return D

    expected = peer(None)

    def differences(results):
        return {name: np.max(np.abs(D - expected)) for name, D in results.items()}

    return Trial(
        [
            Side(WORDS, lambda _: emd_distances(texts[:n_queries], texts, positions=places)),
            Side(WORDS_PEER, peer, peer=True),
        ],
        targets=[Target("3x faster than POT", lambda m: m.speedup(WORDS), at_least=3)],
        checks=[Check("largest difference of a distance", differences, limit=1e-6)],
        figures=lambda m: [
            Figure(f"{name}: a pair", m.median(name) / (n_queries * n) * 1e6, "us")
            for name in m.seconds
        ],
        note="Texts of 80 words out of 5,000 at random places in 50 dimensions.",
    )


TEXTS, NOTHING = "emd_distances, positions", "the process before"


@row("emd-newsgroups", "Word mover's distance, 40 messages, 1,000 messages of 20 Newsgroups")
def messages(quick: bool) -> Trial:
    """All distances in one call, beside one call of the peer for each pair of fewer queries."""
    import ot
    from scipy.spatial.distance import cdist

    data = _data.gamma_classes(60, 50, 10, 0.2) if quick else _data.newsgroups()
    n, n_queries, n_of_peer = (20, 4, 2) if quick else (1000, 40, 4)
    words = TfidfTransformer(sublinear_tf=True).fit_transform(data.X)
    svd = TruncatedSVD(10 if quick else 100, random_state=0).fit(words)
    places = normalize(svd.components_.T)
    rows = np.random.default_rng(0).permutation(np.flatnonzero(np.diff(data.X.indptr) > 5))
    texts, queries = data.X[rows[:n]], data.X[rows[n : n + n_queries]]

    def bins(rows: Any) -> list[tuple[Matrix, Matrix]]:
        masses = [rows[[i]] for i in range(rows.shape[0])]
        return [(row.data / row.data.sum(), places[row.indices]) for row in masses]

    def peer(_: Any) -> Matrix:
        D = np.zeros((n_of_peer, n))
        for i, (a, of_a) in enumerate(bins(queries[:n_of_peer])):
            for j, (b, of_b) in enumerate(bins(texts)):
                D[i, j] = ot.emd2(a, b, cdist(of_a, of_b))
        return D

    fewer = f"{TEXTS}, {n_of_peer} queries"
    theirs = f"POT, emd2 on words of both, {n_of_peer} queries"
    expected = peer(None)

    def differences(results):
        return {
            name: np.max(np.abs(results[name][:n_of_peer] - expected))
            for name in (TEXTS, fewer, theirs)
        }

    def extra(m: Measured) -> float:
        return (m.peak_bytes[TEXTS] - m.peak_bytes.get(NOTHING, 0)) / 1e6

    return Trial(
        [
            Side(TEXTS, lambda _: emd_distances(queries, texts, positions=places), memory=True),
            Side(NOTHING, lambda _: None, memory=True),
            Side(fewer, lambda _: emd_distances(queries[:n_of_peer], texts, positions=places)),
            Side(theirs, peer, peer=True),
        ],
        targets=[
            Target("time", lambda m: m.median(TEXTS), at_most=4, unit=" s"),
            Target("memory beyond that of the process", extra, at_most=100, unit=" MB"),
            Target("3x faster than POT, fewer queries", lambda m: m.speedup(fewer), at_least=3),
        ],
        checks=[Check("largest difference of a distance", differences, limit=1e-6)],
        note=f"{data.source}: counts of words. Embeddings are a truncated SVD of all training "
        f"messages by tf-idf, of length 1 in {places.shape[1]} dimensions.",
    )


# ---- clusters ---------------------------------------------------------------------------------

KMEANS = 'MetricKMeans(metric="sinkhorn")'
KMEANS_PEER = "by hand with POT, one round from our centres"


@row("sinkhorn-kmeans", "Clusters by transport, 300 images of 14 x 14 pixels, 5 centres")
def kmeans(quick: bool) -> Trial:
    """All rounds, beside one round by hand from the centres that were found."""
    import ot

    side, n, n_clusters = (7, 30, 3) if quick else (14, 300, 5)
    pixels, source = _data.pixels(n)
    step = 28 // side
    X = pixels.reshape(n, side, step, side, step).sum(axis=(2, 4)).reshape(n, -1)
    X += 1e-3 * X.mean()
    X /= X.sum(axis=1, keepdims=True)
    M = grid_ground_distance((side, side), spacing=1 / (side - 1), power=2)
    reg = 0.01
    model = MetricKMeans(
        n_clusters, metric="sinkhorn", metric_params={"M": M, "reg": reg}, random_state=0
    )
    found = model.fit(X).cluster_centers_
    columns = np.ascontiguousarray(X.T)

    def theirs(_: Any) -> Matrix:
        options: dict[str, Any] = {"stopThr": 1e-3, "numItermax": 300, "warn": False}
        D = [ot.sinkhorn2(centre, columns, M, reg, **options) for centre in found]
        labels = np.argmin(D, axis=0)
        centres = found.copy()
        for k in np.unique(labels):
            own = np.ascontiguousarray(columns[:, labels == k])
            centres[k] = ot.bregman.barycenter(own, M, reg, **options)
        return centres

    def inertia(centres: Matrix) -> float:
        return float(sinkhorn_distances(X, centres, M=M, reg=reg).min(axis=1).sum())

    def beside_ours(results):
        return {name: total / results[KMEANS] - 1 for name, total in results.items()}

    return Trial(
        [
            Side(KMEANS, lambda _: model.fit(X).cluster_centers_, digest=inertia),
            Side(KMEANS_PEER, theirs, digest=inertia, peer=True),
        ],
        targets=[
            Target("time", lambda m: m.median(KMEANS), at_most=5, unit=" s"),
            Target(
                "a round, times faster than by hand",
                lambda m: m.speedup(KMEANS) * model.n_iter_,
                at_least=1,
            ),
        ],
        checks=[Check("sum of distances over ours, minus 1", beside_ours, limit=0.05)],
        note=f"{source}; 2 x 2 pixels are added. Squared Euclidean cost of an image of side 1, "
        f"regularisation {reg:g}, {model.n_iter_} rounds, one start.",
    )
