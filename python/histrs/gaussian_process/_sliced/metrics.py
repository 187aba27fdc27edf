"""Metrics over standardised columns that rows tell without their targets."""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np
from scipy import linalg

from histrs._typing import Array

MetricName: TypeAlias = Literal["learned", "identity", "pca", "whitened"]

# Part of the variance that principal components are kept for.
_KEPT = 0.99
# Columns of which so few components carry that part are nearly combinations of one another.
_FEW = 0.25
# Components whose variance is a smaller part of the mean one count as that.
_FAINT = 0.01


def first_metric(name: MetricName, A: Array, spreads: Array) -> Array:
    """Return the metric of a name, of trace `n_columns`: before any step, where it is learned.

    Parameters
    ----------
    name : {"learned", "identity", "pca", "whitened"}
        The parameter of the estimators.
    A : ndarray of shape (n_samples, n_columns)
        Standardised columns.
    spreads : ndarray of shape (n_columns,)
        Their standard deviations before, in any unit.
    """
    if name == "pca":
        return _of_components(A, spreads)
    if name == "whitened":
        return _whitened(A)
    return np.eye(A.shape[1])


def are_collinear(A: Array) -> bool:
    """Say whether few principal components carry nearly all variance of the columns.

    Spectra are such: what tells them apart may be in components of little variance, which the
    isotropic metric hardly sees.
    """
    variances: Array = np.asarray(linalg.eigvalsh(_covariance(A)), dtype=np.float64)
    return bool(variances[-1] > 0.0) and _n_kept(variances) <= _FEW * len(variances)


def _of_components(A: Array, spreads: Array) -> Array:
    """Return that of columns in their own units, on components that carry nearly all variance."""
    variances, V = linalg.eigh(_covariance(A * spreads))
    kept = V[:, -_n_kept(variances) :] * spreads[:, None]
    return _of_trace(kept @ kept.T)


def _n_kept(variances: Array) -> int:
    """Return how many principal components carry nearly all variance, given in ascending order."""
    share = np.cumsum(variances[::-1])
    return 1 + int(np.searchsorted(share, _KEPT * share[-1]))


def _whitened(A: Array) -> Array:
    """Return the inverse covariance, in which principal components have one variance."""
    variances, V = linalg.eigh(_covariance(A))
    least = _FAINT * float(np.mean(variances))
    if not least > 0.0:
        return np.eye(A.shape[1])
    return _of_trace((V / np.maximum(variances, least)) @ V.T)


def _covariance(A: Array) -> Array:
    centred = A - A.mean(axis=0)
    return np.asarray(centred.T @ centred / len(A))


def _of_trace(G: Array) -> Array:
    """Return a metric of trace `n_columns`; the identity where there is no other."""
    trace = float(np.trace(G))
    return G * (len(G) / trace) if trace > 0.0 else np.eye(len(G))
