"""Histograms of visual words, beside scikit-learn and Faiss."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.metrics import pairwise_distances_argmin

from benches._harness import Check, Figure, Measured, Side, Target, Trial, row
from histrs.descriptors import BagOfVisualWords

try:
    import faiss
except ImportError:  # a peer less
    faiss = None

OURS, SKLEARN, FAISS = "BagOfVisualWords", "scikit-learn", "Faiss"
N_FEATURES = 128
"""As many numbers as a SIFT descriptor has."""


def _images(n: int, n_local: int) -> list[NDArray[np.float32]]:
    """Return local features like SIFT's: non-negative, of length 1, about some hundred centres."""
    rng = np.random.default_rng(0)
    centres = rng.standard_gamma(0.5, size=(400, N_FEATURES))
    features = centres[rng.integers(len(centres), size=n * n_local)]
    features = features * rng.standard_gamma(4.0, size=features.shape)
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    return list(features.astype(np.float32).reshape(n, n_local, N_FEATURES))


def _counts(nearest: NDArray[Any], images: list[Any], n_words: int) -> NDArray[np.float64]:
    ends = np.cumsum([len(image) for image in images])[:-1]
    parts = np.split(nearest, ends)
    return np.array([np.bincount(part, minlength=n_words) for part in parts], dtype=np.float64)


@row("words-assign", "Bags of 1,000 visual words of 128 columns, float32")
def assign(quick: bool) -> Trial:
    """Count the words of images."""
    n, n_local, n_words = (4, 100, 20) if quick else (100, 500, 1000)
    images = _images(n, n_local)
    stacked = np.concatenate(images)
    model = BagOfVisualWords(n_words, norm=None, max_samples=20_000, random_state=0)
    # Rows at random are words as good as any to be counted.
    chosen = np.random.default_rng(1).choice(len(stacked), n_words, replace=False)
    model.fit(stacked[None, chosen])
    words = np.ascontiguousarray(model.words_)

    def sklearn(_: Any) -> NDArray[np.float64]:
        return _counts(pairwise_distances_argmin(stacked, words), images, n_words)

    sides = [Side(OURS, lambda _: model.transform(images)), Side(SKLEARN, sklearn, peer=True)]
    targets = [
        Target("3x faster than scikit-learn", lambda m: m.speedup(OURS, SKLEARN), at_least=3)
    ]
    if faiss is not None:
        index = faiss.IndexFlatL2(N_FEATURES)
        index.add(words)

        def search(_: Any) -> NDArray[np.float64]:
            return _counts(index.search(stacked, 1)[1][:, 0], images, n_words)

        sides.append(Side(FAISS, search, peer=True))
        targets.append(Target("3x faster than Faiss", lambda m: m.speedup(OURS, FAISS), at_least=3))
    exact = _counts(
        pairwise_distances_argmin(stacked.astype(np.float64), words.astype(np.float64)),
        images,
        n_words,
    )

    def moved(results):
        return {
            name: float(np.abs(counts - exact).sum() / 2 / len(stacked))
            for name, counts in results.items()
        }

    return Trial(
        sides,
        targets=targets,
        # Words that are equally near to seven digits.
        checks=[Check("fraction of features with another word than in float64", moved, limit=1e-3)],
        figures=lambda m: [
            Figure(f"{side.name}: a feature", m.median(side.name) / len(stacked) * 1e6, "us")
            for side in sides
        ],
        note=f"{n} images of {n_local} local features, synthetic, {n_words:,} words. The peers "
        "are given all features as one array.",
    )


@row("words-fit", "Learning 500 visual words of 128 columns, float32")
def learn(quick: bool) -> Trial:
    """Find the words by k-means."""
    n, n_words = (500, 10) if quick else (20_000, 500)
    stacked = _images(1, n)[0]
    double = stacked.astype(np.float64)

    def ours(_: Any) -> NDArray[Any]:
        return BagOfVisualWords(n_words, random_state=0).fit(stacked[None]).words_

    def inertia(words: Any) -> float:
        words = np.asarray(words, dtype=np.float64)
        nearest = pairwise_distances_argmin(double, words)
        return float(np.sum((double - words[nearest]) ** 2))

    n_iter = KMeans(n_words, n_init=1, random_state=0).fit(stacked).n_iter_
    sides = [
        Side(OURS, ours, digest=inertia),
        Side(
            SKLEARN,
            lambda _: KMeans(n_words, n_init=1, random_state=1).fit(stacked).cluster_centers_,
            digest=inertia,
            peer=True,
        ),
    ]
    if faiss is not None:

        def peer(_: Any) -> NDArray[Any]:
            means = faiss.Kmeans(N_FEATURES, n_words, niter=n_iter, seed=1)
            # As many rows a word as there are; the default draws a sample.
            means.cp.max_points_per_centroid = len(stacked)
            means.train(stacked)
            return np.asarray(means.centroids)

        sides.append(Side(FAISS, peer, digest=inertia, peer=True))

    def worse(inertias):
        least = min(inertias.values())
        return {name: found / least - 1 for name, found in inertias.items()}

    def figures(m: Measured):
        return [Figure(f"{side.name}: inertia", m.digests[side.name]) for side in sides]

    return Trial(
        sides,
        targets=[Target("3x faster than the fastest peer", lambda m: m.speedup(OURS), at_least=3)],
        checks=[Check("inertia above the least", worse, limit=0.5 if quick else 0.02)],
        figures=figures,
        note=f"{len(stacked):,} local features, synthetic, {n_words} words. Faiss makes the "
        f"{n_iter} iterations that scikit-learn needs, from rows at random.",
    )
