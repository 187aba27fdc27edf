"""What models say of rows."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Array = NDArray[np.float64]
# Of quantiles that make a density: of the two intervals that are judged, and between.
LEVELS = (0.025, 0.1, 0.25, 0.5, 0.75, 0.9, 0.975)


class Answer(NamedTuple):
    """What a model says of rows."""

    P: Array | None = None
    """Probabilities of classes."""
    mean: Array | None = None
    std: Array | None = None
    quantiles: Array | None = None
    """Those at `LEVELS`, a column each."""
    score_density: Callable[[Array], float] | None = None
    """Returns the mean log density of targets; None if it is normal."""


Answers = Callable[[pd.DataFrame], Answer]
