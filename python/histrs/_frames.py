"""Tables of any library, read by narwhals: what each column holds, as numbers or as categories."""

from __future__ import annotations

import datetime
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from numbers import Complex, Real
from typing import Any, Literal, TypeAlias

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from histrs._checks.sparse import is_sparse
from histrs._typing import Array
from histrs._warnings import warn

Kind: TypeAlias = Literal["numbers", "dates", "durations", "categories", "nothing"]
"""What a column holds: "nothing" where every value is missing."""

_SECOND = np.timedelta64(1, "s")
_EPOCH = np.datetime64(0, "s")
# What objects of time are, with NumPy's unit of them.
_TIMES: tuple[tuple[Kind, tuple[type, ...], str], ...] = (
    ("dates", (datetime.date, np.datetime64), "M8[us]"),
    ("durations", (datetime.timedelta, np.timedelta64), "m8[us]"),
)
_TRUTH = (bool, np.bool_)
# Texts that a warning shows.
_EXAMPLES = 3


@dataclass(frozen=True)
class Column:
    """A column of a table."""

    title: str
    """What messages call it."""
    dtype: str
    kind: Kind
    values: NDArray[Any]
    """Of categories objects, None where missing; else numbers, NaN where missing.

    Dates are seconds since 1970, in UTC, and durations seconds.
    """

    def numbers(self) -> Array:
        """Return the column as numbers; truth values are 1 and 0.

        Raises ValueError if it holds other categories.
        """
        if self.kind != "categories":
            return self.values
        known = [value for value in self.values if value is not None]
        other = next((value for value in known if not isinstance(value, _TRUTH)), None)
        if other is not None:
            raise ValueError(
                f"{self.title} holds {self.what()}, but columns must be numbers. Make a column of "
                "zeros and ones for each category, as scikit-learn's OneHotEncoder does, or leave "
                "the column out. TabularGPClassifier and TabularGPRegressor read categories."
            )
        return np.array([np.nan if v is None else float(v) for v in self.values])

    def objects(self) -> NDArray[Any]:
        """Return the values as objects, None where they are missing."""
        if self.kind == "categories":
            return self.values
        objects = self.values.astype(object)
        objects[np.isnan(self.values)] = None
        return objects

    def what(self) -> str:
        """Say what the column holds, with an example of categories."""
        if self.kind != "categories":
            return f"{self.kind} (dtype {self.dtype})"
        example = next(value for value in self.values if value is not None)
        word = "text" if isinstance(example, str) else "categories"
        return f"{word} (dtype {self.dtype}), such as {example!r}"

    def warn_of_numbers_with_text(self) -> None:
        """Warn where text among numbers made categories of them all."""
        if self.kind != "categories" or self.dtype.lower() != "object":
            return
        known = [value for value in self.values if value is not None]
        texts = [value for value in known if isinstance(value, str)]
        other = list(dict.fromkeys(text for text in texts if not _is_number(text)))
        has_numbers = any(isinstance(v, Real) and not isinstance(v, _TRUTH) for v in known)
        n_numbers = sum(not isinstance(v, _TRUTH) and _is_number(v) for v in known)
        if not has_numbers or not texts or 2 * n_numbers <= len(known):
            return
        examples = ", ".join(map(repr, (other or texts)[:_EXAMPLES]))
        warn(
            f"{self.title} holds numbers, and text such as {examples}: each of its values is a "
            'category. Give pandas.to_numeric(column, errors="coerce") if it holds numbers, or '
            "column.astype(str) if categories are meant."
        )

    def at(self, rows: NDArray[np.intp]) -> Column:
        """Return some rows of the column."""
        return replace(self, values=self.values[rows])

    def full_of(self, value: Any) -> Column:
        """Return a column of as many rows that holds one value."""
        values = np.empty_like(self.values)
        values[:] = value
        return replace(self, values=values)


def _is_number(value: Any) -> bool:
    """Say whether a value is a number, or text that is one."""
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


def frame_of(X: Any) -> nw.DataFrame[Any] | None:
    """Return a data frame of any library as narwhals reads it; None of what is none.

    Raises ValueError if two columns have the same name.
    """
    frame = _read(X)
    return frame.collect() if isinstance(frame, nw.LazyFrame) else frame


def dtypes_of(X: Any) -> list[Any] | None:
    """Return the types of the columns of a frame; None of what is none."""
    frame = _read(X)
    return None if frame is None else list(frame.collect_schema().values())


def _read(X: Any) -> Any:
    # Narwhals asks one library after the other, which takes longer than a small prediction.
    if isinstance(X, np.ndarray | list | tuple) or is_sparse(X):
        return None
    if isinstance(X, nw.DataFrame):
        return X
    try:
        frame = nw.from_native(X, pass_through=True)
    except nw.exceptions.DuplicateError as error:
        names = X.column_names if hasattr(X, "column_names") else list(X.columns)
        name, count = Counter(names).most_common(1)[0]
        raise ValueError(
            f"X has {count} columns named {name!r}: give each column a name of its own."
        ) from error
    return frame if isinstance(frame, nw.DataFrame | nw.LazyFrame) else None


