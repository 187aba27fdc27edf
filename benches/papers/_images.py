"""Descriptors of photographs: Caltech-101, or, to be quick, scikit-learn's digits."""

import io
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import uniform_filter, zoom
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA

from benches._data import data_folder
from benches.papers._experiment import FILES, Run
from histrs.descriptors import BagOfVisualWords, FisherVector

Grey = NDArray[np.float32]
CALTECH = (
    "Caltech-101 (L. Fei-Fei, R. Fergus and P. Perona, 2004), photographs of 128 pixels, at most "
    "130 a class"
)
# Photographs of a class that are looked at: airplanes and motorbikes have 800.
MOST = 130
_DIRECTIONS, _CELL, _STRIDE = 8, 4, 6


class Described(NamedTuple):
    """Descriptors of images, a row each, and the classes."""

    X: NDArray[Any]
    y: NDArray[np.intp]
    names: NDArray[Any]


def largest(data: Described, n_classes: int) -> Described:
    """Return the images of the classes that have most."""
    counts = np.bincount(data.y)
    kept = np.sort(np.argsort(-counts, kind="stable")[:n_classes])
    rows = np.flatnonzero(np.isin(data.y, kept))
    return Described(data.X[rows], np.searchsorted(kept, data.y[rows]), data.names[kept])


