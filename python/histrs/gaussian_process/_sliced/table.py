"""Tables as matrices of numbers: arrays as they are, data frames with a column per category."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from histrs._solvers.block_cg import Array
from histrs._validation import check_array

_CATEGORIES = ("category", "object", "string", "str", "bool", "boolean")


@dataclass(frozen=True)
class Table:
    """Which columns of a data frame are categories, and which those are; none of an array.

    A category is a column of zeros and ones; so are missing values where the fit had some. Others
    that the fit had not are zeros everywhere.
    """

    n_features: int
    categories: dict[int, NDArray[Any]]
    """Place of each categorical column to its categories, None last where values are missing."""

    @classmethod
    def of(cls, X: Any) -> Table:
        """Look at the columns of a checked array, or of a data frame."""
        if not is_frame(X):
            return cls(X.shape[1], {})
        return cls(
            X.shape[1],
            {
                place: _categories(X.iloc[:, place], name)
                for place, name in enumerate(X.columns)
                if _is_categorical(X, place)
            },
        )

    @property
    def sources(self) -> NDArray[np.intp]:
        """Which input column each column of the matrix comes from."""
        repeated = [np.full(len(found), place) for place, found in self.categories.items()]
        return np.concatenate([self._numbers, *repeated]).astype(np.intp)

    @property
    def _numbers(self) -> list[int]:
        return [place for place in range(self.n_features) if place not in self.categories]

    def read(self, X: Any) -> Array:
        """Return the numbers, and behind them the columns of categories; NaN where missing.

        Raises
        ------
        ValueError
            If the fit had categories and this is no data frame, or a column that is no categorical
            one holds other things than finite numbers and NaN.
        """
        if not is_frame(X) and self.categories:
            raise ValueError(
                f"X is a {type(X).__name__}, and the fit had categories in columns "
                f"{list(self.categories)}: give a pandas data frame with the same columns."
            )
        if not is_frame(X):
            numbers: Array = np.asarray(X, dtype=np.float64)
            return numbers
        parts = [_indicators(X.iloc[:, place], found) for place, found in self.categories.items()]
        if self._numbers:
            parts.insert(0, numbers_of(X.iloc[:, self._numbers]))
        return np.hstack(parts)


def is_frame(X: Any) -> bool:
    """Say whether this is a data frame of pandas, or looks like one."""
    return hasattr(X, "iloc") and hasattr(X, "columns")


def has_categories(X: Any) -> bool:
    """Say whether this is a data frame with columns that are no numbers."""
    return is_frame(X) and any(_is_categorical(X, place) for place in range(X.shape[1]))


def numbers_of(frame: Any) -> Array:
    """Return a data frame of numbers as a matrix; errors name the column."""
    checks: dict[str, Any] = {"dtype": np.float64, "ensure_all_finite": "allow-nan"}
    try:
        numbers: Array = check_array(frame, **checks)
    except (TypeError, ValueError):
        for place, name in enumerate(frame.columns):
            _check_column(frame.iloc[:, [place]], name, checks)
        raise
    return numbers


def _check_column(column: Any, name: Any, checks: dict[str, Any]) -> None:
    cure = (
        "Give finite numbers, or NaN where there are none; what was no category in the fit is none."
    )
    dtype = column.dtypes.iloc[0]
    if getattr(dtype, "kind", "") in "mM":
        raise ValueError(f"Column {name!r} of X holds {dtype}, which is no number. {cure}")
    try:
        check_array(column, **checks)
    except (TypeError, ValueError) as error:
        raise ValueError(f"Column {name!r} of X: {error} {cure}") from error


def _is_categorical(frame: Any, place: int) -> bool:
    return str(frame.dtypes.iloc[place]) in _CATEGORIES


def _categories(column: Any, name: Any) -> NDArray[Any]:
    """Return what a column holds, in an order that does not depend on that of the rows."""
    values = column.astype(object)
    missing = values.isna()
    try:
        found = list(values[~missing].unique())
    except TypeError as error:
        raise ValueError(
            f"Column {name!r} of X holds what can be no category ({error}): give strings or "
            "numbers."
        ) from error
    found.sort(key=lambda value: (type(value).__name__, str(value)))
    categories = np.empty(len(found) + bool(missing.any()), dtype=object)
    categories[: len(found)] = found
    return categories


def _indicators(column: Any, categories: NDArray[Any]) -> Array:
    values = column.astype(object)
    missing = values.isna().to_numpy()
    known = {value: k for k, value in enumerate(categories) if value is not None}
    codes = values.map(known).to_numpy(dtype=np.float64, na_value=np.nan)
    if len(known) < len(categories):
        codes = np.where(missing, len(known), codes)
    indicators: Array = (codes[:, None] == np.arange(len(categories))).astype(np.float64)
    return indicators
