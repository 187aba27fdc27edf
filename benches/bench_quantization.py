"""Product quantisation: encoding and search beside Faiss, learning on codes beside rows."""

from collections.abc import Callable
from functools import cache, partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import average_precision_score
from sklearn.svm import LinearSVC

from benches import _data
from benches._harness import Check, Figure, Measured, Side, Table, Target, Trial, row
from benches._peers import N_THREADS
from benches.immediate import ImmediateSVC
from histrs import _histrs
from histrs.quantization import CodeNeighbors, ProductQuantizer
from histrs.svm import BundleSVC

try:
    import faiss
except ImportError:
    faiss = None

OURS = "ProductQuantizer"
PEER = "Faiss"
DELAYED = "delayed expansion"
IMMEDIATE = "immediate expansion"
LINEAR = "LinearSVC, raw rows"
POSITIVE = 6
"""The class that two-class problems are about: shirts, the hardest one of Fashion-MNIST."""

SEARCH = "CodeNeighbors"
INDEX_PQ = "Faiss IndexPQ"
FAST_SCAN = "Faiss IndexPQFastScan"
LISTS = "Faiss IndexIVFPQ + IndexRefineFlat"
N_NEIGHBORS = 10


class Searched(NamedTuple):
    """Rows to be found, queries, and where they are from."""

    X: NDArray[np.float32]
    queries: NDArray[np.float32]
    source: str


# ---- encoding -------------------------------------------------------------------------------


@row("pq-encode", "Encoding by product quantisation, 8 columns a block")
def encode(quick: bool) -> Trial:
    """The nearest of 256 codewords; both sides have the same codebooks."""
    n, n_blocks = (1000, 4) if quick else (100_000, 96)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 8 * n_blocks)).astype(np.float32)
    codebooks = rng.standard_normal((n_blocks, 256, 8)).astype(np.float32)
    offsets = 8 * np.arange(n_blocks + 1, dtype=np.int64)

    def ours(_: Any) -> Any:
        return _histrs.quantization_encode(X, codebooks, offsets, "euclidean", False, N_THREADS)

    def distortion(codes: Any) -> float:
        decoded = codebooks[np.arange(n_blocks), codes[:1000]].reshape(-1, 8 * n_blocks)
        return float(np.sum((decoded.astype(np.float64) - X[:1000]) ** 2))

    sides = [Side(OURS, ours, digest=distortion)]
    if faiss is not None:
        peer = faiss.ProductQuantizer(8 * n_blocks, n_blocks, 8)
        faiss.copy_array_to_vector(codebooks.ravel(), peer.centroids)
        sides.append(Side(PEER, lambda _: peer.compute_codes(X), digest=distortion, peer=True))
    return Trial(
        sides,
        targets=[Target("as fast as Faiss", lambda m: m.speedup(OURS), at_least=1)],
        checks=[
            Check(
                "difference of the distortion, relative to the least",
                lambda found: {k: v / min(found.values()) - 1 for k, v in found.items()},
                limit=1e-6,
            )
        ],
        figures=lambda m: [Figure("a code", m.median(OURS) / (n * n_blocks) * 1e9, "ns")],
        note=f"{n:,} x {8 * n_blocks} float32, {n_blocks} blocks of 256 codewords.",
    )


# ---- search ---------------------------------------------------------------------------------


def _recall(X: Any, queries: Any) -> Callable[[Any], float]:
    """Return a function of rows that were found: the part of the nearest among them."""
    squares = (X.astype(np.float64) ** 2).sum(axis=1)
    nearest = np.argsort(squares - 2 * (queries @ X.T), axis=1)[:, :N_NEIGHBORS]

    def recall(rows: Any) -> float:
        found = [len(np.intersect1d(*pair)) for pair in zip(rows, nearest, strict=True)]
        return float(np.mean(found)) / N_NEIGHBORS

    return recall


