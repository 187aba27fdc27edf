"""The units of a problem, its targets and the objective that is minimised."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from histrs import _histrs
from histrs._checks.validation import to_core
from histrs._typing import Array, Matrix


@dataclass(frozen=True)
class Lengths:
    """How large rows are and their positive entries; 1 where all are 0."""

    n_rows: int
    total: float
    n_positive: int
    maximum: float

    @classmethod
    def of(cls, X: Matrix) -> Self:
        """Measure rows."""
        stored = to_core(X)
        values = stored[0] if isinstance(stored, tuple) else stored
        # Row by row and without zeros, so that sparse rows have the same sum to the last bit.
        positive = values[values > 0]
        total = float(positive.sum(dtype=np.float64))
        return cls(X.shape[0], total, len(positive), float(positive.max(initial=0.0)))

    def with_rows(self, X: Matrix) -> Self:
        """Return the lengths of these rows and further ones."""
        new = self.of(X)
        return type(self)(
            self.n_rows + new.n_rows,
            self.total + new.total,
            self.n_positive + new.n_positive,
            max(self.maximum, new.maximum),
        )

    @property
    def row(self) -> float:
        """The mean sum of a row."""
        return self.total / self.n_rows if self.n_positive else 1.0

    @property
    def entry(self) -> float:
        """The mean positive entry."""
        return self.total / self.n_positive if self.n_positive else 1.0

    @property
    def largest(self) -> float:
        """The largest entry."""
        return self.maximum if self.n_positive else 1.0


def signs_of(y: NDArray[Any], classes: NDArray[Any]) -> Array:
    """Return 1 and -1 of shape (n_problems, n_samples); two classes are one problem."""
    positive = classes[1:] if len(classes) == 2 else classes
    return np.where(y[None] == positive[:, None], 1.0, -1.0)


def objective(
    X: Matrix,
    signs: Array,
    weights: Array,
    coef: Array,
    margin: float,
    alpha: float,
    n_threads: int,
) -> float:
    """Return the sum over the problems of equation 7a, with weighted losses."""
    scores = _histrs.svm_scores(to_core(X), coef, None, n_threads).T
    losses = weights * np.maximum(0.0, margin - signs * scores)
    return float(alpha * np.abs(coef).sum() + losses.mean(axis=1).sum())
