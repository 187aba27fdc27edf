"""Scores of classes made comparable, from the highest of each."""

import numpy as np
from numpy.typing import NDArray

from histrs.streaming._sums import Array


class HighestScores:
    """The highest scores of each class, gathered in chunks, in memory of their number alone."""

    def __init__(self, rank: int) -> None:
        self._rank = rank
        self._highest: Array | None = None

    def update(self, scores: NDArray[np.float64]) -> None:
        """Add the scores of some rows, a column a class."""
        if self._highest is not None:
            scores = np.vstack([self._highest, scores])
        if len(scores) > self._rank:
            scores = np.partition(scores, -self._rank, axis=0)[-self._rank :]
        self._highest = scores.copy()

    def lowest(self) -> Array:
        """Return the score of each class that `rank - 1` others exceed."""
        n_rows = 0 if self._highest is None else len(self._highest)
        if self._highest is None or n_rows < self._rank:
            raise ValueError(
                f"calibration_rank = {self._rank}, but there are {n_rows} rows to calibrate on; "
                "give a lower rank or more rows."
            )
        return np.asarray(self._highest.min(axis=0))
