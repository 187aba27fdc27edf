"""Descriptions that functions and estimators of covariance matrices share."""

from __future__ import annotations

MATRICES = {
    # ---- functions of pairs
    "X_of_pairs": """
X : array-like of shape (n_X, p, p) or (n_X, p * p)
    Symmetric positive definite matrices.
""",
    "Y": """
Y : array-like of shape (n_Y, p, p) or (n_Y, p * p), default=None
    Other matrices; None means `X`, and computes every pair once.
""",
    "paired": """
paired : bool, default=False
    Only compare `X[i]` with `Y[i]`.
""",
    "on_error": """
on_error : {"raise", "nan"}, default="raise"
    Whether a matrix that is not positive definite, or a pair too far apart, is an error, or has
    NaN for its distances.
""",
    "K": """
K : ndarray of shape (n_X, n_Y)
    Kernel matrix, ones on its diagonal; float32 when both arguments are, else float64.
""",
    "gamma": """
gamma : float or None, default=None
    Kernel coefficient; above 0. None is one over the ``p * (p + 1) / 2`` coordinates of a
    matrix.
""",
    # ---- means
    "X": """
X : array-like of shape (n, p, p) or (n, p * p)
    Symmetric positive definite matrices, at least one.
""",
    "sample_weight": """
sample_weight : array-like of shape (n,), default=None
    Non-negative weights, not all 0; None means equal ones.
""",
    "max_iter": """
max_iter : int, default=100
    Most iterations; a ConvergenceWarning gives the residual when they did not suffice.
""",
    "return_n_iter": """
return_n_iter : bool, default=False
    Also return the number of iterations.
""",
    "C": """
C : ndarray of shape (p, p)
    The mean, in the precision of `X`.
""",
    "n_iter": """
n_iter : int
    With `return_n_iter`: iterations made.
""",
    # ---- estimators
    "matrices": """
X : array-like of shape (n_samples, p, p) or (n_samples, p * p)
    Symmetric positive definite matrices.
""",
    "trials": """
X : array-like of shape (n_trials, n_channels, n_times)
    Signals.
""",
    "symmetric": """
X : array-like of shape (n_samples, p, p) or (n_samples, p * p)
    Symmetric matrices.
""",
    "no_y": """
y : array-like, default=None
    Ignored.
""",
    "classes": """
y : array-like of shape (n_samples,)
    Their classes.
""",
    "weights": """
sample_weight : array-like of shape (n_samples,), default=None
    Non-negative weights; None means equal ones.
""",
    "domain": """
domain : array-like of shape (n_samples,), default=None
    The subject or session of each; None means that there is one.
""",
    "self": """
Returns
-------
self : object
    The fitted estimator.
""",
    "queries": """
Parameters
----------
X : array-like of shape (n_samples, p, p) or (n_samples, p * p)
    Symmetric positive definite matrices.
""",
    "recentred": """
X_new : ndarray of shape (n_samples, p, p), or flattened as `X` was
    The matrices as the mean of their domain sees them, in the precision of `X`.
""",
    "forgetting": """
forgetting : float, default=0.0
    In `partial_fit`, by how much the weight of older matrices is lowered at each call: 0
    forgets nothing.
""",
    "n_jobs": """
n_jobs : int or None, default=None
    Number of threads; None and -1 mean one per core. Results do not depend on it.
""",
    "verbose": """
verbose : int, default=0
    Above 0, a progress bar (tqdm where installed, lines on stderr where not).
""",
    "n_features_in_": """
n_features_in_ : int
    Number of entries of a matrix, p * p.
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
