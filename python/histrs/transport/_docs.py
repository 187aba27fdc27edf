"""Descriptions of parameters that functions on transport share."""

from __future__ import annotations

from histrs._estimator import by_name

TRANSPORT = by_name("""
X : {array-like, sparse matrix} of shape (n_samples_X, n_bins_X)
    Histograms: non-negative, finite, of any mass.
Y : {array-like, sparse matrix} of shape (n_samples_Y, n_bins_Y), default=None
    Other histograms, perhaps over other bins. None means `X`.
M : array-like of shape (n_bins_X, n_bins_Y)
    Cost matrix: non-negative, infinite where transport is forbidden.
reg : float
    Weight of the entropy, in the units of `M`.
max_iter : int, default=1000
    Largest number of iterations for a pair.
return_info : bool, default=False
    Whether to return errors and numbers of iterations as well.
n_jobs : int, default=None
    Number of threads; None and -1 mean one per core.
info : SinkhornInfo
    Only if `return_info`.
positions : array-like of shape (n_bins, n_dimensions)
    Where the bins are.
bounds : ndarray of shape (n_samples_X, n_samples_Y)
    Never above the distance, but for rounding.
""") | {
    "M_of_pair": """
M : array-like of shape (n_bins_a, n_bins_b)
    Cost matrix: non-negative, infinite where transport is forbidden.
""",
    "max_iter_of_pair": """
max_iter : int, default=10000
    Largest number of iterations.
""",
    "warns": """
ConvergenceWarning
    If the error of a pair is above `tol` after `max_iter` iterations. The message names the worst
    pair.
""",
    "warns_of_pair": """
ConvergenceWarning
    If the marginals are not within `tol` after `max_iter` iterations.
""",
    "X_Y_of_bounds": """
X, Y : {array-like, sparse matrix} of shape (n_samples, n_bins)
    Histograms of one common positive sum; `Y` None means `X`.
""",
    "n_jobs_of_checks": """
n_jobs : int, default=None
    Number of threads of the checks.
""",
}
