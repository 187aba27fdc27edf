"""Columns of a table as numbers of one scale: categories, missing values, skewed and wild ones."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import skew
from sklearn.preprocessing import OneHotEncoder, PowerTransformer

from histrs._solvers.block_cg import Array

# Standard deviations beyond which values count as those there.
_MOST = 6.0
# Columns that lean more than this are straightened.
_SKEW = 1.0


class Columns:
    """Turns tables into standardised matrices, as the table it is fitted to asks for.

    Categorical columns of a data frame become one column for each category. A missing number
    becomes the mean, and a column of its own tells which are missing. Skewed columns go through the
    transform of Yeo and Johnson (2000), all are standardised, and clipped at six standard
    deviations.
    """

    def __init__(self, X: Any) -> None:
        names = _categorical(X)
        self._categories = None
        if names:
            self._categories = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
            self._categories.fit(X[names].astype(object))
        self._names = names
        numbers = self._numbers(X)
        self._missing = np.flatnonzero(np.isnan(numbers).any(axis=0))
        self._n_features = X.shape[1]
        self._sources = self._find_sources(X)
        with np.errstate(invalid="ignore"):
            self._means = np.array([_mean(column) for column in numbers.T])
        filled = self._filled(numbers)
        self._scale_in = _Scale(filled)
        standard = self._scale_in.apply(filled)
        self._skewed = np.flatnonzero(np.abs(np.nan_to_num(skew(standard, axis=0))) > _SKEW)
        self._power = None
        if len(self._skewed) > 0:
            self._power = PowerTransformer().fit(standard[:, self._skewed])
        self._scale_out = _Scale(self._straight(standard))

    def apply(self, X: Any) -> Array:
        """Return the standardised matrix of any rows."""
        standard = self._scale_in.apply(self._filled(self._numbers(X)))
        return self._scale_out.apply(self._straight(standard))

    def _find_sources(self, X: Any) -> NDArray[np.intp]:
        """Return which input column each column comes from."""
        if self._categories is None:
            sources = np.arange(X.shape[1])
        else:
            places = {name: place for place, name in enumerate(X.columns)}
            numbers = [places[name] for name in X.columns if name not in self._names]
            sizes = [len(found) for found in self._categories.categories_]
            names = [places[name] for name in self._names]
            sources = np.concatenate([numbers, np.repeat(names, sizes)]).astype(np.intp)
        return np.concatenate([sources, sources[self._missing]])

    def importances(self, diagonal: Array) -> Array:
        """Return the share of each input column in a sum over the columns made of them."""
        shares = np.zeros(self._n_features)
        np.add.at(shares, self._sources, np.maximum(diagonal, 0.0))
        total = shares.sum()
        return shares / total if total > 0.0 else shares

    def _numbers(self, X: Any) -> Array:
        if self._categories is None:
            numbers: Array = np.asarray(X, dtype=np.float64)
            return numbers
        rest = X.drop(columns=self._names).to_numpy(dtype=np.float64)
        return np.hstack([rest, self._categories.transform(X[self._names].astype(object))])

    def _filled(self, numbers: Array) -> Array:
        missing = np.isnan(numbers)
        filled = np.where(missing, self._means, numbers)
        return np.hstack([filled, missing[:, self._missing].astype(np.float64)])

    def _straight(self, standard: Array) -> Array:
        straight = standard.copy()
        if self._power is not None:
            straight[:, self._skewed] = self._power.transform(standard[:, self._skewed])
        return np.clip(straight, -_MOST, _MOST)


class _Scale:
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
        scaled: Array = (X / self._size - self._mean) * self._factor
        return scaled


def _mean(column: Array) -> float:
    known = column[~np.isnan(column)]
    return float(known.mean()) if len(known) > 0 else 0.0


def _categorical(X: Any) -> list[str]:
    """Return the names of the categorical columns of a data frame, none of anything else."""
    if not hasattr(X, "dtypes") or not hasattr(X, "columns"):
        return []
    return [
        name
        for name, dtype in zip(X.columns, X.dtypes, strict=True)
        if str(dtype) in ("category", "object", "string", "str", "bool", "boolean")
    ]


def is_frame_of_categories(X: Any) -> bool:
    """Say whether this is a data frame with columns that are no numbers."""
    return bool(_categorical(X))
