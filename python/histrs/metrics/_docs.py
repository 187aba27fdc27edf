"""Descriptions that functions of all pairs of rows share."""

from __future__ import annotations

PAIRS = {
    "X": """
X : {array-like, sparse matrix} of shape (n_samples_X, n_features)
    Histograms: non-negative, finite.
""",
    "Y": """
Y : {array-like, sparse matrix} of shape (n_samples_Y, n_features), default=None
    Other histograms; None means `X`, and computes every pair once.
""",
    "n_jobs": """
n_jobs : int, default=None
    Number of threads; None and -1 mean one per core.
""",
    "errors": """
ValueError
    If an entry is negative, NaN or infinite (the message names it), or the numbers of
    columns differ.
""",
    "K": """
K : ndarray of shape (n_samples_X, n_samples_Y)
    Kernel matrix; float32 when both arguments are, else float64.
""",
    "D": """
D : ndarray of shape (n_samples_X, n_samples_Y)
    Distances; float32 when both arguments are, else float64.
""",
}

COUNTS = {
    "Y": """
Y : {array-like, sparse matrix} of shape (n_samples_Y, n_features), default=None
    Others; None means `X`, and computes every pair once.
""",
    "X": """
X : {array-like, sparse matrix} of shape (n_samples_X, n_features)
    Counts or histograms: non-negative, finite.
""",
}