def search(quick: bool, *, data: Callable[[bool], Searched], n_bytes: int) -> Trial:
    """The ten nearest rows of each query, by codes of the same size."""
    X, queries, source = data(quick)
    n_codes, n_columns = 16 if quick else 256, X.shape[1]
    recall = _recall(X, queries)

    def ours(name: str, **parameters: Any) -> Side:
        n_blocks = n_bytes // parameters.get("n_levels", 1)
        pq = ProductQuantizer(n_blocks, n_codes, max_iter=10, random_state=0, **parameters)
        index = CodeNeighbors(pq, N_NEIGHBORS, n_jobs=N_THREADS).fit(X)
        return Side(name, lambda _: index.kneighbors(queries, return_distance=False), digest=recall)

    sides = [ours(SEARCH), ours("residual levels", n_levels=2)]
    if not quick:
        sides.append(ours("rotation", rotation="opq"))
    if faiss is not None:
        n_bits = int(np.log2(n_codes))
        peers = {INDEX_PQ: faiss.IndexPQ(n_columns, n_bytes, n_bits)}
        if n_columns % (2 * n_bytes) == 0 and not quick:
            peers[FAST_SCAN] = faiss.IndexPQFastScan(n_columns, 2 * n_bytes, 4)
        for name, index in peers.items():
            index.train(X[:16384])
            index.add(X)
            run = partial(_searched, index=index, queries=queries)
            # The fast scan finds fewer: it is shown, not raced.
            sides.append(Side(name, run, digest=recall, peer=name == INDEX_PQ))

    def table(m: Measured) -> Table:
        rows = [[s.name, m.digests[s.name], len(queries) / m.median(s.name)] for s in sides]
        return Table(["", "recall of the ten nearest", "queries a second"], rows)

    return Trial(
        sides,
        targets=[Target("as fast as Faiss", lambda m: m.speedup(SEARCH), at_least=1)],
        table=table,
        note=f"{source}. {len(X):,} rows, {len(queries):,} queries, {n_bytes} bytes a row for all; "
        f"{FAST_SCAN} has two codes of 4 bits a byte, the others one of 8. "
        "Without Faiss (extra bench) its lines are missing.",
    )


@row("pq-search-ranked", "Ten nearest of 60,000 images, lists and exact distances of candidates")
def ranked(quick: bool) -> Trial:
    """Lists by codes of 16 bytes, then candidates by rows: times at nearly equal recall."""
    X, queries, source = _searched_images(quick)
    n_codes, n_lists = (16, 8) if quick else (256, 256)
    recall = _recall(X, queries)
    pq = ProductQuantizer(16, n_codes, max_iter=10, random_state=0)
    options: dict[str, Any] = {"n_lists": n_lists, "n_probes": 8, "rerank": 100}
    ours = CodeNeighbors(pq, N_NEIGHBORS, n_jobs=N_THREADS, **options).fit(X)
    found = partial(ours.kneighbors, queries, return_distance=False)
    sides = [Side(SEARCH, lambda _: found(), digest=recall)]
    if faiss is not None:
        d = X.shape[1]
        lists = faiss.IndexIVFPQ(faiss.IndexFlatL2(d), d, n_lists, 16, int(np.log2(n_codes)))
        lists.train(X[:16384])
        lists.add(X)
        lists.nprobe = 8
        index = faiss.IndexRefineFlat(lists, faiss.swig_ptr(X))
        index.k_factor = 10
        run = partial(_searched, index=index, queries=queries)
        sides.append(Side(LISTS, run, digest=recall, peer=True))
    targets = [Target("as fast as Faiss", lambda m: m.speedup(SEARCH), at_least=1)]
    if faiss is not None:
        targets.append(
            Target(
                "recall of the ten nearest, over that of Faiss",
                lambda m: m.digests[SEARCH] / m.digests[LISTS],
                at_least=1,
            )
        )
    return Trial(
        sides,
        targets=targets,
        figures=lambda m: [Figure(f"recall, {name}", m.digests[name]) for name in m.digests],
        checks=[Check("recall lost", lambda recalls: {k: 1 - r for k, r in recalls.items()}, 0.1)]
        if not quick
        else [],
        note=f"{source}. {len(X):,} rows, {len(queries):,} queries, {n_lists} lists of which 8 are "
        "looked into, 100 candidates. Without Faiss (extra bench) its line is missing.",
    )


def _searched(_: Any, index: Any, queries: Any) -> Any:
    return index.search(queries, N_NEIGHBORS)[1]


def _searched_images(quick: bool) -> Searched:
    n, n_queries = (500, 20) if quick else (60_000, 2000)
    data = _images(n, n_queries)
    return Searched(data.X, data.X_test, data.source)


def _searched_letters(quick: bool) -> Searched:
    n, n_queries = (500, 20) if quick else (18_000, 2000)
    found = _data.letters()
    if found is None:
        values = np.random.default_rng(0).standard_gamma(2.0, size=(20_000, 16))
        source = "synthetic, gamma-distributed; no letters"
    else:
        values, source = found
    X = values.astype(np.float32)
    return Searched(X[:n], X[-n_queries:], source)


