"""What an additive model is made of: functions of features and of pairs, tables, explanations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.utils import check_scalar

from histrs._typing import Array
from histrs.gaussian_process._posterior.explanation import Explanation, explain
from histrs.gaussian_process._posterior.level_functions import function_of_column
from histrs.gaussian_process._posterior.pair_functions import PairFunction, pair_functions
from histrs.gaussian_process._posterior.posterior import Posterior
from histrs.gaussian_process._posterior.shape_functions import (
    ShapeFunction,
    rows_of_one_feature,
    training_values,
)
from histrs.gaussian_process._posterior.smooth_functions import (
    feature_function,
    feature_variance,
    points_of,
)
from histrs.gaussian_process._posterior.tables import AdditiveTables, tables_of

Spread = Callable[[Array], Array]


def explanation(state: dict[str, Any], X: Any, units: Array, n_threads: int) -> Explanation:
    """Return what each feature and pair adds to rows, of a fitted model."""
    posterior: Posterior = state["_posterior"]
    if not posterior.bound.has_weights:
        _ = posterior.additive
    names = state.get("feature_names_in_")
    if names is None:
        names = np.array([f"x{d}" for d in range(X.shape[1])], dtype=object)
    return explain(posterior, X, names, units, n_threads)


def tables(
    state: dict[str, Any], readout: str, n_bins: int, calibrated: bool, n_threads: int
) -> AdditiveTables:
    """Return a readout of a fitted model as tables."""
    posterior: Posterior = state["_posterior"]
    kernel = posterior.additive.kernel
    n_bins = check_scalar(n_bins, "n_bins", Integral, min_val=2)
    if kernel.is_smooth:
        raise ValueError(
            "Tables are of piecewise linear functions, and those of Splines are smooth: fit "
            "with Intersection()."
        )
    if kernel.transform != "identity":
        raise ValueError(
            f"Intersection(transform={kernel.transform!r}): tables are exact "
            'between their nodes for "identity" alone. Transform features before the fit.'
        )
    classes = state.get("classes_")
    if classes is not None and not calibrated:
        raise ValueError(
            "calibration=None: probabilities need the variance of each row, which is no sum "
            'over features. Fit with calibration="leave-one-out".'
        )
    return tables_of(posterior, readout, n_bins, classes, n_threads)


def functions_of_features(
    state: dict[str, Any],
    features: Sequence[int] | None,
    max_knots: int | None,
    spread: Spread | None,
    n_threads: int,
) -> list[ShapeFunction]:
    """Return the functions of features of a fitted model; `spread` gives units to deviations."""
    posterior: Posterior = state["_posterior"]
    if not posterior.bound.has_weights:
        _ = posterior.additive
    n_features = state["n_features_in_"]
    functions = []
    for feature in range(n_features) if features is None else features:
        if not 0 <= feature < n_features:
            raise ValueError(f"feature {feature} is not in 0..{n_features}.")
        of_feature = posterior, feature, max_knots, spread is not None, n_threads
        knots, values, variance = _function(*of_feature, n_features)
        values = values[:, 0] if values.shape[1] == 1 else values
        std = None if spread is None or variance is None else spread(np.sqrt(variance))
        functions.append(ShapeFunction(feature, knots, values, std))
    return functions


def _function(
    posterior: Posterior,
    feature: int,
    max_knots: int | None,
    with_variance: bool,
    n_threads: int,
    n_features: int,
) -> tuple[Array, Array, Array | None]:
    """Return knots of a feature, its function there, and the variance of that on request."""
    if posterior.bound.has_weights:
        return function_of_column(posterior, feature, max_knots, with_variance=with_variance)
    term = posterior.feature_term(feature)
    if term is not None:
        knots = points_of(term, posterior, feature, max_knots)
        values = feature_function(posterior, term, "mean", feature, knots)
        of_smooth = posterior, term, feature, knots
        return knots, values, feature_variance(*of_smooth) if with_variance else None
    knots = training_values(posterior.bound.X, feature, max_knots)
    rows = rows_of_one_feature(knots, feature, n_features)
    values = posterior.read_features("mean", rows, n_threads)
    return knots, values, posterior.feature_variance(rows) if with_variance else None


def functions_of_pairs(
    state: dict[str, Any], pairs: Any, spread: Spread | None
) -> list[PairFunction]:
    """Return the functions of pairs of a fitted model."""
    return pair_functions(state, pairs, spread)
