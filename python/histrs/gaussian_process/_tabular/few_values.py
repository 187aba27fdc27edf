"""Targets that take few values, as counts do: quantiles that are these values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from histrs._typing import Array

# Rows that a value has on average where values are few.
_ROWS_OF_VALUE = 5.0
# What part of the gap between two values a quantile may miss one by and still be meant.
_NEAR = 0.15


@dataclass(frozen=True)
class FewValues:
    """The values that a target takes, in ascending order; none where it takes many.

    A distribution that is learned from residuals misses the values by a little. An interval that
    ends just above zero would leave out all the rows that are zero.
    """

    values: Array

    @classmethod
    def of(cls, y: Array, weights: Array | None) -> Self:
        """Return the values of targets of rows with weights."""
        values, n = np.unique(y), len(y) if weights is None else weights.sum()
        return cls(values if 2 <= len(values) <= n / _ROWS_OF_VALUE else np.empty(0))

    def at(self, quantiles: Array) -> Array:
        """Return quantiles; those that are next to a value are this value."""
        if len(self.values) == 0:
            return quantiles
        above = np.clip(np.searchsorted(self.values, quantiles), 1, len(self.values) - 1)
        low, high = self.values[above - 1], self.values[above]
        near = _NEAR * (high - low)
        is_low, is_high = (np.abs(quantiles - value) <= near for value in (low, high))
        return np.where(is_low, low, np.where(is_high, high, quantiles))
