"""Descriptions of parameters and attributes that nearest neighbours share."""

from __future__ import annotations

from histrs._estimator import by_name

NEIGHBORS = by_name("""
verbose : int, default=0
    Above 0, a progress bar of the search that "auto" runs (tqdm where installed, lines on stderr
    where not).
metric_params : dict or None, default=None
    Further arguments of the metric, such as `M` and `reg` of "sinkhorn".
X_fit_ : {ndarray, CSR matrix} of shape (n_samples, n_features)
    The training data, matrices flattened.
sample_indices_ : ndarray of shape (n_samples,)
    With "precomputed" only: the training samples that the rows of `X_fit_` belong to.
n_jobs : int or None, default=None
    Number of threads; None and -1 mean one per core.
n_features_in_ : int
    Number of features, p * p for matrices of p rows.
n_neighbors_, weights_ : int, str
    The chosen or given values.
metric_ : str or callable
    The metric of the training data.
metric_params_ : dict
    Its further arguments.
""")
