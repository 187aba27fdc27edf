"""Descriptions that functions and estimators of covariance matrices share."""

from __future__ import annotations

_MATRICES = """
Parameters
----------
X : array-like of shape (n_samples, p, p) or (n_samples, p * p)
    Symmetric positive definite matrices."""
_NO_Y = """
y : array-like, default=None
    Ignored."""
_WEIGHTS = """
sample_weight : array-like of shape (n_samples,), default=None
    Non-negative weights; None means equal ones."""
_DOMAIN = """
domain : array-like of shape (n_samples,), default=None
    The subject or session of each; None means that there is one."""
_SELF = """

Returns
-------
self : object
    The fitted estimator."""
_N_JOBS = """
n_jobs : int or None, default=None
    Number of threads; None and -1 mean one per core. Results do not depend on it."""
_VERBOSE = """
verbose : int, default=0
    Above 0, a progress bar (tqdm where installed, lines on stderr where not)."""

MATRICES = {
    # ---- functions of pairs
    "X_and_Y": """
X : array-like of shape (n_X, p, p) or (n_X, p * p)
    Symmetric positive definite matrices.
Y : array-like of shape (n_Y, p, p) or (n_Y, p * p), default=None
    Other matrices; None means `X`.
""",
    "paired_and_more": f"""
paired : bool, default=False
    Only compare `X[i]` with `Y[i]`.
on_error : {{"raise", "nan"}}, default="raise"
    Whether a matrix that is not positive definite, or a pair too far apart, is an error, or has
    NaN for its distances.{_N_JOBS}
""",
    "gamma": """
gamma : float or None, default=None
    Kernel coefficient; above 0. None is one over the ``p * (p + 1) / 2`` coordinates of a
    matrix.
""",
    "n_jobs_and_K": f"""{_N_JOBS}

Returns
-------
K : ndarray of shape (n_X, n_Y)
    Kernel matrix, ones on its diagonal; float32 when both arguments are, else float64.
""",
    # ---- means
    "X_and_weights": """
X : array-like of shape (n, p, p) or (n, p * p)
    Symmetric positive definite matrices, at least one.
sample_weight : array-like of shape (n,), default=None
    Non-negative weights, not all 0; None means equal ones.
""",
    "search": f"""
max_iter : int, default=100
    Most iterations; a ConvergenceWarning gives the residual when they did not suffice.
return_n_iter : bool, default=False
    Also return the number of iterations.{_N_JOBS}

Returns
-------
C : ndarray of shape (p, p)
    The mean, in the precision of `X`.
n_iter : int
    With `return_n_iter`: iterations made.
""",
    # ---- estimators
    "updates": f"""
forgetting : float, default=0.0
    Fraction by which each call of `partial_fit` lowers the weight of older matrices; 0 forgets
    nothing.{_N_JOBS}{_VERBOSE}
""",
    "n_jobs": _N_JOBS,
    "verbose": _VERBOSE,
    "n_features_in_": """
n_features_in_ : int
    Number of entries of a matrix, p * p.
""",
    # ---- methods
    "of_matrices": _MATRICES,
    "of_classes": f"""{_MATRICES}
y : array-like of shape (n_samples,)
    Their classes.
""",
    "weights": _WEIGHTS,
    "no_y": _NO_Y,
    "self": _SELF,
    "fit_to_weighted": _MATRICES + _NO_Y + _WEIGHTS + _SELF,
    "of_domains": _MATRICES + _NO_Y + _DOMAIN,
    "domain": _DOMAIN,
    "recentred": """
Returns
-------
X_new : ndarray of shape (n_samples, p, p), or flattened as `X` was
    The recentred matrices, in the precision of `X`.
""",
    "trials": """
Parameters
----------
X : array-like of shape (n_trials, n_channels, n_times)
    Signals.
""",
    # ---- references
    "barachant": """
.. [1] A. Barachant, S. Bonnet, M. Congedo and C. Jutten, "Multiclass brain-computer interface
   classification by Riemannian geometry", IEEE Transactions on Biomedical Engineering 59, 2012.
""",
    "kusner": """
.. [1] M. J. Kusner, N. I. Kolkin, S. Tyree and K. Q. Weinberger, "Image data compression for
   covariance and histogram descriptors", 2015.
""",
}
