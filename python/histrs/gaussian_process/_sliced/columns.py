"""Columns of numbers of one scale: missing values, skewed ones and wild ones."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.stats import skew
from sklearn.preprocessing import PowerTransformer

from histrs._solvers.block_cg import Array

# Standard deviations beyond which values count as those there.
_MOST = 6.0
# Columns that lean more than this are straightened.
_SKEW = 1.0
# Rows that exponents are learned from: more hardly move them.
_POWER_ROWS = 4096
# Variance of the columns of one categorical feature together: that of one of numbers.
_VARIANCE_OF_CATEGORIES = 1.0
# How far, squared, what marks a missing number takes a row from one that has it: as much as rows
# differ in a column on average, however few such rows there are.
_STEP_OF_MISSING = 2.0
# Of values in units of the largest of the fit, the largest; its square is finite.
_LARGEST = 1e150
_SMALLEST = float(np.finfo(np.float64).tiny)


class Columns:
    """Standardises matrices as the one it is fitted to asks for.

    A missing number becomes the mean, and a column of its own tells which are missing, by a step
    of one size, whatever their number. Skewed columns go through the transform of Yeo and Johnson
    (2000), all are standardised, and clipped at six standard deviations. Columns of one source,
    which are indicators of categories, share one scale: a category of few rows is no further from
    the others than one of many.
    """

    def __init__(self, numbers: Array, sources: NDArray[np.intp] | None = None) -> None:
        self._missing = np.flatnonzero(np.isnan(numbers).any(axis=0))
        self._means = np.array([_mean(column) for column in numbers.T])
        filled = self._filled(numbers)
        self._scale_in = _Scale(filled)
        standard = self._scale_in.apply(filled)
        # Of columns that are constant, or nearly, there is no skewness.
        with np.errstate(invalid="ignore", divide="ignore"):
            leaning = np.nan_to_num(skew(standard, axis=0))
        # What has two values is the same after any transform, once it is standardised.
        self._skewed = np.flatnonzero((np.abs(leaning) > _SKEW) & ~_have_two_values(filled))
        if len(self._skewed) > 0:
            skewed = standard[:, self._skewed]
            rows = _rows_of_powers(skewed)
            # Scikit-learn's own scaling refuses rows so far outside that their power overflows.
            self._powers = PowerTransformer(standardize=False).fit(skewed[rows]).lambdas_
            self._scale_power = _Scale(_yeo_johnson(skewed, self._powers))
        self._shares = np.ones(filled.shape[1])
        self._most = np.full(filled.shape[1], _MOST)
        if sources is not None:
            is_category = np.bincount(sources)[sources] > 1
            self._shares[: len(sources)] = _shares(numbers, sources, is_category)
            self._most[: len(sources)][is_category] = np.inf
        n_numbers = numbers.shape[1]
        self._shares[n_numbers:] = np.sqrt(_STEP_OF_MISSING * filled[:, n_numbers:].var(axis=0))
        self._most[n_numbers:] = np.inf
        self._scale_out = _Scale(self._straight(standard))

    def apply(self, numbers: Array) -> Array:
        """Return the standardised matrix of any rows."""
        standard = self._scale_in.apply(self._filled(numbers))
        scaled = self._scale_out.apply(self._straight(standard))
        scaled *= self._shares
        return scaled

    @property
    def spreads(self) -> Array:
        """Standard deviations of the columns before, in units of the largest number that varies."""
        spreads: Array = self._scale_in.spreads
        return spreads

    def sources(self, of_numbers: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return what each column comes from, given that of each column of numbers."""
        return np.concatenate([of_numbers, of_numbers[self._missing]])

    def _filled(self, numbers: Array) -> Array:
        missing = np.isnan(numbers)
        if not missing.any() and len(self._missing) == 0:
            return numbers
        filled = np.where(missing, self._means, numbers)
        return np.hstack([filled, missing[:, self._missing].astype(np.float64)])

    def _straight(self, standard: Array) -> Array:
        straight = standard.copy()
        if len(self._skewed) > 0:
            with np.errstate(over="ignore"):
                power = _yeo_johnson(standard[:, self._skewed], self._powers)
            straight[:, self._skewed] = self._scale_power.apply(power)
        return np.clip(straight, -self._most, self._most, out=straight)