def per_class(
    y: NDArray[Any], n_train: int, n_test: int, seed: int
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return rows to train and to test with: so many of each class, fewer to test where few are."""
    rng = np.random.default_rng(seed)
    train, test = [], []
    for k in np.unique(y):
        rows = rng.permutation(np.flatnonzero(y == k))
        train.append(rows[:n_train])
        test.append(rows[n_train : n_train + n_test])
    return np.concatenate(train), np.concatenate(test)


# ---- photographs ----------------------------------------------------------------------------


def labels(run: Run) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[Any]]:
    """Return which images are looked at, their classes, and the names of these."""
    if run.quick:
        y = load_digits().target
        rows = np.concatenate([np.flatnonzero(y == k)[:24] for k in range(10)])
        return rows, y[rows], np.arange(10).astype(str)
    with np.load(data_folder() / FILES["caltech101"]) as stored:
        y, names = stored["y"], stored["classes"].astype(str)
    rng = np.random.default_rng(0)
    kept = [k for k in range(len(names)) if "background" not in names[k].lower()]
    rows = np.sort(np.concatenate([rng.permutation(np.flatnonzero(y == k))[:MOST] for k in kept]))
    return rows, np.searchsorted(kept, y[rows]), names[kept]


def grey_images(run: Run) -> Iterator[Grey]:
    """Yield the images, grey, from 0 to 1."""
    rows = labels(run)[0]
    if run.quick:
        for image in load_digits().images[rows]:
            yield np.asarray(zoom(image / 16, 4, order=1), dtype=np.float32)
        return
    from PIL import Image

    with np.load(data_folder() / FILES["caltech101"]) as stored:
        jpeg, offsets = stored["jpeg"], stored["offsets"]
    for i in rows:
        file = io.BytesIO(jpeg[offsets[i] : offsets[i + 1]].tobytes())
        yield np.asarray(Image.open(file).convert("L"), dtype=np.float32) / 255


def energy(image: Grey) -> NDArray[np.float32]:
    """Return how much gradient each pixel has in each of eight directions, shared linearly."""
    down, right = np.gradient(image)
    direction = np.arctan2(down, right) * (_DIRECTIONS / (2 * np.pi)) % _DIRECTIONS
    first = direction.astype(np.intp)
    share, length = direction - first, np.hypot(down, right)
    found = np.zeros((*image.shape, _DIRECTIONS), dtype=np.float32)
    for index, weight in ((first, 1 - share), (first + 1, share)):
        index = index[..., None] % _DIRECTIONS
        old = np.take_along_axis(found, index, axis=2)
        np.put_along_axis(found, index, old + (weight * length)[..., None], axis=2)
    return found


# ---- local features -------------------------------------------------------------------------


def local(image: Grey) -> NDArray[np.float32]:
    """Return position and gradient histograms of 4 x 4 cells, as SIFT has them, of a dense grid."""
    sums = np.maximum(uniform_filter(energy(image), (_CELL, _CELL, 0), mode="nearest"), 0)
    span = 4 * _CELL
    tops, lefts = (np.arange(0, max(n - span, 0) + 1, _STRIDE) for n in image.shape)
    within = np.minimum(np.arange(4) * _CELL + _CELL // 2, min(image.shape) - 1)
    down, right = tops[:, None] + within, lefts[:, None] + within
    patches = sums[down[:, None, :, None], right[None, :, None, :]]
    patches = patches.reshape(len(tops) * len(lefts), -1)
    # Faint patches stay faint; square roots of shares, as is usual today.
    patches = np.sqrt(patches / (patches.sum(axis=1, keepdims=True) + 0.2))
    places = np.stack(np.meshgrid(tops, lefts, indexing="ij"), axis=-1).reshape(-1, 2) + span / 2
    return np.hstack([places / image.shape, patches]).astype(np.float32)


def _sampled(run: Run, n: int) -> list[NDArray[np.float32]]:
    """Return local features of some images, for codebooks."""
    some = set(np.random.default_rng(1).permutation(len(labels(run)[0]))[:n].tolist())
    return [local(image) for i, image in enumerate(grey_images(run)) if i in some]


def _reducer(run: Run, n_columns: int) -> PCA:
    sample = np.concatenate([f[:, 2:] for f in _sampled(run, 150)])
    return PCA(n_columns, random_state=0).fit(sample)


def _encoded(run: Run, encoder: Any, pca: PCA, kept: set[int] | None = None) -> Any:
    """Fit an encoder on some images, and encode all, or those that are kept, in parts."""

    def reduced(features: NDArray[np.float32]) -> NDArray[np.float32]:
        return np.hstack([features[:, :2], pca.transform(features[:, 2:])]).astype(np.float32)

    encoder.fit([reduced(f) for f in _sampled(run, 600)])
    found, part = [], []
    total = len(labels(run)[0])
    for i, image in enumerate(grey_images(run)):
        if kept is None or i in kept:
            part.append(reduced(local(image)))
        if part and (len(part) == 500 or i == total - 1):
            found.append(np.asarray(encoder.transform(part), dtype=np.float32))
            part = []
            run.progress(i + 1, total, "images")
    if part:
        found.append(np.asarray(encoder.transform(part), dtype=np.float32))
    return np.concatenate(found)


def words(run: Run, n_words: int = 300, pyramid: Any = (1,)) -> Described:
    """Return histograms of visual words, of every cell of a pyramid; rows sum to 1."""
    _, y, names = labels(run)
    n_words = min(n_words, 20) if run.quick else n_words

    def compute() -> dict[str, Any]:
        encoder = BagOfVisualWords(
            n_words, pyramid=pyramid, positions=True, max_samples=50_000, random_state=0
        )
        return {"X": _encoded(run, encoder, _reducer(run, 16 if run.quick else 48))}

    levels = "-".join(str(level).replace(" ", "") for level in pyramid)
    return Described(run.cached(f"words-{n_words}-{levels}", compute)["X"], y, names)


def fisher_vectors(run: Run, n_components: int, n_classes: int) -> Described:
    """Return Fisher vectors of the largest classes, of the whole image and of three stripes."""
    _, y, names = labels(run)
    n_components = 2 if run.quick else n_components
    places = largest(Described(np.arange(len(y)), y, names), n_classes)

    def compute() -> dict[str, Any]:
        encoder = FisherVector(
            n_components, pyramid=(1, (3, 1)), positions=True, max_samples=50_000, random_state=0
        )
        kept = set(places.X.tolist())
        return {"X": _encoded(run, encoder, _reducer(run, 8 if run.quick else 32), kept)}

    X = run.cached(f"fisher-{n_components}-{n_classes}", compute)["X"]
    return Described(X, places.y, places.names)


# ---- descriptors of whole images ------------------------------------------------------------


def _of_all(run: Run, describe: Any, name: str) -> Described:
    _, y, names = labels(run)
    found = run.cached(name, lambda: {"X": np.stack([describe(p) for p in grey_images(run)])})
    return Described(found["X"], y, names)


def oriented(run: Run, cells: int) -> Described:
    """Return histograms of oriented gradients in a grid of cells; rows sum to 1."""

    def describe(image: Grey) -> NDArray[np.float32]:
        found = energy(image)
        for axis in (0, 1):
            edges = np.linspace(0, image.shape[axis], cells + 1).astype(int)[:-1]
            found = np.add.reduceat(found, edges, axis=axis)
        return (found / max(found.sum(), 1e-6)).ravel().astype(np.float32)

    return _of_all(run, describe, f"oriented-{cells}")


def binary_patterns(run: Run) -> Described:
    """Return histograms of which of eight neighbours are brighter, in 2 x 2 parts; sum 1."""

    def describe(image: Grey) -> NDArray[np.float32]:
        inner = image[1:-1, 1:-1]
        code = np.zeros(inner.shape, dtype=np.intp)
        turns = [(0, 0), (0, 1), (0, 2), (1, 2), (2, 2), (2, 1), (2, 0), (1, 0)]
        for bit, (i, j) in enumerate(turns):
            shifted = image[i : i + inner.shape[0], j : j + inner.shape[1]]
            code |= (shifted > inner).astype(np.intp) << bit
        parts = [
            np.bincount(part.ravel(), minlength=256)
            for strip in np.array_split(code, 2)
            for part in np.array_split(strip, 2, axis=1)
        ]
        return (np.concatenate(parts) / code.size).astype(np.float32)

    return _of_all(run, describe, "binary-patterns")
