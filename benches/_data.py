"""The data that is measured on: synthetic of three kinds, and Fashion-MNIST when it is there."""

import gzip
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn import datasets

from benches._harness import ROOT
from histrs.gaussian_process.kernels import Intersection

# The kernel and the scores of the paper, which the peers compute.
PLAIN: dict[str, Any] = {"feature_weights": None, "intercept_variance": 0.0}
KERNEL: dict[str, Any] = {"kernel": Intersection(**PLAIN)}
PAPER = {**KERNEL, "calibration": None}

FASHION_MNIST = (
    "Fashion-MNIST (H. Xiao, K. Rasul and R. Vollgraf, 2017, MIT licence), from `HISTRS_DATA`"
)


def data_folder() -> Path:
    """Return where real data is looked for."""
    return Path(os.environ.get("HISTRS_DATA", ROOT.parent / "shared" / "data"))


def numbers(source: str) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the columns and the target of a table of scikit-learn or of the folder.

    Raises
    ------
    FileNotFoundError
        If the folder is not there.
    """
    package, item = source.split("/")
    if package == "sklearn":
        X, y = getattr(datasets, f"load_{item}")(return_X_y=True)
        return X, y
    if package == "pmlb":
        with gzip.open(data_folder() / package / f"{item}.tsv.gz", "rt") as lines:
            values = np.loadtxt(lines, skiprows=1)
        return values[:, :-1], values[:, -1]
    with np.load(data_folder() / package / f"{item}.npz") as z:
        return z["X"].astype(np.float64), z["y"].reshape(-1)


def _small(*sources: str) -> dict[str, Callable[[], tuple[NDArray[Any], NDArray[Any]]]]:
    return {
        source.split("/")[1].replace("_cancer", " cancer"): lambda source=source: numbers(source)
        for source in sources
    }


# Tables of at most some thousand rows.
REGRESSION = _small(
    "sklearn/diabetes",
    *(f"tables/{name}" for name in ("airfoil", "concrete", "energy", "yacht", "wine-quality-red")),
)
CLASSES = _small(
    *(f"sklearn/{name}" for name in ("breast_cancer", "digits", "iris", "wine")),
    *(f"tables/{name}" for name in ("sonar", "ionosphere", "pima-indians-diabetes", "german")),
    *(f"pmlb/{name}" for name in ("satimage", "letter", "mfeat_pixel", "analcatdata_authorship")),
)


def gamma_values(n_rows: int, n_columns: int) -> NDArray[np.float64]:
    """Return continuous values, all different."""
    return np.random.default_rng(0).standard_gamma(2.0, size=(n_rows, n_columns))


def sparse_values(n_rows: int, n_columns: int, density: float = 0.1) -> sparse.csr_array:
    """Return continuous values at random places, as CSR."""
    rng = np.random.default_rng(0)
    parts = []
    for start in range(0, n_rows, 10_000):
        kept = rng.random((min(10_000, n_rows - start), n_columns), dtype=np.float32) < density
        rows, columns = np.nonzero(kept)
        values = rng.standard_gamma(2.0, size=len(rows))
        parts.append(sparse.csr_array((values, (rows, columns)), shape=kept.shape))
    return sparse.csr_array(sparse.vstack(parts, format="csr"))


def pixels(n_rows: int) -> tuple[NDArray[np.float64], str]:
    """Return images of 784 pixels from 0 to 255, and where they are from."""
    images = fashion_images("train")
    if images is not None:
        return images[0][:n_rows].astype(np.float64), FASHION_MNIST
    rng = np.random.default_rng(0)
    kept = rng.random((n_rows, 784)) < 0.5
    values = np.where(kept, rng.integers(1, 256, size=kept.shape), 0)
    return values.astype(np.float64), "synthetic pixels, half of them 0; no Fashion-MNIST"


class Classes:
    """Histograms of ten classes, to train and to test with; rows sum to 1."""

    def __init__(self, X: Any, y: Any, X_test: Any, y_test: Any, source: str) -> None:
        self.X, self.y, self.X_test, self.y_test = X, y, X_test, y_test
        self.source = source

    @property
    def targets(self) -> NDArray[np.float64]:
        """Return +1 for the class of a row, and -1 for the nine others."""
        return np.where(self.y[:, None] == np.unique(self.y), 1.0, -1.0)


def gamma_classes(n_train: int, n_columns: int, n_test: int, density: float = 1.0) -> Classes:
    """Return histograms, each class with its own mean; CSR when the density is below 1."""
    rng = np.random.default_rng(0)
    n = n_train + n_test
    y = rng.permutation(np.arange(n) % 10)
    profile = 1.0 + 0.2 * rng.standard_gamma(1.0, size=(10, n_columns))
    X = rng.standard_gamma(profile[y])
    if density < 1.0:
        X[rng.random(X.shape) >= density] = 0.0
    X /= X.sum(axis=1, keepdims=True)
    X_train, X_test = X[:n_train], X[n_train:]
    if density < 1.0:
        X_train, X_test = sparse.csr_array(X_train), sparse.csr_array(X_test)
    source = "synthetic, gamma-distributed, a mean for each class and column"
    return Classes(X_train, y[:n_train], X_test, y[n_train:], source)


def bags_of_words(n_train: int, n_words: int, n_classes: int, n_test: int) -> Classes:
    """Return shares of words in texts of 150, half of them by class, as CSR."""
    length = 150
    rng = np.random.default_rng(0)
    n = n_train + n_test
    y = rng.permutation(np.arange(n) % n_classes)
    own = rng.standard_gamma(0.5, size=(n_classes, n_words))
    common = rng.standard_gamma(1.0, size=n_words)
    rates = 0.5 * own / own.sum(axis=1, keepdims=True) + 0.5 * common / common.sum()
    cumulative = np.cumsum(rates, axis=1)
    words = np.empty((n, length), dtype=np.int32)
    for k in range(n_classes):
        rows = np.flatnonzero(y == k)
        drawn = np.searchsorted(cumulative[k], rng.random((len(rows), length)))
        words[rows] = np.minimum(drawn, n_words - 1)
    X = sparse.csr_array(
        (np.full(words.size, 1.0 / length), words.ravel(), np.arange(0, words.size + 1, length)),
        shape=(n, n_words),
    )
    X.sum_duplicates()
    source = "synthetic, texts of 150 words, half of them from the rates of their class"
    return Classes(X[:n_train], y[:n_train], X[n_train:], y[n_train:], source)


def fashion_classes(n_train: int, n_test: int) -> Classes | None:
    """Return Fashion-MNIST, or None when it is not there."""
    train, test = fashion_images("train"), fashion_images("t10k")
    if train is None or test is None:
        return None
    X, X_test = (
        values[:n] / values[:n].sum(axis=1, keepdims=True, dtype=np.float64)
        for values, n in ((train[0], n_train), (test[0], n_test))
    )
    return Classes(X, train[1][:n_train], X_test, test[1][:n_test], FASHION_MNIST)


def named_classes(kind: str, n_train: int, n_columns: int, n_test: int, quick: bool) -> Classes:
    """Return the data that the title of a row promises; other data only to see that it works."""
    if kind == "fashion":
        found = fashion_classes(n_train, n_test)
        if found is not None:
            return found
        if not quick:
            raise FileNotFoundError(
                f"no Fashion-MNIST in {data_folder()}: set HISTRS_DATA to its folder"
            )
    return gamma_classes(n_train, n_columns, n_test, 0.1 if kind == "sparse" else 1.0)


LETTERS = "letter (P. W. Frey and D. J. Slate, 1991), from `HISTRS_DATA`"


def letters() -> tuple[NDArray[np.float64], str] | None:
    """Return sixteen numbers of each of 20,000 images of letters, shuffled, and their source."""
    path = data_folder() / "pmlb" / "letter.tsv.gz"
    if not path.is_file():
        return None
    with gzip.open(path, "rt") as lines:
        table = np.loadtxt(lines, skiprows=1)
    rows = np.random.default_rng(0).permutation(len(table))
    return table[rows, :-1], LETTERS


def fashion_images(part: str) -> tuple[NDArray[np.uint8], NDArray[np.uint8]] | None:
    """Return the pixels and labels of "train" or "t10k", or None when they are not there."""
    path = data_folder() / "fashion_mnist"
    try:
        with gzip.open(path / f"{part}-images-idx3-ubyte.gz") as file:
            images = np.frombuffer(file.read(), np.uint8, offset=16).reshape(-1, 784)
        with gzip.open(path / f"{part}-labels-idx1-ubyte.gz") as file:
            labels = np.frombuffer(file.read(), np.uint8, offset=8)
    except FileNotFoundError:
        return None
    return images, labels


class Additive:
    """Regression on a smooth additive function of uniform features, plus noise."""

    noise = 0.3
    """Its standard deviation."""

    def __init__(self, n_columns: int) -> None:
        rng = np.random.default_rng(0)
        self._amplitude = rng.standard_gamma(2.0, size=n_columns)
        self._amplitude /= np.sqrt(np.sum(self._amplitude**2) / 2)  # variance 1
        self._frequency = rng.uniform(0.5, 2.0, size=n_columns)
        self._phase = rng.uniform(0.0, 1.0, size=n_columns)

    def sample(self, n_rows: int, seed: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return features and noisy targets."""
        rng = np.random.default_rng(seed)
        X = rng.random((n_rows, len(self._phase)))
        y = self(X)
        y += self.noise * rng.standard_normal(n_rows)
        return X, y

    def __call__(self, X: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the function itself."""
        y = np.zeros(len(X))
        for column, a, f, p in zip(X.T, self._amplitude, self._frequency, self._phase, strict=True):
            y += a * np.sin(2 * np.pi * (f * column + p))
        return y


def newsgroups() -> Classes:
    """Return counts of words of 20 Newsgroups, divided by date."""
    with np.load(data_folder() / "newsgroups20" / "counts.npz") as z:
        X, X_test = (
            sparse.csr_array(
                (z[f"{part}_data"].astype(float), z[f"{part}_indices"], z[f"{part}_indptr"]),
                shape=tuple(z[f"{part}_shape"]),
            )
            for part in ("train", "test")
        )
        return Classes(X, z["y_train"], X_test, z["y_test"], "20 Newsgroups")