def is_table(X: Any) -> bool:
    """Say whether `X` is a frame, or an array that holds other things than numbers."""
    if frame_of(X) is not None:
        return True
    values = np.asarray(X, dtype=object) if isinstance(X, list | tuple) else X
    if not isinstance(values, np.ndarray) or values.ndim != 2:
        return False
    if values.dtype.kind != "O":
        return values.dtype.kind in "USmM"
    return any(
        not isinstance(value, Real) and value is not None and type(value).__hash__ is not None
        for value in values.flat
    )


def columns_of(X: Any, name: str = "X") -> list[Column]:
    """Return the columns of a frame, or of an array of two dimensions.

    Raises ValueError if a column holds what is neither a number nor a category.
    """
    frame = frame_of(X)
    if frame is not None:
        numbers = _columns_of_numbers(frame, name)
        if numbers is not None:
            return numbers
        # Narwhals types them as those of another of its interfaces.
        found: Iterator[Any] = frame.iter_columns()
        return [_of_series(series, name) for series in found]
    values = np.asarray(X, dtype=object) if isinstance(X, list | tuple) else np.asarray(X)
    return [_of_array(values[:, j], f"{name}[:, {j}]") for j in range(values.shape[1])]


def numbers_of(X: Any, name: str = "X") -> Any:
    """Return the numbers of a frame, or of an array of dates or durations; others as they are.

    They are a sparse matrix where all columns of the frame are sparse.

    Raises ValueError if a column is none of numbers, truth values, dates or durations.
    """
    frame = frame_of(X)
    if frame is None:
        has_times = isinstance(X, np.ndarray) and X.dtype.kind in "mM" and X.ndim == 2
        return _stacked(X, name) if has_times else X
    native = frame.to_native()
    if hasattr(native, "sparse") and all("Sparse" in str(dtype) for dtype in native.dtypes):
        return native.sparse.to_coo()
    if all(dtype.is_integer() or dtype.is_float() for dtype in frame.schema.values()):
        return frame.to_numpy()
    return _stacked(frame, name)


def numbers_in(values: NDArray[Any], title: str) -> NDArray[Any]:
    """Return a column of a file as numbers.

    Raises ValueError if it holds others than numbers, truth values, dates or durations.
    """
    return values if values.dtype.kind in "fiub" else _of_array(values, title).numbers()


def names_of(frame: nw.DataFrame[Any]) -> list[str] | None:
    """Return the names of the columns of a frame; None where they are no text."""
    names = list(frame.columns)
    return names if all(isinstance(name, str) for name in names) else None


def order_of(
    names: Sequence[str], known: Sequence[str], what: str, others: str
) -> NDArray[np.intp] | None:
    """Return where each known column is among the named ones; None where all are in their place.

    Errors call the two `what` and `others`: one of `what` is missing, or there is one more.
    """
    if list(names) == list(known):
        return None
    places = {name: place for place, name in enumerate(names)}
    lacking = [name for name in known if name not in places]
    if lacking:
        raise ValueError(
            f"{what} has no column {lacking[0]!r}, unlike {others}; its columns are {list(names)}: "
            "give all rows the same columns, in any order."
        )
    further = sorted(set(names) - set(known))
    if further:
        raise ValueError(
            f"{what} has a column {further[0]!r}, unlike {others}, whose columns are "
            f"{list(known)}: give all rows the same columns, in any order."
        )
    return np.array([places[name] for name in known])


def in_order_of(X: Any, Y: Any) -> Any:
    """Return `Y` with its columns in the order of those of `X`, where both have names.

    Raises ValueError if one lacks a column of the other.
    """
    frames = frame_of(X), frame_of(Y)
    if frames[0] is None or frames[1] is None:
        return Y
    known, names = names_of(frames[0]), names_of(frames[1])
    if known is None or names is None:
        return Y
    order = order_of(names, known, "Y", "X")
    return Y if order is None else frames[1][:, order.tolist()]


def refuse_text(X: Any, name: str = "X") -> None:
    """Fail where an array holds what is no number; the message names the column.

    Raises ValueError if it does.
    """
    if frame_of(X) is None and is_table(X):
        _stacked(X, name)


def _stacked(X: Any, name: str) -> Array:
    return np.column_stack([column.numbers() for column in columns_of(X, name)])


def chosen(columns: Sequence[Column], rows: NDArray[np.intp]) -> list[Column]:
    """Return some rows of a table."""
    return [column.at(rows) for column in columns]


# What narwhals calls NumPy's kinds of numbers.
_NUMBERS = {"f": "Float", "i": "Int", "u": "UInt"}


