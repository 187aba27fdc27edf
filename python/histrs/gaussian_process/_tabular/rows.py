"""Tables as rows that the members of a blend take: values, ranks and categories."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from histrs._typing import Array
from histrs.gaussian_process._tabular.numbers import NumberColumns
from histrs.gaussian_process._tabular.table import Table


class TableRows(NamedTuple):
    """Rows of a table."""

    values: Array
    """Numbers after Yeo-Johnson's transform, standardised, of shape (n_rows, n_numbers)."""
    ranks: Array
    """The same as parts of the training rows that are below."""
    codes: Array
    """Categories as whole numbers, of shape (n_rows, n_categories); -1 where they are new.

    NaN, here and above, is a value that training rows all had.
    """

    def at(self, rows: NDArray[Any]) -> Self:
        """Return some of the rows."""
        return type(self)(*(part[rows] for part in self))

    def joined(self, others: Self) -> Self:
        """Return these rows with others behind them."""
        return type(self)(*(np.vstack(parts) for parts in zip(self, others, strict=True)))

    @property
    def with_values(self) -> Array:
        """Values and categories side by side."""
        return np.hstack([self.values, self.codes])

    @property
    def with_ranks(self) -> Array:
        """Ranks and categories side by side."""
        return np.hstack([self.ranks, self.codes])


class Reader:
    """What the columns of a fit say of those of any rows."""

    def __init__(self, table: Table, numbers: Array) -> None:
        self.table = table
        self._numbers = NumberColumns(numbers)

    def rows(self, numbers: Array, codes: Array) -> TableRows:
        """Return rows, of what the table read."""
        return TableRows(*self._numbers.apply(numbers), codes)

    @property
    def sources(self) -> NDArray[np.intp]:
        """Which column of the input each is of values, with marks of what is missing, and codes."""
        order, n_codes = self.table.order, len(self.table.categories)
        numbers = order[: len(order) - n_codes]
        marks = numbers[self._numbers.missing]
        return np.concatenate([numbers, marks, order[len(order) - n_codes :]])
