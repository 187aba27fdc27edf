"""Columns of numbers of one scale: missing values, skewed ones and wild ones."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.stats import skew
from sklearn.preprocessing import PowerTransformer

from histrs._typing import Array
from histrs.gaussian_process._tabular.numbers import (
    Scale,
    have_two_values,
    mean_of_known,
    rows_of_powers,
    yeo_johnson,
)

# Standard deviations beyond which values count as those there.
_MOST = 6.0
# Columns that lean more than this are straightened.
_SKEW = 1.0
# Variance of the columns of one categorical feature together: that of one of numbers.
_VARIANCE_OF_CATEGORIES = 1.0
# How far, squared, what marks a missing number takes a row from one that has it: as much as rows
# differ in a column on average, however few such rows there are.
_STEP_OF_MISSING = 2.0


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
        self._shares = np.ones(filled.shape[1])
        self._most = np.full(filled.shape[1], _MOST)
        if sources is not None:
            is_category = np.bincount(sources)[sources] > 1
            self._shares[: len(sources)] = _shares(numbers, sources, is_category)
            self._most[: len(sources)][is_category] = np.inf
        n_numbers = numbers.shape[1]
        self._shares[n_numbers:] = np.sqrt(_STEP_OF_MISSING * filled[:, n_numbers:].var(axis=0))
        self._most[n_numbers:] = np.inf
        self._scale_out = Scale(self._straight(standard))

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
                power = yeo_johnson(standard[:, self._skewed], self._powers)
            straight[:, self._skewed] = self._scale_power.apply(power)
        return np.clip(straight, -self._most, self._most, out=straight)


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


def importances(sources: NDArray[np.intp], diagonal: Array, n_features: int) -> Array:
    """Return the share of each feature in a sum over the columns that are made of them."""
    shares = np.zeros(n_features)
    np.add.at(shares, sources, np.maximum(diagonal, 0.0))
    total = float(shares.sum())
    return shares / total if total > 0.0 else shares
