"""What rows weigh."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from histrs._typing import Array
from histrs._weights import (
    checked_weights,
    of_finite_sum,
    positive_weights,
    product_of_weights,
    refuse_zeros,
    weights_of_classes,
)


@dataclass(frozen=True)
class CountedWeights:
    """Weights of rows, and how many rows each stands for.

    A weight of 3 stands for three equal rows, of which each can be left out by itself. A row of
    less weight than 1 is one row, and is left out as a whole.
    """

    total: Array
    copies: Array

    @classmethod
    def of(cls, weights: Any, n_rows: int) -> Self:
        """Return checked weights."""
        total = of_finite_sum(checked_weights(weights, n_rows))
        return cls(total, np.where(total > 0, np.maximum(total, 1.0), 0.0))

    @property
    def unit(self) -> Array:
        """The weight of one of the rows that each stands for."""
        return self.total / np.maximum(self.copies, 1.0)

    def times(self, factors: Array) -> Self:
        """Return weights times factors, of as many rows."""
        total = product_of_weights(self.total, factors)
        return type(self)(total, np.where(total > 0, self.copies, 0.0))

    def part(self, rows: Any) -> Self:
        """Return the weights of some of the rows."""
        return type(self)(self.total[rows], self.copies[rows])


def counted_weights(weights: Any, n_rows: int) -> CountedWeights | None:
    """Return the weights of rows, or None where all weigh the same."""
    if weights is None or isinstance(weights, CountedWeights):
        return weights
    return CountedWeights.of(weights, n_rows)


def weights_of(sample_weight: Any, n_rows: int) -> Array | None:
    """Return the weights of all rows of a fit, of which some is positive, or None."""
    if sample_weight is None:
        return None
    return of_finite_sum(positive_weights(sample_weight, n_rows))


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
            refuse_zeros(factors, "class_weight")
            return cls(classes, factors)
        labels = np.asarray(labels)
        weights = of_finite_sum(checked_weights(weights, len(labels)))
        labels, weights = labels[weights > 0], weights[weights > 0]
        factors = np.ones(len(classes))
        indices = np.searchsorted(classes, labels)
        factors[indices] = weights_of_classes(class_weight, labels, weights)
        return cls(classes, factors)

    def __call__(self, labels: Any, weights: Any) -> CountedWeights:
        labels = np.asarray(labels)
        # Labels that are no classes are refused where targets are made of them.
        indices = np.searchsorted(self.classes, labels).clip(max=len(self.classes) - 1)
        return CountedWeights.of(weights, len(labels)).times(self.factors[indices])
