"""Classes as targets of regression."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from histrs._typing import Array


@dataclass(frozen=True)
class SignedTargets:
    """Targets of classes: 1 for the class of a row, -1 for others; of two, for the second alone."""

    classes: NDArray[Any]

    def __call__(self, labels: ArrayLike) -> Array:
        labels = np.asarray(labels)
        if labels.ndim != 1:
            raise ValueError(f"Y has shape {labels.shape}: expected a class for each row.")
        unknown = np.flatnonzero(~np.isin(labels, self.classes))
        if len(unknown):
            raise ValueError(
                f"Y[{unknown[0]}] = {labels.tolist()[unknown[0]]!r} is not one of the "
                f"{len(self.classes)} classes; give all of them."
            )
        signs = np.where(labels[:, None] == self.classes, 1.0, -1.0)
        return signs[:, 1:] if len(self.classes) == 2 else signs


class IndicatorTargets:
    """Targets of labels of which a row may have several: 1 for those that it has, -1 for others."""

    def __call__(self, indicator: ArrayLike) -> Array:
        return np.where(np.asarray(indicator) > 0, 1.0, -1.0)
