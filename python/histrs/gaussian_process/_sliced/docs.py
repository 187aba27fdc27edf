"""Descriptions of parameters and attributes of processes on projections."""

from __future__ import annotations

SLICED_GP = {
    "n_interactions": """
n_interactions : int, default=24
    Most pairs of columns with directions of their own, eight per pair, beside `n_projections`. Of
    more than 64 columns, the pairs of the 64 that matter most are looked at. 0 looks for none.
""",
    "n_bins": """
n_bins : int, Bins or None, default=None
    Cells per projection of the look-up table that predicts in constant time; None predicts
    exactly.
""",
    "n_jobs": """
n_jobs : int or None, default=None
    Number of threads; results do not depend on it.
""",
    "verbose": """
verbose : int, default=0
    Above 0, progress of the solver.
""",
    "directions_": """
directions_ : ndarray of shape (n_columns, n_directions)
    Directions of the projections; the last are the columns themselves.
""",
    "offsets_": """
offsets_ : ndarray
    What is subtracted from each.
""",
}

SLICED_FIT = {
    "X": """
X : {array-like, data frame} of shape (n_samples, n_features)
    Rows of any sign. NaN is a missing value; columns of a data frame that are no numbers
    are categories.
""",
}
