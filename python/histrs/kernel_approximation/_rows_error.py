"""Errors of rows with themselves, and poles of the rational map that make them small.

The kernel of a row with itself is its sum, of which the map leaves out sum_d x_d R(x_d)^2. The
poles here make the mean over rows of that, relative to the sum, small: every row counts alike,
however large its values are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from histrs import _histrs
from histrs._checks.sparse import is_sparse
from histrs._checks.validation import to_core
from histrs._typing import Array, Matrix
from histrs.kernel_approximation._out import csr_result
from histrs.kernel_approximation._zolotarev import zolotarev_poles

# Of values up to this the sum of a row is finite.
_HUGE = 1e290
# Rows mapped at once.
_CHUNK = 256
# Rows that are looked at, and positions between the ends where their values are counted.
_ROWS = 4096
_BINS = 128
# Candidates for an end of the interval of the poles, and rounds of a search for both ends.
_CANDIDATES = 24
_ROUNDS = 3
# Ratios of ends whose square is a normal number.
_SMALLEST_RATIO = 1e-150
# The largest value counts as much as this part of the rows: it may be in one row alone.
_LARGEST_SHARE = 0.01


@dataclass(frozen=True)
class Shares:
    """How the sums of rows are made up of values: one column for all features, or one for each."""

    values: Array
    """Positions on the axis of values, (n_bins, n_columns)."""
    shares: Array
    """The fraction of the sum of a row that is near each position, as a mean over rows."""

    @classmethod
    def of(cls, X: Matrix, low: Array, high: Array) -> Shares:
        """Count the values of up to 4,096 rows, evenly spaced, between positive ends."""
        n_columns = len(low)
        chosen = np.unique(np.linspace(0, X.shape[0] - 1, _ROWS).astype(np.intp))
        rows, columns, values = _entries(X[chosen])
        # Relative to the largest of the row, of which a sum neither overflows nor vanishes.
        largest = np.zeros(len(chosen))
        np.maximum.at(largest, rows, values)
        parts = values / largest[rows]
        weights = parts / np.bincount(rows, weights=parts, minlength=len(chosen))[rows]
        columns = columns if n_columns > 1 else np.zeros_like(columns)
        length = np.log(high) - np.log(low)
        position = np.zeros(len(values))
        apart = length[columns] > 0
        offset = np.log(values[apart]) - np.log(low[columns[apart]])
        position[apart] = offset / length[columns[apart]]
        bins = np.clip(np.rint(position * (_BINS - 1)), 0, _BINS - 1).astype(np.intp)
        counted = np.bincount(
            bins * n_columns + columns, weights=weights, minlength=_BINS * n_columns
        )
        counted = counted.astype(np.float64).reshape(_BINS, n_columns)
        total = counted.sum(axis=0)
        shares = np.divide(counted, total, out=np.zeros_like(counted), where=total > 0)
        steps = np.linspace(0.0, 1.0, _BINS)[:, None]
        # The exponential of a logarithm may underflow where the least value does not.
        return cls(np.maximum(np.exp(np.log(low) + steps * length), low), shares)

    def left_out(self, poles: Array) -> Array:
        """Return what poles, (n_poles, n_columns), leave out of rows, one number per column."""
        rest = np.ones_like(self.values)
        for pole in poles:
            rest *= (self.values - pole) / (self.values + pole)
        squares = np.square(rest)
        mean: Array = np.sum(self.shares * squares, axis=0) + _LARGEST_SHARE * squares[-1]
        return mean


def _entries(X: Any) -> tuple[NDArray[np.intp], NDArray[np.intp], Array]:
    """Return rows, columns and values of what is positive."""
    if is_sparse(X):
        coordinates = X.tocoo()
        rows, columns, values = coordinates.row, coordinates.col, coordinates.data
        positive = values > 0
        rows, columns, values = rows[positive], columns[positive], values[positive]
    else:
        rows, columns = np.nonzero(X)
        values = X[rows, columns]
    return rows.astype(np.intp), columns.astype(np.intp), values.astype(np.float64)


def row_poles(shares: Shares, low: Array, high: Array, n_poles: int) -> Array:
    """Return Zolotarev's poles for a part of [low, high] that leaves little out of rows."""
    low = np.maximum(low, _SMALLEST_RATIO * high)
    below, above = low, high
    steps = np.linspace(0.0, 1.0, _CANDIDATES)
    for _ in range(_ROUNDS):
        ends = np.exp(np.log(low) + steps[:, None] * (np.log(above) - np.log(low)))
        below = _best(shares, [(np.minimum(end, above), above) for end in ends], n_poles)[0]
        ends = np.exp(np.log(below) + steps[:, None] * (np.log(high) - np.log(below)))
        above = _best(shares, [(below, np.maximum(below, end)) for end in ends], n_poles)[1]
    return zolotarev_poles(below, above, n_poles)


def _best(shares: Shares, ends: list[tuple[Array, Array]], n_poles: int) -> tuple[Array, Array]:
    """Return the ends that leave the least out, for each column by itself."""
    left = np.array([shares.left_out(zolotarev_poles(a, b, n_poles)) for a, b in ends])
    best, columns = np.argmin(left, axis=0), np.arange(left.shape[1])
    below, above = (np.array([end[i] for end in ends])[best, columns] for i in (0, 1))
    return below, above


def relative_error(
    core: _histrs.AdditiveMap,
    X: Matrix,
    n_threads: int,
    domain: Array | None = None,
    *,
    inside: bool = False,
) -> float:
    """Return the largest relative error of the kernel of a row with itself.

    With a domain, of which there is one for all columns or one for each, only the values outside
    are counted, or those inside.
    """
    largest = 0.0
    for start in range(0, X.shape[0], _CHUNK):
        errors = _errors(core, X[start : start + _CHUNK], n_threads, domain, inside)
        largest = max(largest, float(errors.max(initial=0.0)))
    return largest


def _errors(
    core: _histrs.AdditiveMap, rows: Any, n_threads: int, domain: Array | None, inside: bool
) -> Array:
    # In a unit in which sums stay within the range; a power of 2 rounds nothing.
    huge = rows.dtype == np.float64 and rows.max() > _HUGE
    root = 2.0**-64 if huge else 1.0
    sums = _row_sums(rows * root**2)
    if domain is not None:
        rows = _part(rows, domain, inside)
    features: Any = core.transform(to_core(rows), n_threads)
    if isinstance(features, tuple):
        features = csr_result(features, rows.shape[0])
    features = features * root
    lost = np.abs(_row_sums(rows * root**2) - _row_sums(features * features))
    errors: Array = np.divide(lost, sums, out=np.zeros_like(sums), where=sums > 0)
    return errors


def _row_sums(X: Any) -> Array:
    # SciPy adds the entries of a sparse row in their own precision, whatever `dtype` is.
    X = X.astype(np.float64) if is_sparse(X) else X
    return np.asarray(X.sum(axis=1, dtype=np.float64), dtype=np.float64).ravel()


def _part(X: Any, domain: Array, inside: bool) -> Any:
    """Return rows with zeros where values are not in the domain, or are not outside it."""
    if not is_sparse(X):
        within = (domain[0] <= X) & (domain[1] >= X)
        return np.where(within == inside, X, np.zeros((), dtype=X.dtype))
    low, high = (end if len(end) == 1 else end[X.indices] for end in domain)
    kept = X.copy()
    within = (low <= X.data) & (high >= X.data)
    kept.data[within != inside] = 0
    return kept
