"""How good probabilities are."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import log_loss

from histrs._demo._data import Array

N_BINS = 10


@dataclass(frozen=True)
class Bin:
    """The images whose largest probability lies in one tenth of [0, 1]."""

    lower: float
    upper: float
    count: int
    confidence: float
    """Mean of their largest probabilities."""
    accuracy: float
    """Share of them that is classified correctly."""

    def accuracy_interval(self) -> tuple[float, float]:
        """Return Wilson's 95 % interval for the accuracy."""
        z, n, p = 1.96, self.count, self.accuracy
        centre = (p + z**2 / (2 * n)) / (1 + z**2 / n)
        half = z * np.sqrt(p * (1 - p) / n + z**2 / (4 * n**2)) / (1 + z**2 / n)
        return max(0.0, float(centre - half)), min(1.0, float(centre + half))


@dataclass(frozen=True)
class Quality:
    """What the probabilities of the test images are worth."""

    accuracy: float
    log_loss: float
    calibration_error: float
    """Expected calibration error: mean over the images of |accuracy - confidence| of their bin."""
    bins: list[Bin]
    """Without the empty ones."""


def assess(probabilities: Array, labels: NDArray[Any]) -> Quality:
    """Compare probabilities, with classes 0, 1, ... in order, with the true classes."""
    confidence = probabilities.max(axis=1)
    correct = probabilities.argmax(axis=1) == labels
    index = np.minimum((N_BINS * confidence).astype(int), N_BINS - 1)
    bins = [
        Bin(
            lower=k / N_BINS,
            upper=(k + 1) / N_BINS,
            count=int(np.sum(index == k)),
            confidence=float(confidence[index == k].mean()),
            accuracy=float(correct[index == k].mean()),
        )
        for k in np.unique(index).tolist()
    ]
    return Quality(
        accuracy=float(correct.mean()),
        log_loss=float(log_loss(labels, probabilities, labels=range(probabilities.shape[1]))),
        calibration_error=sum(b.count * abs(b.accuracy - b.confidence) for b in bins) / len(labels),
        bins=bins,
    )
