"""Columns of numbers of one scale: missing values, skewed ones and wild ones."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.stats import skew
from sklearn.preprocessing import PowerTransformer

from histrs._typing import Array

# Standard deviations beyond which values count as those there.
_MOST = 6.0
# Columns of more skewness have Yeo-Johnson's transform.
_SKEW = 1.5
# Rows that exponents are learned from: more hardly move them.
_POWER_ROWS = 4096
# Knots of the ranks of a column.
_KNOTS = 1000
# How far apart rows with and without a number are.
_STEP_OF_MISSING = float(np.sqrt(2.0))
# Of values in units of the largest of the fit, the largest; its square is finite.
_LARGEST = 1e150


class NumberColumns:
    """Standardises matrices, and ranks them, as the one it is fitted to asks for.

    Where training rows lack a number, it becomes the mean, and a column of its own tells which
    are missing; where they do not, it stays missing. Skewed
    columns go through the transform of Yeo and Johnson (2000), all are standardised, and clipped at
    six standard deviations. A rank is the part of the training rows that are below, half of those
    that are equal counted in.
    """

    def __init__(self, numbers: Array) -> None:
        self.missing = np.flatnonzero(np.isnan(numbers).any(axis=0))
        self._means = np.array([mean_of_known(column) for column in numbers.T])
        filled = self._filled(numbers)
        self._scale_in = Scale(filled)
        standard = self._scale_in.apply(filled)
        # Of columns that are constant, or nearly, there is no skewness.
        with np.errstate(invalid="ignore", divide="ignore"):
            leaning = np.nan_to_num(skew(standard, axis=0))
        # What has two values is the same after any transform, once it is standardised.
        self._skewed = np.flatnonzero((np.abs(leaning) > _SKEW) & ~have_two_values(filled))
        if len(self._skewed) > 0:
            skewed = standard[:, self._skewed]
            rows = rows_of_powers(skewed)
            # Scikit-learn's own scaling refuses rows so far outside that their power overflows.
            self._powers = PowerTransformer(standardize=False).fit(skewed[rows]).lambdas_
            self._scale_power = Scale(yeo_johnson(skewed, self._powers))
        self._scale_out = Scale(self._straight(standard))
        self._ranks = [_ranks(column) for column in standard.T]

    def apply(self, numbers: Array) -> tuple[Array, Array]:
        """Return the values and the ranks of any rows."""
        missing = np.isnan(numbers)
        gaps = missing.copy()
        gaps[:, self.missing] = False
        standard = self._scale_in.apply(self._filled(numbers))
        values = self._scale_out.apply(self._straight(standard))
        ranks = (
            np.column_stack(
                [np.interp(c, *known) for c, known in zip(standard.T, self._ranks, strict=True)]
            )
            if standard.shape[1]
            else standard
        )
        values[gaps] = ranks[gaps] = np.nan
        marks = missing[:, self.missing].astype(np.float64)
        return np.hstack([values, _STEP_OF_MISSING * marks]), np.hstack([ranks, marks])

    def _filled(self, numbers: Array) -> Array:
        missing = np.isnan(numbers)
        return np.where(missing, self._means, numbers) if missing.any() else numbers

    def _straight(self, standard: Array) -> Array:
        straight = standard.copy()
        if len(self._skewed) > 0:
            with np.errstate(over="ignore"):
                power = yeo_johnson(standard[:, self._skewed], self._powers)
            straight[:, self._skewed] = self._scale_power.apply(power)
        return np.clip(straight, -_MOST, _MOST, out=straight)


def _ranks(column: Array) -> tuple[Array, Array]:
    """Return some of the values of a column, ascending, and their ranks."""
    values, counts = np.unique(column, return_counts=True)
    ranks = (np.cumsum(counts) - 0.5 * counts) / len(column)
    if len(values) > _KNOTS:
        some = np.unique(np.searchsorted(ranks, np.linspace(ranks[0], ranks[-1], _KNOTS)))
        values, ranks = values[some], ranks[some]
    return values, ranks


def yeo_johnson(X: Array, powers: Array | float) -> Array:
    """Return `((1 + x)^p - 1) / p`, of negative numbers `-((1 - x)^(2 - p) - 1) / (2 - p)`."""
    logs = np.log1p(np.abs(X))
    exponents = np.where(X >= 0.0, powers, 2.0 - powers)
    is_log = exponents == 0.0
    exponents[is_log] = 1.0
    straight: Array = np.expm1(logs * exponents) / exponents
    straight[is_log] = logs[is_log]
    np.copysign(straight, X, out=straight)
    return straight


def have_two_values(columns: Array) -> NDArray[np.bool_]:
    """Say which columns have no more than two values."""
    lowest, highest = columns.min(axis=0), columns.max(axis=0)
    two: NDArray[np.bool_] = ((columns == lowest) | (columns == highest)).all(axis=0)
    return two


def rows_of_powers(columns: Array) -> NDArray[np.intp]:
    """Return the rows that exponents are learned from: some, and those of each column's ends."""
    some = np.random.default_rng(0).permutation(len(columns))[:_POWER_ROWS]
    return np.unique(np.concatenate([some, columns.argmin(axis=0), columns.argmax(axis=0)]))


class Scale:
    """Takes the mean and the standard deviation away; constant columns become 0."""

    def __init__(self, X: Array) -> None:
        # Columns of any size are measured at size 1.
        self._size = np.max(np.abs(X), axis=0, initial=0.0)
        self._size[self._size == 0.0] = 1.0
        scaled = X / self._size
        self._mean, spread = scaled.mean(axis=0), scaled.std(axis=0)
        constant = spread <= 1e-12 * np.max(np.abs(scaled), axis=0, initial=0.0)
        self._factor = np.where(constant, 0.0, 1.0 / np.where(constant, 1.0, spread))

    def apply(self, X: Array) -> Array:
        # Where rows are larger than all of the fit by more than numbers can say, as large as those.
        with np.errstate(over="ignore"):
            standard: Array = X / self._size
        np.clip(standard, -_LARGEST, _LARGEST, out=standard)
        standard -= self._mean
        standard *= self._factor
        return standard


def mean_of_known(column: Array) -> float:
    """Return the mean of what is known, also where the sum would overflow."""
    known = column[~np.isnan(column)]
    size = float(np.max(np.abs(known), initial=0.0))
    return float(np.mean(known / size)) * size if size > 0.0 else 0.0
