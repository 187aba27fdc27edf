"""Samples in which every class has its share."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from numpy.random import RandomState
from numpy.typing import NDArray

from histrs.prototypes._base import Indices, Labels


def class_counts(labels: Labels, classes: NDArray[Any], compression: Any) -> NDArray[np.intp]:
    """Return the number of prototypes of each class, which are named in errors."""
    n, sizes = len(labels), np.bincount(labels)
    if isinstance(compression, Integral):
        count = int(compression)
        short = np.flatnonzero(sizes < count)
        if len(short) > 0:
            raise ValueError(
                f"compression = {count} prototypes of each class, but class "
                f"{classes[short[0]]} has {sizes[short[0]]} of {n} different training "
                "samples; give a smaller number, or a fraction of the samples."
            )
        return np.full(len(sizes), count, dtype=np.intp)
    wanted = max(1, round(compression * n))
    counts = np.maximum(1, np.floor(wanted * sizes / n)).astype(np.intp)
    # What rounding left over goes to the classes with most samples a prototype: more than one.
    while counts.sum() < wanted:
        counts[np.argmax(sizes / counts)] += 1
    return np.asarray(counts)


def class_sample(
    labels: Labels, classes: NDArray[Any], compression: float, random: RandomState
) -> Indices:
    """Return indices of samples, as many of each class as `class_counts` says."""
    drawn = [
        random.choice(np.flatnonzero(labels == label), count, replace=False)
        for label, count in enumerate(class_counts(labels, classes, compression))
    ]
    return np.concatenate(drawn)