def _yeo_johnson(X: Array, powers: Array) -> Array:
    """Return `((1 + x)^p - 1) / p`, of negative numbers `-((1 - x)^(2 - p) - 1) / (2 - p)`."""
    logs = np.log1p(np.abs(X))
    exponents = np.where(X >= 0.0, powers, 2.0 - powers)
    is_log = exponents == 0.0
    exponents[is_log] = 1.0
    straight: Array = np.expm1(logs * exponents) / exponents
    straight[is_log] = logs[is_log]
    np.copysign(straight, X, out=straight)
    return straight


def _have_two_values(columns: Array) -> NDArray[np.bool_]:
    """Say which columns have no more than two values."""
    lowest, highest = columns.min(axis=0), columns.max(axis=0)
    two: NDArray[np.bool_] = ((columns == lowest) | (columns == highest)).all(axis=0)
    return two


def _shares(numbers: Array, sources: NDArray[np.intp], is_category: NDArray[np.bool_]) -> Array:
    """Return standard deviations of columns: 1, or of categories those of one unit."""
    shares = np.ones(len(sources))
    for source in np.unique(sources[is_category]):
        own = np.flatnonzero(sources == source)
        variances = numbers[:, own].var(axis=0)
        total = float(variances.sum())
        if total > 0.0:
            shares[own] = np.sqrt(_VARIANCE_OF_CATEGORIES * variances / total)
    return shares


def _rows_of_powers(columns: Array) -> NDArray[np.intp]:
    """Return the rows that exponents are learned from: some, and those of each column's ends."""
    some = np.random.default_rng(0).permutation(len(columns))[:_POWER_ROWS]
    return np.unique(np.concatenate([some, columns.argmin(axis=0), columns.argmax(axis=0)]))


class _Scale:
    """Takes the mean and the standard deviation away; constant columns become 0."""

    def __init__(self, X: Array) -> None:
        # Columns of any size are measured at size 1.
        self._size = np.max(np.abs(X), axis=0, initial=0.0)
        self._size[self._size == 0.0] = 1.0
        scaled = X / self._size
        self._mean, spread = scaled.mean(axis=0), scaled.std(axis=0)
        constant = spread <= 1e-12 * np.max(np.abs(scaled), axis=0, initial=0.0)
        # In a unit in which squares neither overflow nor vanish.
        sizes = np.where(constant, 0.0, self._size)
        self.spreads = spread * (sizes / max(float(np.max(sizes, initial=0.0)), _SMALLEST))
        self._factor = np.where(constant, 0.0, 1.0 / np.where(constant, 1.0, spread))

    def apply(self, X: Array) -> Array:
        # Where rows are larger than all of the fit by more than numbers can say, as large as those.
        with np.errstate(over="ignore"):
            standard: Array = X / self._size
        np.clip(standard, -_LARGEST, _LARGEST, out=standard)
        standard -= self._mean
        standard *= self._factor
        return standard


def _mean(column: Array) -> float:
    """Return the mean of what is known, also where the sum would overflow."""
    known = column[~np.isnan(column)]
    size = float(np.max(np.abs(known), initial=0.0))
    return float(np.mean(known / size)) * size if size > 0.0 else 0.0


def importances(sources: NDArray[np.intp], diagonal: Array, n_features: int) -> Array:
    """Return the share of each feature in a sum over the columns that are made of them."""
    shares = np.zeros(n_features)
    np.add.at(shares, sources, np.maximum(diagonal, 0.0))
    total = float(shares.sum())
    return shares / total if total > 0.0 else shares
