"""Tables as rows that the members of a blend take: values, ranks and categories."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from histrs._typing import Array
from histrs.gaussian_process._tabular.numbers import NumberColumns
from histrs.gaussian_process._tabular.table import Table


class TableRows(NamedTuple):
    """Rows of a table, as two matrices that members share: so a pickle has them once."""

    with_values: Array
    """Values and categories side by side."""
    with_ranks: Array
    """Ranks and categories side by side."""
    n_numbers: int
    """How many columns are numbers; those behind them are categories."""

    @classmethod
    def of(cls, values: Array, ranks: Array, codes: Array) -> Self:
        """Return rows of numbers and categories; NaN is a value that training rows all had."""
        both = [np.ascontiguousarray(np.hstack([part, codes])) for part in (values, ranks)]
        return cls(both[0], both[1], values.shape[1])

    @property
    def values(self) -> Array:
        """Numbers after Yeo-Johnson's transform, standardised, of shape (n_rows, n_numbers)."""
        return self.with_values[:, : self.n_numbers]

    @property
    def codes(self) -> Array:
        """Categories as whole numbers, of shape (n_rows, n_categories); -1 where they are new."""
        return self.with_values[:, self.n_numbers :]

    def at(self, rows: NDArray[Any]) -> Self:
        """Return some of the rows."""
        return type(self)(self.with_values[rows], self.with_ranks[rows], self.n_numbers)

    def where(self, chosen: NDArray[np.bool_]) -> Self:
        """Return the rows that are chosen; where all are, these themselves."""
        return self if chosen.all() else self.at(chosen)

    def joined(self, others: Self) -> Self:
        """Return these rows with others behind them."""
        return type(self)(
            np.vstack([self.with_values, others.with_values]),
            np.vstack([self.with_ranks, others.with_ranks]),
            self.n_numbers,
        )

    def filled(self, others: Self) -> Self:
        """Return these rows with what they lack taken from others, row by row."""
        return type(self)(
            np.where(np.isnan(self.with_values), others.with_values, self.with_values),
            np.where(np.isnan(self.with_ranks), others.with_ranks, self.with_ranks),
            self.n_numbers,
        )


class Reader:
    """What the columns of a fit say of those of any rows."""

    def __init__(self, table: Table, numbers: Array) -> None:
        self.table = table
        self._numbers = NumberColumns(numbers)

    def rows(self, numbers: Array, codes: Array) -> TableRows:
        """Return rows, of what the table read."""
        return TableRows.of(*self._numbers.apply(numbers), codes)

    @property
    def sources(self) -> NDArray[np.intp]:
        """Which column of the input each is of values, with marks of what is missing, and codes."""
        order, n_codes = self.table.order, len(self.table.categories)
        numbers = order[: len(order) - n_codes]
        marks = numbers[self._numbers.missing]
        return np.concatenate([numbers, marks, order[len(order) - n_codes :]])
