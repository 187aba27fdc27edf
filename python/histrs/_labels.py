"""Classes from scores, as every classifier here reads them."""

from typing import Any

import numpy as np
from numpy.typing import NDArray


def best_class(scores: NDArray[Any], classes: NDArray[Any]) -> NDArray[Any]:
    """Return the class with the largest score in each row.

    Two classes may have one column, or none, whose sign decides; 0 stands for the first.
    """
    if scores.ndim == 2 and scores.shape[1] == 1:
        scores = scores[:, 0]
    best = (scores > 0).astype(np.intp) if scores.ndim == 1 else np.argmax(scores, axis=1)
    return np.asarray(classes[best])
