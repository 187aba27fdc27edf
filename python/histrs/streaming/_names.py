"""Names of columns, by which rows of several sources are matched."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from histrs._checks.sparse import is_sparse, sound
from histrs._frames import frame_of, names_of, numbers_of, order_of

# What errors call the rows that further ones are matched with.
BEFORE = "the rows before"


class NamedRows(NamedTuple):
    """Rows of numbers whose columns have names."""

    rows: NDArray[Any]
    names: list[str]


class ColumnNames:
    """The names of the columns of all rows of a source: those of the first that have some."""

    def __init__(self, known: Sequence[str] | None = None, *, for_map: bool = False) -> None:
        self.known = None if known is None else list(known)
        self.are_matched = False
        """Whether the columns of arrays have been matched by their names."""
        self._for_map = for_map

    @classmethod
    def of_map(cls, feature_map: Any) -> ColumnNames:
        """Return the names that a fitted transformer knows, which sees frames as they are."""
        known = getattr(feature_map, "feature_names_in_", None)
        return cls(known, for_map=known is not None)

    def matched(self, rows: Any, what: str) -> Any:
        """Return rows as numbers, with columns in the order of the first; frames stay for a map.

        Raises ValueError if they lack a column, or have one more.
        """
        if isinstance(rows, NamedRows):
            order = self._order(rows.names, what)
            self.are_matched = True
            return rows.rows if order is None else rows.rows[:, order]
        frame = frame_of(rows)
        if frame is None:
            return sound(rows, "Z") if is_sparse(rows) else rows
        names = names_of(frame)
        order = None if names is None else self._order(names, what)
        frame = frame if order is None else frame[:, order.tolist()]
        self.are_matched = True
        return frame.to_native() if self._for_map else numbers_of(frame, what)

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Keep scikit-learn from warning of arrays without names, whose columns are matched."""
        with warnings.catch_warnings():
            if self.are_matched:
                warnings.filterwarnings("ignore", "X does not have valid feature names")
            yield

    def _order(self, names: list[str], what: str) -> NDArray[np.intp] | None:
        if self.known is None:
            self.known = names
        return order_of(names, self.known, what, BEFORE)