row("pq-search", "Ten nearest of 60,000 images, 16 bytes a row")(
    partial(search, data=_searched_images, n_bytes=16)
)
row("pq-search-letters", "Ten nearest of 18,000 letters, 4 bytes a row")(
    partial(search, data=_searched_letters, n_bytes=4)
)


# ---- learning -------------------------------------------------------------------------------


class Images(NamedTuple):
    """Square roots of histograms of pixels, in float32."""

    X: NDArray[np.float32]
    y: NDArray[Any]
    X_test: NDArray[np.float32]
    y_test: NDArray[Any]
    source: str


@cache
def _images(n: int, n_test: int) -> Images:
    """Fashion-MNIST, and the same images mirrored where more rows are asked for."""
    classes = _data.fashion_classes(n, n_test) or _data.gamma_classes(n, 784, n_test)
    X, y = classes.X, classes.y
    source = classes.source
    if len(X) < n:
        mirrored = X.reshape(-1, 28, 28)[:, :, ::-1].reshape(-1, 784)[: n - len(X)]
        X, y = np.concatenate([X, mirrored]), np.concatenate([y, y[: n - len(X)]])
        source += f"; {n - len(classes.X):,} images once more, mirrored"
    roots = [np.sqrt(part).astype(np.float32) for part in (X, classes.X_test)]
    return Images(roots[0], y, roots[1], classes.y_test, source)


@cache
def _quantizer(n: int, n_test: int, n_blocks: int, n_codes: int) -> ProductQuantizer:
    pq = ProductQuantizer(n_blocks, n_codes, max_samples=8192, max_iter=10, random_state=0)
    return pq.fit(_images(n, n_test).X)


def _mean_average_precision(scores: NDArray[Any], y: NDArray[Any]) -> float:
    """Return the mean over the classes of the area under precision against recall."""
    if scores.ndim == 1:
        return float(average_precision_score(y, scores))
    return float(np.mean([average_precision_score(y == k, s) for k, s in enumerate(scores.T)]))


def expansion(quick: bool, *, n_blocks: int, all_classes: bool, alpha: float, tol: float) -> Trial:
    """The same problem on the same codes to the same gap."""
    n, n_test = (2000, 500) if quick else (100_000, 10_000)
    data = _images(n, n_test)
    pq = _quantizer(n, n_test, n_blocks, 256)
    codes = pq.transform(data.X)
    y = data.y if all_classes else data.y == POSITIVE

    def fit(model_class: type[BundleSVC]) -> BundleSVC:
        return model_class(pq, alpha=alpha, tol=tol, input="features").fit(codes, y)

    sides = [
        Side(DELAYED, lambda _: fit(BundleSVC)),
        Side(IMMEDIATE, lambda _: fit(ImmediateSVC), peer=True),
    ]

    def differences(models: dict[str, Any]) -> dict[str, float]:
        least = min(np.sum(m.objective_) for m in models.values())
        return {name: float(np.sum(m.objective_) / least - 1) for name, m in models.items()}

    return Trial(
        sides,
        targets=[Target("10x faster than immediate", lambda m: m.speedup(DELAYED), at_least=10)],
        checks=[Check("objective above the least", differences, limit=tol)],
        figures=lambda m: [
            Figure("passes, delayed", m.digests[DELAYED].n_iter_),
            Figure("passes, immediate", m.digests[IMMEDIATE].n_iter_),
            Figure("a pass, delayed", m.median(DELAYED) / m.digests[DELAYED].n_iter_ * 1e3, "ms"),
        ],
        note=f"{data.source}. {n:,} rows of {784 / n_blocks:.0f} columns a block, 256 codewords, "
        f"{'ten classes' if all_classes else 'one class against the rest'}, alpha = {alpha:g}, "
        f"certified gap below {tol:g} of the objective.",
    )


row("delayed-expansion", "Delayed expansion, two classes, 16 columns a block")(
    partial(expansion, n_blocks=49, all_classes=False, alpha=1e-5, tol=1e-2)
)
row("delayed-expansion-8", "Delayed expansion, two classes, 8 columns a block")(
    partial(expansion, n_blocks=98, all_classes=False, alpha=1e-5, tol=1e-2)
)
row("delayed-expansion-classes", "Delayed expansion, ten classes, 16 columns a block")(
    partial(expansion, n_blocks=49, all_classes=True, alpha=1e-5, tol=1e-2)
)