def _columns_of_numbers(frame: nw.DataFrame[Any], name: str) -> list[Column] | None:
    """Return the columns of a frame of pandas that holds NumPy's numbers; None of others.

    Column by column, this takes longer than a small prediction.
    """
    native = frame.to_native()
    dtypes = list(getattr(native, "dtypes", ()))
    if not nw.dependencies.is_pandas_dataframe(native) or not all(
        isinstance(dtype, np.dtype) and dtype.kind in "fiu" for dtype in dtypes
    ):
        return None
    values = native.to_numpy(dtype=np.float64)
    nothing = np.isnan(values).all(axis=0)
    return [
        Column(
            f"Column {title!r} of {name}",
            f"{_NUMBERS[dtype.kind]}{8 * dtype.itemsize}",
            "nothing" if is_empty else "numbers",
            column,
        )
        for title, dtype, is_empty, column in zip(
            native.columns.tolist(), dtypes, nothing.tolist(), values.T, strict=True
        )
    ]


def _of_series(series: nw.Series[Any], name: str) -> Column:
    kind = series.dtype
    title, dtype = f"Column {series.name!r} of {name}", str(kind)
    if isinstance(kind, nw.Categorical | nw.Enum):
        values = np.empty(len(series), dtype=object)
        values[:] = series.to_list()
        return _of_categories(values, title, dtype)
    values = series.to_numpy()
    if values.dtype.kind == "O" and isinstance(kind, nw.Unknown):
        if series.is_null().all():
            return Column(title, dtype, "nothing", np.full(len(values), np.nan))
        raise _refusal(title, dtype, values[~_missing(values)][0])
    return _of_array(values, title, dtype)


def _of_array(values: NDArray[Any], title: str, dtype: str | None = None) -> Column:
    dtype = str(values.dtype) if dtype is None else dtype
    if values.dtype.kind in "SU":
        values = _parsed(values)
    kind: Kind
    if values.dtype.kind in "bO":
        kind, found = _of_objects(values.astype(object), title, dtype)
    elif values.dtype.kind in "mM":
        kind = "dates" if values.dtype.kind == "M" else "durations"
        found = _seconds(values)
    elif values.dtype.kind in "fiu":
        kind, found = "numbers", values.astype(np.float64)
    else:
        raise _refusal(title, dtype, (*values, None)[0])
    if kind != "categories" and np.isnan(found).all():
        kind = "nothing"
    return Column(title, dtype, kind, found)


def _parsed(values: NDArray[Any]) -> NDArray[Any]:
    """Return text as numbers where all of it is; an array of text may have been one of numbers."""
    try:
        return values.astype(np.float64)
    except ValueError:
        return values.astype(np.str_).astype(object)


def _of_objects(values: NDArray[Any], title: str, dtype: str) -> tuple[Kind, NDArray[Any]]:
    """Return what objects are, and those as numbers or as categories."""
    missing = _missing(values)
    known = values[~missing]
    types = set(map(type, known))
    numbers = np.full(len(values), np.nan)
    if all(issubclass(t, Real | Decimal) and not issubclass(t, bool) for t in types):
        numbers[~missing] = [float(value) for value in known]
        return "numbers", numbers
    for kind, of_time, unit in _TIMES:
        if all(issubclass(t, of_time) for t in types):
            naive = [_in_utc(value) for value in known]
            numbers[~missing] = _seconds(np.array(naive, dtype=unit))
            return kind, numbers
    column = _of_categories(values, title, dtype)
    return column.kind, column.values


def _of_categories(values: NDArray[Any], title: str, dtype: str) -> Column:
    """Return objects as categories, whatever they are."""
    missing = _missing(values)
    for value in values[~missing]:
        if not _can_be_category(value):
            raise _refusal(title, dtype, value)
    categories = values.copy()
    categories[missing] = None
    return Column(title, dtype, "categories", categories)


def _missing(values: NDArray[Any]) -> NDArray[np.bool_]:
    pandas = sys.modules.get("pandas")
    return np.array([_lacks(value, pandas) for value in values], dtype=bool)


def _lacks(value: Any, pandas: Any) -> bool:
    if value is None or (pandas is not None and value is pandas.NA):
        return True
    try:
        return bool(value != value)
    except (TypeError, ValueError):
        return False


def _can_be_category(value: Any) -> bool:
    """Say whether a value can be told from others, by its hash, and is no amount."""
    try:
        hash(value)
    except TypeError:
        return False
    return isinstance(value, Real) or not isinstance(value, Complex | datetime.time)


def _in_utc(value: Any) -> Any:
    if getattr(value, "tzinfo", None) is None:
        return value
    return value.astimezone(datetime.UTC).replace(tzinfo=None)


def _seconds(times: NDArray[Any]) -> Array:
    """Return dates as seconds since 1970, and durations in seconds; NaN where missing."""
    seconds: Array = (times - _EPOCH if times.dtype.kind == "M" else times) / _SECOND
    return seconds


def _refusal(title: str, dtype: str, value: Any) -> ValueError:
    return ValueError(
        f"{title} holds {type(value).__name__} objects (dtype {dtype}), such as {value!r}, which "
        "are neither numbers nor categories. Give numbers, text, dates or durations instead, or "
        "leave the column out."
    )
