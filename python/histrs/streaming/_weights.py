"""What rows weigh."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from histrs._checks.validation import real_array
from histrs._labels import NOTHING_WEIGHS, times_class_weights, weights_of_classes
from histrs._typing import Array


@dataclass(frozen=True)
class RowWeights:
    """Weights of rows, and how many rows each stands for.

    A weight of 3 stands for three equal rows, of which each can be left out by itself. A row of
    less weight than 1 is one row, and is left out as a whole.
    """

    total: Array
    copies: Array

    @classmethod
    def of(cls, weights: Any, n_rows: int) -> Self:
        """Return checked weights."""
        total = real_array(weights, "sample_weight")
        if total.shape != (n_rows,):
            raise ValueError(
                f"sample_weight has shape {total.shape}, but ({n_rows},) is needed: a weight for "
                "each of the samples."
            )
        bad = np.flatnonzero(~((total >= 0) & np.isfinite(total)))
        if len(bad):
            raise ValueError(
                f"sample_weight[{bad[0]}] = {total[bad[0]]}: weights are finite and not negative."
            )
        with np.errstate(over="ignore"):
            if not np.isfinite(total.sum()):
                raise ValueError("the sum of sample_weight overflows; divide it by a scale.")
        return cls(total, np.where(total > 0, np.maximum(total, 1.0), 0.0))

    @property
    def unit(self) -> Array:
        """The weight of one of the rows that each stands for."""
        return self.total / np.maximum(self.copies, 1.0)

    def times(self, factors: Array) -> Self:
        """Return weights times factors, of as many rows."""
        total = times_class_weights(self.total, factors)
        return type(self)(total, np.where(total > 0, self.copies, 0.0))

    def part(self, rows: Any) -> Self:
        """Return the weights of some of the rows."""
        return type(self)(self.total[rows], self.copies[rows])


def checked_weights(weights: Any, n_rows: int) -> RowWeights | None:
    """Return the weights of rows, or None where all weigh the same."""
    if weights is None or isinstance(weights, RowWeights):
        return weights
    return RowWeights.of(weights, n_rows)


def weights_of(sample_weight: Any, n_rows: int) -> Array | None:
    """Return the weights of all rows of a fit, of which some is positive, or None."""
    if sample_weight is None:
        return None
    weights = RowWeights.of(sample_weight, n_rows).total
    if not weights.any():
        raise ValueError("sample_weight is zero everywhere: give some row a positive weight.")
    return weights


@dataclass(frozen=True)
class ClassWeights:
    """Weights of rows times those of their classes."""

    classes: NDArray[Any]
    factors: Array

    @classmethod
    def of(cls, class_weight: Any, classes: NDArray[Any], labels: Any, weights: Any) -> Self | None:
        """Return the factors of the classes; "balanced" makes classes of the labels weigh the same.

        With weights, those of its rows together count where "balanced" counts rows.
        """
        if class_weight is None:
            return None
        if isinstance(class_weight, Mapping):
            factors = weights_of_classes(dict(class_weight), classes)
            if not factors.any():
                raise ValueError(NOTHING_WEIGHS)
            return cls(classes, factors)
        labels = np.asarray(labels)
        weights = (
            np.ones(len(labels)) if weights is None else RowWeights.of(weights, len(labels)).total
        )
        indices = np.searchsorted(classes, labels)
        sums = np.bincount(indices, weights=weights, minlength=len(classes))
        with np.errstate(divide="ignore"):
            factors = np.where(sums > 0, sums.sum() / np.count_nonzero(sums) / sums, 1.0)
        return cls(classes, factors)

    def __call__(self, labels: Any, weights: Any) -> RowWeights:
        labels = np.asarray(labels)
        weights = np.ones(len(labels)) if weights is None else weights
        # Labels that are no classes are refused where targets are made of them.
        indices = np.searchsorted(self.classes, labels).clip(max=len(self.classes) - 1)
        return RowWeights.of(weights, len(labels)).times(self.factors[indices])
