"""The functions of features, one at a time, and how sure they are."""

from __future__ import annotations

import numpy as np

from histrs._typing import Array
from histrs.gaussian_process._bound.splines import SmoothScore, SmoothTerm
from histrs.gaussian_process._posterior.posterior import Posterior

# Points at which a function looks smooth.
N_POINTS = 200


def points_of(term: SmoothTerm, posterior: Posterior, feature: int, most: int | None) -> Array:
    """Return evenly spaced values from the least to the largest in training, in units of `X`."""
    weights = posterior.system.kernel.weights
    weight = 1.0 if weights is None else float(weights[feature])
    low = float(term.rows.origins[0])
    high = low + float(term.rows.columns.maxima()[0])
    n = N_POINTS if most is None else most
    return np.unique(np.linspace(low, high, n) / weight)


def feature_function(
    posterior: Posterior, term: SmoothTerm, readout: str, feature: int, values: Array
) -> Array:
    """Return what a feature with these values adds to a readout, of shape (n, n_outputs)."""
    V = posterior.weights @ posterior.readouts[readout].matrix
    rows = _weighted(posterior, feature, values)
    return SmoothScore(term, V).evaluate(rows, term.n_threads)


def feature_variance(posterior: Posterior, term: SmoothTerm, feature: int, values: Array) -> Array:
    """Return the posterior variance of that, exactly, a column for each system."""
    rows = _weighted(posterior, feature, values)
    T = term.shifted(rows)
    variance = posterior.variance_of(term.prior(T), lambda part: term.cross(T[part]))
    roots = posterior.roots_of_bias(
        lambda V: SmoothScore(term, V).evaluate(rows, term.n_threads), len(rows), 0.0
    )
    return variance + roots**2


def _weighted(posterior: Posterior, feature: int, values: Array) -> Array:
    weights = posterior.system.kernel.weights
    column: Array = np.asarray(values, dtype=np.float64)[:, None]
    return column if weights is None else column * weights[feature]
