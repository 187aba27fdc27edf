"""The seed that all random choices of a fit begin with."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from histrs._estimator import BaseEstimator
from histrs._validation import check_random_state


class SeededFit(BaseEstimator):
    """Draws from `random_state` once a fit, and only where something random is asked for."""

    random_state: int | np.random.RandomState | None
    _drawn_seed: NDArray[np.int64]
    """The seed of the fit, which copies of the estimator share; -1 until it is asked for."""

    def _without_seed(self) -> None:
        """Begin a fit, which has drawn nothing yet."""
        self._drawn_seed = np.array([-1])

    @property
    def _seed(self) -> int:
        """What all random choices of the fit begin with, drawn when the first of them is made."""
        if self._drawn_seed[0] < 0:
            self._random()
        return int(self._drawn_seed[0])

    def _random(self) -> np.random.RandomState:
        """Return the generator of further draws, of which the seed is the first."""
        random = check_random_state(self.random_state)
        seed = random.randint(np.iinfo(np.int32).max)
        if self._drawn_seed[0] < 0:
            self._drawn_seed[0] = seed
        return random
