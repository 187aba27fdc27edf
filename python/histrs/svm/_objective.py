"""The units of a problem, its targets and the objective that is minimised."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from histrs import _histrs
from histrs._validation import Matrix, to_core


def units(X: Matrix) -> tuple[float, float, float]:
    """Return the mean sum of a row, the mean positive entry and the largest; 1 where all are 0."""
    stored = to_core(X)
    values = stored[0] if isinstance(stored, tuple) else stored
    # Row by row and without zeros, so that sparse rows have the same sum to the last bit.
    positive = values[values > 0]
    if len(positive) == 0:
        return 1.0, 1.0, 1.0
    total = float(positive.sum(dtype=np.float64))
    return total / X.shape[0], total / len(positive), float(positive.max())


def signs_of(y: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.float64]:
    """Return 1 and -1 of shape (n_problems, n_samples); two classes are one problem."""
    positive = classes[1:] if len(classes) == 2 else classes
    return np.where(y[None] == positive[:, None], 1.0, -1.0)


def objective(
    X: Matrix,
    signs: NDArray[np.float64],
    weights: NDArray[np.float64],
    coef: NDArray[np.float64],
    margin: float,
    alpha: float,
    n_threads: int,
) -> float:
    """Return the sum over the problems of equation 7a, with weighted losses."""
    scores = _histrs.svm_scores(to_core(X), coef, n_threads).T
    losses = weights * np.maximum(0.0, margin - signs * scores)
    return float(alpha * np.abs(coef).sum() + losses.mean(axis=1).sum())
