"""Real sets to compress: covariances of spoken digits, and images as histograms of light."""

import gzip
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.fft import dct

from benches._data import data_folder
from histrs.spd import covariance_descriptors
from histrs.transport import grid_ground_distance

_RATE, _FRAME, _STEP, _BANDS, _COEFFICIENTS = 8000, 200, 80, 26, 12


class Sets(NamedTuple):
    """Samples to train and to test with, and where they are from."""

    X: NDArray[Any]
    y: NDArray[Any]
    X_test: NDArray[Any]
    y_test: NDArray[Any]
    source: str


def _mel_filters() -> NDArray[np.float64]:
    """Return triangles that are evenly spaced on the mel scale, a row each."""
    mel = np.linspace(0, 2595 * np.log10(1 + _RATE / 2 / 700), _BANDS + 2)
    edges = 700 * (10 ** (mel / 2595) - 1)
    frequencies = np.fft.rfftfreq(_FRAME, 1 / _RATE)
    rising = (frequencies - edges[:-2, None]) / np.diff(edges)[:-1, None]
    falling = (edges[2:, None] - frequencies) / np.diff(edges)[1:, None]
    return np.maximum(0, np.minimum(rising, falling))


def _features(clip: NDArray[np.int16], filters: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return mel-cepstral coefficients of every frame, and its time."""
    padded = np.pad(clip.astype(np.float64), (0, max(0, 40 * _STEP + _FRAME - len(clip))))
    starts = np.arange(0, len(padded) - _FRAME, _STEP)
    frames = padded[starts[:, None] + np.arange(_FRAME)] * np.hanning(_FRAME)
    power = np.abs(np.fft.rfft(frames)) ** 2
    cepstrum = dct(np.log(power @ filters.T + 1e3), norm="ortho")[:, 1 : _COEFFICIENTS + 1]
    time = np.linspace(-1, 1, len(frames))
    return np.column_stack([cepstrum, 5 * time, 5 * (time**2 - 1 / 3)])


def spoken_digits() -> Sets | None:
    """Return covariances of 14 features of the frames of a clip, ten classes; None without data."""
    try:
        with np.load(data_folder() / "spoken_digits" / "fsdd.npz") as stored:
            names = ("offsets", "label", "index")
            offsets, labels, index = (stored[name] for name in names)
            (samples,) = (stored[name] for name in stored.files if stored[name].dtype == np.int16)
    except FileNotFoundError:
        return None
    filters = _mel_filters()
    clips = (samples[start:stop] for start, stop in pairwise(offsets))
    X = covariance_descriptors([_features(clip, filters) for clip in clips], shrinkage=0.01)
    test = index < 5
    source = (
        "covariances of mel-cepstral coefficients and time in spoken digits (Z. Jackson et al.)"
    )
    return Sets(X[~test], labels[~test], X[test], labels[test], source)


SIDE = 7
"""Cells along a side of an image."""


def fashion_light(n_train: int = 2000, n_test: int = 1000) -> Sets | None:
    """Return Fashion-MNIST as 7 x 7 cells that light is spread over; None without data."""
    parts = []
    try:
        for part, n in (("train", n_train), ("t10k", n_test)):
            for name, header, size in (("images-idx3", 16, 784), ("labels-idx1", 8, 1)):
                path = data_folder() / "fashion_mnist" / f"{part}-{name}-ubyte.gz"
                with gzip.open(path) as file:
                    values = np.frombuffer(file.read(header + size * n), np.uint8, offset=header)
                parts.append(values.reshape(n, size))
    except FileNotFoundError:
        return None
    images, y, images_test, y_test = parts
    X, X_test = (
        i.reshape(-1, SIDE, 4, SIDE, 4).sum(axis=(2, 4), dtype=float).reshape(-1, SIDE**2)
        for i in (images, images_test)
    )
    X, X_test = (Z / Z.sum(axis=1, keepdims=True) for Z in (X, X_test))
    source = "Fashion-MNIST (H. Xiao et al. 2017) summed to 7 x 7 cells"
    return Sets(X, y.ravel(), X_test, y_test.ravel(), source)


def light_ground_distance() -> NDArray[np.float64]:
    """Return the distances of the cells, over their median."""
    M = grid_ground_distance((SIDE, SIDE))
    return M / np.median(M)


_ABSENT = "synthetic, because the real ones are not there"


def synthetic_covariances() -> Sets:
    """Return Wishart matrices of ten classes, each with a scale of its own for every feature."""
    rng = np.random.default_rng(0)
    labels = np.arange(400) % 10
    scale = rng.gamma(4.0, size=(10, 6))[labels]
    A = rng.standard_normal((400, 6, 12)) * scale[:, :, None]
    X = A @ A.transpose(0, 2, 1) / 12
    return Sets(X[:300], labels[:300], X[300:], labels[300:], f"covariances, {_ABSENT}")


def synthetic_light() -> Sets:
    """Return histograms over the cells, each class with bright cells of its own."""
    rng = np.random.default_rng(0)
    labels = np.arange(400) % 10
    X = rng.gamma(0.2 + rng.gamma(0.5, size=(10, SIDE**2))[labels]) + 1e-3
    X /= X.sum(axis=1, keepdims=True)
    return Sets(X[:300], labels[:300], X[300:], labels[300:], f"histograms, {_ABSENT}")