@row("pq-training", "Training on codes of a 40th of the size")
def training(quick: bool) -> Trial:
    """A linear SVM of 78 bytes a row, beside one of the rows themselves."""
    n, n_test = (2000, 500) if quick else (100_000, 10_000)
    data = _images(n, n_test)
    pq = _quantizer(n, n_test, 78, 256)
    codes, codes_test = pq.transform(data.X), pq.transform(data.X_test)
    y, y_test = data.y == POSITIVE, data.y_test == POSITIVE
    alpha = 1e-5
    settings = {"loss": "hinge", "C": 1 / (alpha * n), "tol": 0.1, "random_state": 0}

    def ours(_: Any) -> tuple[float, int]:
        model = BundleSVC(pq, alpha=alpha, tol=1e-2, input="features").fit(codes, y)
        return _mean_average_precision(model.decision_function(codes_test), y_test), codes.nbytes

    def theirs(_: Any) -> tuple[float, int]:
        model = LinearSVC(**settings, max_iter=50).fit(data.X, y)
        return _mean_average_precision(model.decision_function(data.X_test), y_test), data.X.nbytes

    def points(m: Measured) -> float:
        return 100 * (m.digests[LINEAR][0] - m.digests[DELAYED][0])

    return Trial(
        [Side(DELAYED, ours, memory=True), Side(LINEAR, theirs, peer=True, memory=True)],
        targets=[
            Target("5x faster", lambda m: m.speedup(DELAYED), at_least=5),
            Target("points of average precision lost", points, at_most=1, unit=""),
            Target(
                "rows smaller, times",
                lambda m: m.digests[LINEAR][1] / m.digests[DELAYED][1],
                at_least=40,
            ),
        ],
        figures=lambda m: [
            Figure(f"average precision, {name}", m.digests[name][0]) for name in (DELAYED, LINEAR)
        ],
        note=f"{data.source}. {n:,} x 784 float32, one class against the rest, alpha = {alpha:g}. "
        "Codes are made before the measurement; encoding is a benchmark of its own. The peer's "
        "tolerance is loose (0.1, at most 50 epochs), which favours its time.",
    )


@row("pq-figure", "Precision, memory and time by block size and number of codes")
def figure(quick: bool) -> Trial:
    """What the paper draws as its figure 2, with one side for each point."""
    n, n_test = (1000, 500) if quick else (10_000, 5000)
    # 784 single-precision numbers in 78 bytes are a 40th.
    blocks, counts = ((78,), (16,)) if quick else ((196, 78, 39, 19), (16, 64, 256))
    data = _images(n, n_test)
    plain, sides, memory = "rows", [], {"rows": data.X.nbytes / 2**20}
    settings: dict[str, Any] = {"alpha": 1e-5, "tol": 5e-2}

    def fit(_: Any, how: str, pq: ProductQuantizer, codes: Any) -> BundleSVC:
        model_class = BundleSVC if how == "delayed" else ImmediateSVC
        return model_class(pq, input="features", **settings).fit(codes, data.y)

    def precision(model: BundleSVC, X: Any) -> float:
        return _mean_average_precision(model.decision_function(X), data.y_test)

    for n_blocks, n_codes in product(blocks, counts):
        pq = _quantizer(n, n_test, n_blocks, n_codes)
        codes, codes_test = pq.transform(data.X), pq.transform(data.X_test)
        for how in ("delayed", "immediate"):
            name = f"{n_blocks}, {n_codes}, {how}"
            memory[name] = codes.nbytes / 2**20
            sides.append(
                Side(
                    name,
                    partial(fit, how=how, pq=pq, codes=codes),
                    digest=partial(precision, X=codes_test),
                    peer=how == "immediate",
                )
            )
    sides.append(
        Side(
            plain,
            lambda _: BundleSVC(**settings).fit(data.X, data.y),
            digest=partial(precision, X=data.X_test),
            peer=True,
        )
    )
    fortieth = f"78, {counts[-1]}, delayed"

    def table(m: Measured) -> Table:
        rows = [
            [side.name, 100 * m.digests[side.name], memory[side.name], m.median(side.name)]
            for side in sides
        ]
        return Table(["blocks, codes, expansion", "mAP, %", "MB", "s"], rows)

    return Trial(
        sides,
        targets=[
            Target(
                "points of mAP lost at a 40th of the size",
                lambda m: 100 * (m.digests[plain] - m.digests[fortieth]),
                at_most=1,
                unit="",
            )
        ],
        table=table,
        note=f"{data.source}. {n:,} rows, ten classes, alpha = 1e-5, certified gap below 5% of the "
        "objective. A code takes a byte. The last line is the same solver on the rows.",
    )
