"""Descriptions that functions of all pairs of rows share."""

from __future__ import annotations

_X_AND_Y = """
Parameters
----------
X : {array-like, sparse matrix} of shape (n_samples_X, n_features)
    Histograms or counts: non-negative, finite.
Y : {array-like, sparse matrix} of shape (n_samples_Y, n_features), default=None
    Others; None means `X`, and computes every pair once."""
_N_JOBS = """
n_jobs : int or None, default=None
    Number of threads; None and -1 mean one per core. Results do not depend on it.

Returns
-------"""
_K = """
K : ndarray of shape (n_samples_X, n_samples_Y)
    Kernel matrix; float32 when both arguments are, else float64."""
_D = """
D : ndarray of shape (n_samples_X, n_samples_Y)
    Distances; float32 when both arguments are, else float64."""
_RAISES = """

Raises
------
ValueError
    If an entry is negative, NaN or infinite (the message names it), or the numbers of
    columns differ."""

PAIRS = {
    "X_and_Y": _X_AND_Y,
    "n_jobs_and_K": _N_JOBS + _K + _RAISES,
    "of_a_kernel": _X_AND_Y + _N_JOBS + _K + _RAISES,
    "of_distances": _X_AND_Y + _N_JOBS + _D + _RAISES,
}
