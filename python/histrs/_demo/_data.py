"""scikit-learn's digits as histograms of ink, split once into training and test images."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

Array = NDArray[np.float64]
Indices = NDArray[np.intp]

# A block of a digit is 4 x 4 pixels, so it holds 0 to 16 inked ones.
MOST_INK = 16
# Sides of the windows, in blocks.
SIDES = (1, 2, 4, 8)


def block_counts(images: Array) -> Array:
    """Return the inked pixels in each of the 64 blocks: the data set as it is."""
    return images.reshape(len(images), -1)


def window_counts(images: Array) -> Array:
    """Return the inked pixels in each of the 441 rectangles with sides of 1, 2, 4 or 8 blocks."""
    counts = [
        sliding_window_view(images, (height, width), axis=(1, 2)).sum(axis=(3, 4))
        for height in SIDES
        for width in SIDES
    ]
    return np.hstack([c.reshape(len(images), -1) for c in counts])


FEATURES: Mapping[str, Callable[[Array], Array]] = {
    "blocks": block_counts,
    "windows": window_counts,
}


@dataclass(frozen=True)
class Digits:
    """The images, their labels, and which of them are for what."""

    images: Array
    """Inked pixels in each block, of shape (n_images, 8, 8)."""
    features: Mapping[str, Array]
    """The histograms of every image, by the name of the features."""
    labels: NDArray[Any]
    fit: Indices
    """The part of the training images that candidates are fitted to."""
    validation: Indices
    """The rest of them, on which candidates are compared."""
    test: Indices

    @property
    def train(self) -> Indices:
        """Both parts of the training images."""
        return np.concatenate([self.fit, self.validation])


def load(seed: int) -> Digits:
    """Return the digits; a third is for testing, and of the rest a third for validation."""
    pixels, labels = load_digits(return_X_y=True)
    images = pixels.reshape(-1, 8, 8)
    train, test = _split(np.arange(len(labels)), labels, seed)
    fit, validation = _split(train, labels, seed)
    features = {name: describe(images) for name, describe in FEATURES.items()}
    return Digits(images, features, labels, fit, validation, test)


def _split(rows: Indices, labels: NDArray[Any], seed: int) -> tuple[Indices, Indices]:
    first, second = train_test_split(
        rows, test_size=1 / 3, stratify=labels[rows], random_state=seed
    )
    return first, second
