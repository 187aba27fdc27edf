"""What one or two features do on average, with the deviations of that average."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from histrs._frames import Column
from histrs._typing import Array
from histrs.gaussian_process._posterior.posterior import Posterior


class PartialDependence(NamedTuple):
    """The mean prediction of rows as a function of one feature of theirs, or of two."""

    features: tuple[int, ...]
    """Indices of the features."""
    grid: tuple[NDArray[Any], ...]
    """Values of each."""
    mean: Array
    """Posterior mean of the average: an axis for each feature, and one for several outputs."""
    std: Array
    """Its posterior standard deviation, without noise, of the shape of `mean`."""


def check_features(features: Any, names: NDArray[Any] | None, n_features: int) -> tuple[int, ...]:
    """Return one feature or two as indices.

    Raises
    ------
    ValueError
        If they are others than the model has, or not one or two.
    """
    given = [features] if isinstance(features, str) or np.ndim(features) == 0 else list(features)
    found = []
    for feature in given:
        if isinstance(feature, str):
            known = [] if names is None else names.tolist()
            if feature not in known:
                raise ValueError(f"There is no feature {feature!r}: choose one of {known}.")
            found.append(known.index(feature))
        elif isinstance(feature, bool) or not isinstance(feature, int | np.integer):
            raise ValueError(f"features = {features!r}: name features by index or by name.")
        elif not 0 <= feature < n_features:
            raise ValueError(f"feature {feature} is not one of 0 to {n_features - 1}.")
        else:
            found.append(int(feature))
    if len(found) not in (1, 2) or len(set(found)) < len(found):
        raise ValueError(f"features = {features!r}: give one feature, or two different ones.")
    return tuple(found)


def grid_of(
    column: Column, feature: int, resolution: int, percentiles: tuple[float, float]
) -> NDArray[Any]:
    """Return the distinct values of a feature, or evenly spaced ones where there are more."""
    known = [value for value in column.objects() if value is not None]
    if not known:
        raise ValueError(f"Feature {feature} is missing in every row of X.")
    if column.kind == "categories":
        return np.array(sorted(set(known), key=str), dtype=object)
    values = np.array(known, dtype=np.float64)
    distinct = np.unique(values)
    if len(distinct) <= resolution:
        return distinct
    low, high = np.quantile(values, percentiles)
    return np.linspace(low, high, resolution)


def with_values(
    columns: Sequence[Column], features: Sequence[int], values: Sequence[Any]
) -> list[Column]:
    """Return columns of which some hold one value in every row."""
    changed = list(columns)
    for feature, value in zip(features, values, strict=True):
        changed[feature] = changed[feature].full_of(value)
    return changed


def averaged(posterior: Posterior, parts: Iterable[NDArray[Any]]) -> tuple[Array, Array]:
    r"""Return mean and standard deviation of the average latent function over groups of rows.

    The average of a Gaussian process over rows :math:`x_r` is Gaussian, with covariance
    :math:`\bar k_i = \frac{1}{R} \sum_r k(x_i, x_r)` with a training row, and variance
    :math:`\frac{1}{R^2} \sum_{r, s} k(x_r, x_s)`. Covariances of the rows with one another count:
    the average of their variances would be too large.

    Parameters
    ----------
    posterior : Posterior
        Of a member.
    parts : iterable of rows as that takes them
        Groups of rows.

    Returns
    -------
    mean : ndarray of shape (n_groups, n_outputs)
        In units in which targets have scale 1.
    std : ndarray of shape (n_groups, n_systems)
        In these units.
    """
    found = [posterior.bound.average(T) for T in parts]
    k = np.ascontiguousarray(np.column_stack([cross for cross, _ in found]))
    prior = np.array([variance for _, variance in found])
    mean = k.T @ posterior.weights
    variance = posterior.variance_of(prior, lambda some: k[:, some])
    return mean, np.sqrt(variance)


def grid_points(grid: Sequence[NDArray[Any]]) -> list[tuple[Any, ...]]:
    """Return all combinations of values, the last feature's fastest."""
    return list(product(*(values.tolist() for values in grid)))
