"""Tables as matrices of numbers, with a column of zeros and ones for each category."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from histrs._frames import Column, Kind
from histrs._typing import Array
from histrs.gaussian_process._tabular.table import found_in, numbers_of, other_kind


@dataclass(frozen=True)
class Table:
    """What the columns of the fit hold, and which categories.

    A category is a column of zeros and ones; so are missing values where the fit had some. Others
    that the fit had not are zeros everywhere.
    """

    kinds: tuple[Kind, ...]
    categories: dict[int, NDArray[Any]]
    """Place of each categorical column to its categories, None last where values are missing."""

    @classmethod
    def of(cls, columns: Sequence[Column]) -> Table:
        """Look at the columns of a fit."""
        return cls(
            tuple(column.kind for column in columns),
            {
                j: found_in(column)
                for j, column in enumerate(columns)
                if column.kind == "categories"
            },
        )

    @classmethod
    def of_numbers(cls, n_features: int) -> Table:
        """Return the table of a matrix."""
        number: Kind = "numbers"
        return cls((number,) * n_features, {})

    @property
    def is_of_numbers(self) -> bool:
        """Whether a matrix of numbers is such a table."""
        return set(self.kinds) <= {"numbers", "nothing"}

    @property
    def sources(self) -> NDArray[np.intp]:
        """Which input column each column of the matrix comes from."""
        numbers = [place for place in range(len(self.kinds)) if place not in self.categories]
        repeated = [np.full(len(found), place) for place, found in self.categories.items()]
        return np.concatenate([numbers, *repeated]).astype(np.intp)

    def read(self, columns: Sequence[Column]) -> Array:
        """Return the numbers, and behind them the columns of categories; NaN where missing.

        Raises
        ------
        ValueError
            If a column holds another kind of values than in the fit, or an infinite number.
        """
        numbers, indicators = [], []
        for place, (kind, column) in enumerate(zip(self.kinds, columns, strict=True)):
            if kind == "categories":
                indicators.append(_indicators(column, self.categories[place]))
            else:
                numbers.append(numbers_of(column, kind)[:, None])
        return np.hstack([*numbers, *indicators])


def _indicators(column: Column, categories: NDArray[Any]) -> Array:
    known = {value: k for k, value in enumerate(categories) if value is not None}
    if column.kind not in ("categories", "nothing") and all(isinstance(v, str) for v in known):
        raise other_kind(column, "categories")
    values = column.objects()
    places = [len(known) if value is None else known.get(value, -1) for value in values]
    indicators: Array = (np.array(places)[:, None] == np.arange(len(categories))).astype(np.float64)
    return indicators
