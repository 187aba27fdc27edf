"""Values that training rows had, and rows to predict lack: all that are plausible take a part."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from histrs._typing import Array
from histrs.gaussian_process._tabular.rows import TableRows

# Training rows whose values are taken, of few and of many rows.
_DONORS = (48, 24)
_MANY_ROWS = 500
# Distances that are in memory at once.
_ENTRIES = 1 << 22


class Filled(NamedTuple):
    """Each row with several fillings."""

    rows: TableRows
    """Fillings of the first row, then of the second, and so on."""
    weights: Array
    """Of shape (n_rows, n_fillings); each row sums to 1."""


def has_gaps(rows: TableRows) -> NDArray[np.bool_]:
    """Say which rows lack a value that all training rows had."""
    return np.asarray(np.isnan(rows.with_values).any(axis=1))


def filled(rows: TableRows, training: TableRows) -> Filled:
    r"""Return rows with what they lack taken from training rows that are near in what they have.

    Weights are :math:`e^{-d^2 / 2 m}` with `m` the median of :math:`d^2` of a row.
    """
    n, n_training = len(rows.values), len(training.values)
    k = min(_DONORS[int(n_training > _MANY_ROWS)], n_training)
    donors = np.empty((n, k), dtype=np.intp)
    weights = np.empty((n, k))
    size = max(1, _ENTRIES // n_training)
    for start in range(0, n, size):
        some = slice(start, start + size)
        squares = _squares(rows.at(np.arange(n)[some]), training)
        nearest = np.argpartition(squares, k - 1, axis=1)[:, :k]
        near = np.take_along_axis(squares, nearest, axis=1)
        middle = np.median(near, axis=1, keepdims=True)
        found = np.exp(-0.5 * near / np.where(middle > 0.0, middle, 1.0))
        donors[some], weights[some] = nearest, found / found.sum(axis=1, keepdims=True)
    repeated = rows.at(np.repeat(np.arange(n), k))
    return Filled(repeated.filled(training.at(donors.ravel())), weights)


def _squares(rows: TableRows, training: TableRows) -> Array:
    """Return squared distances to training rows, by the columns that each row has."""
    known = (~np.isnan(rows.values)).astype(np.float64)
    values = np.where(known > 0.0, rows.values, 0.0)
    squares = (values**2).sum(axis=1)[:, None] + known @ (training.values**2).T
    squares -= 2.0 * values @ training.values.T
    for own, of_training in zip(rows.codes.T, training.codes.T, strict=True):
        # Two categories are as far apart as two numbers on average.
        squares += 2.0 * ((own[:, None] != of_training) & ~np.isnan(own)[:, None])
    return np.asarray(np.maximum(squares, 0.0))
