"""Tables as numbers, and categories as codes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from histrs._frames import Column, Kind
from histrs._typing import Array


@dataclass(frozen=True)
class Table:
    """What the columns of the fit hold, and which categories.

    A missing value is a category where the fit had some, and else NaN. Categories that the fit
    had not have the code -1.
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
    def order(self) -> NDArray[np.intp]:
        """Which input column each is that is read: numbers first, then categories."""
        numbers = [place for place in range(len(self.kinds)) if place not in self.categories]
        return np.array([*numbers, *self.categories], dtype=np.intp)

    def read(self, columns: Sequence[Column]) -> tuple[Array, Array]:
        """Return the numbers, NaN where missing, and the codes of categories.

        Raises
        ------
        ValueError
            If a column holds another kind of values than in the fit, or an infinite number.
        """
        n_rows = len(columns[0].values) if columns else 0
        numbers, codes = [np.empty((n_rows, 0))], [np.empty((n_rows, 0))]
        for place, (kind, column) in enumerate(zip(self.kinds, columns, strict=True)):
            if kind == "categories":
                codes.append(_codes(column, self.categories[place])[:, None])
            else:
                numbers.append(numbers_of(column, kind)[:, None])
        return np.hstack(numbers), np.hstack(codes)


def found_in(column: Column) -> NDArray[Any]:
    """Return what a column holds, in an order that does not depend on that of the rows."""
    found = list(set(column.values) - {None})
    found.sort(key=lambda value: (type(value).__name__, str(value)))
    missing = any(value is None for value in column.values)
    categories = np.empty(len(found) + missing, dtype=object)
    categories[: len(found)] = found
    return categories


def numbers_of(column: Column, kind: Kind) -> Array:
    """Return a column of what was numbers, or times, in the fit."""
    if "nothing" in (kind, column.kind):
        return np.full(len(column.values), np.nan)
    if kind == "numbers" and column.kind == "categories":
        # Truth values are numbers too.
        try:
            return column.numbers()
        except ValueError:
            pass
    if column.kind != kind:
        raise other_kind(column, kind)
    infinite = np.flatnonzero(np.isinf(column.values))
    if len(infinite) > 0:
        raise ValueError(
            f"{column.title} is infinite in row {infinite[0]}: Input X contains infinity. Give "
            "finite numbers, or NaN where the value is missing."
        )
    return column.values


def _codes(column: Column, categories: NDArray[Any]) -> Array:
    known = {value: k for k, value in enumerate(categories) if value is not None}
    if column.kind not in ("categories", "nothing") and all(isinstance(v, str) for v in known):
        raise other_kind(column, "categories")
    # Behind the others, where the fit had some; else a gap.
    missing = len(known) if len(known) < len(categories) else np.nan
    codes = [missing if value is None else known.get(value, -1) for value in column.objects()]
    return np.array(codes, dtype=np.float64)


def other_kind(column: Column, kind: Kind) -> ValueError:
    held = "text" if kind == "categories" else kind
    return ValueError(
        f"{column.title} holds {column.what()}, and held {held} in the fit: give {held} again, or "
        "None where the value is missing."
    )
