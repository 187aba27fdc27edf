"""Which rows a model is fitted to and which it predicts: by what they say, not by their order."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benches.quality.tables import Rows

SIZES = (15, 50, 200, 1000, 3000, 10_000)
# The largest number of rows that a fit gets.
FULL = 60_000
# Sizes up to this one have three splits, larger ones one.
OFTEN = 3000
# Sizes near the full one would say the same again.
_NEAR_FULL = 0.6
TEST_SHARE = 0.25
# Rows to predict, where training leaves more.
MOST_TEST = 10_000
# Of every class in training.
FEWEST = 2

Indices = NDArray[np.intp]
_MIX = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))


class Split(NamedTuple):
    """Rows to fit and rows to predict."""

    size: str
    """What the page calls it: a number of rows, or "full"."""
    seed: int
    train: Indices
    test: Indices


def splits(rows: Rows, *, has_classes: bool) -> Iterator[Split]:
    """Yield all splits of a table, those of few rows first.

    Parts of classes are proportional; a size is left out where one class has fewer than two rows.
    A group is never on both sides.
    """
    content = _content(rows)
    n_left = int((1.0 - TEST_SHARE) * len(content))
    sizes = [(str(size), size) for size in SIZES if size < _NEAR_FULL * n_left]
    for name, size in [*sizes, ("full", min(n_left, FULL))]:
        for seed in range(3 if size <= OFTEN else 1):
            keys = _mixed(content, seed)
            if has_classes:
                keys = _by_class(keys, rows.y)
            train, test = _parts(keys, rows.groups, size, seed)
            if (
                has_classes
                and np.bincount(rows.y[train], minlength=rows.y.max() + 1).min() < FEWEST
            ):
                continue
            yield Split(name, seed, train, test)


def _parts(
    keys: NDArray[np.float64], groups: NDArray[np.int64] | None, size: int, seed: int
) -> tuple[Indices, Indices]:
    """Return the rows of least key to fit, and of the others some to predict."""
    order = np.argsort(keys, kind="stable")
    if groups is None:
        return order[:size], order[size:][-_n_test(len(keys), len(keys) - size) :]
    # Groups that are put aside; of the others, those without training rows are predicted too.
    of_group = _mixed(groups.astype(np.uint64), seed)
    by_group = np.argsort(of_group, kind="stable")
    put_aside = np.unique(groups[by_group[int((1.0 - TEST_SHARE) * len(groups)) :]])
    free = order[~np.isin(groups[order], put_aside)]
    train = free[:size]
    rest = order[~np.isin(groups[order], groups[train])]
    return train, rest[-_n_test(len(keys), len(rest)) :]


def _n_test(n_rows: int, n_left: int) -> int:
    """Return a quarter of the rows, or up to `MOST_TEST` where more are left."""
    return min(n_left, max(int(TEST_SHARE * n_rows), MOST_TEST))


def _by_class(keys: NDArray[np.float64], codes: NDArray[np.intp]) -> NDArray[np.float64]:
    """Return keys by which the first rows, how many ever, have every class in proportion."""
    placed = np.empty(len(keys))
    for code in np.unique(codes):
        rows = np.flatnonzero(codes == code)
        placed[rows[np.argsort(keys[rows], kind="stable")]] = (np.arange(len(rows)) + 0.5) / len(
            rows
        )
    # Classes of as many rows: by chance.
    return placed + 1e-9 * keys


def _content(rows: Rows) -> NDArray[np.uint64]:
    """Return a number for what a row says, and for the how-manieth that says it."""
    # Versions of pandas read dates in different units.
    dates = {c: rows.X[c].astype("datetime64[us]") for c in rows.X.select_dtypes("datetime")}
    frame = rows.X.assign(**dates, **{"the target": rows.y})
    said = pd.util.hash_pandas_object(frame, index=False).to_numpy()
    nth = pd.Series(said).groupby(said).cumcount().to_numpy().astype(np.uint64)
    return said + _MIX[0] * nth


def _mixed(numbers: NDArray[np.uint64], seed: int) -> NDArray[np.float64]:
    """Return a pseudo-random number in [0, 1) for each (Steele, Lea and Flood 2014, SplitMix64)."""
    with np.errstate(over="ignore"):
        z = numbers + _MIX[0] * np.uint64(seed + 1)
        z = (z ^ (z >> np.uint64(30))) * _MIX[1]
        z = (z ^ (z >> np.uint64(27))) * _MIX[2]
        z ^= z >> np.uint64(31)
    return z / 2.0**64
