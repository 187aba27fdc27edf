"""Monotone functions of columns: those of the posterior, each projected."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.isotonic import isotonic_regression

from histrs._typing import Array
from histrs.gaussian_process._bound.levels import LevelBound
from histrs.gaussian_process._systems.system import System

# Draws of a function, in pairs on either side of its mean.
_PAIRS = 100


def with_monotone_functions(system: System, weights: Array, seed: Callable[[], int]) -> System:
    r"""Return the system with the monotone functions that weights of training rows stand for.

    Functions are drawn from the posterior of a column. Each is replaced by the nearest monotone
    function, in squares at the training rows. Their mean is the function of the column. The
    posterior of a Gaussian process that is projected so is of L. Lin and D. B. Dunson, "Bayesian
    monotone regression using Gaussian process projection", Biometrika, 2014. A prior of monotone
    functions would not do: independent increments of one sign add up to a slope.
    """
    bound, kernel = system.bound, system.kernel
    if not isinstance(bound, LevelBound) or not kernel.signs:
        return system
    W = bound.weights_of_functions(weights)[:, 0]
    rng = np.random.default_rng(seed())
    curves = {}
    for k, sign in kernel.signs:
        column, _, of_term = kernel.columns[k]
        covariance = system.amplitude * system.factor.covariance_of(of_term)
        drawn = _draws(W[of_term], covariance, rng)
        curves[k] = _projected(np.asarray(column.functions @ drawn), column.counts, sign)
    changed = replace(system, bound=bound.with_kernel(kernel.with_curves(curves)))
    vars(changed)["factor"] = system.factor
    return changed


def _draws(mean: Array, covariance: Array, rng: np.random.Generator) -> Array:
    """Return draws from a normal distribution, a column each."""
    variances, directions = np.linalg.eigh(covariance)
    roots = np.sqrt(np.maximum(variances, 0.0))
    away = (directions * roots) @ rng.normal(size=(len(mean), _PAIRS))
    return np.hstack([mean[:, None] + away, mean[:, None] - away])


def _projected(functions: Array, counts: Array, sign: int) -> Array:
    """Return the mean of functions that are made monotone, each a column with a row for a code."""
    options: dict[str, Any] = {"sample_weight": counts, "increasing": sign > 0}
    mean = np.mean([isotonic_regression(f, **options) for f in functions.T], axis=0)
    # Sums of monotone numbers are rounded.
    return np.asarray(sign * np.maximum.accumulate(sign * mean))
