"""Descriptions of parameters and attributes that prototypes share."""

from __future__ import annotations

from histrs._estimator import by_name

_LABELS = """
classes_ : ndarray of shape (n_classes,)
    The class labels.
prototype_labels_ : ndarray of shape (n_prototypes,)
    Their classes.
"""
SELECTED_PROTOTYPES = by_name("""
n_jobs : int or None, default=None
    Number of threads; None and -1 mean one per core. Results do not depend on it.
compression : int or float, default=0.05
    Number of prototypes of each class, or their fraction of the training samples, at least one
    each.
verbose : int, default=0
    Above 0, a progress bar (tqdm where installed, lines on stderr where not).
random_state : int, RandomState instance or None, default=None
    Draws the order in which samples are looked at.
""") | {
    "neighbours": """
metric : str or callable, default="auto"
    A metric of :class:`~histrs.neighbors.MetricKNNClassifier`; "auto" takes "jbld" for a stack
    of matrices, and "chi2" for rows.
metric_params : dict or None, default=None
    Further arguments of the metric, such as `M` and `reg` of "sinkhorn".
n_neighbors : int, default=1
    Nearest prototypes that vote; among classes with equal votes the nearer one is taken.
""",
    "attributes": f"""{_LABELS}prototypes_ : {{ndarray, CSR matrix}} of shape \
(n_prototypes, n_features) or (n_prototypes, p, p)
    The chosen samples in the order of the choice; their indices for "precomputed".
sample_indices_ : ndarray of shape (n_prototypes,)
    Their indices in the training data.
metric_ : str or callable
    The metric of the training data.
metric_params_ : dict
    Its further arguments.
n_features_in_ : int
    Number of features, p * p for matrices of p rows.
feature_names_in_ : ndarray of shape (n_features,)
    Names of the features, when `X` had string column names.
""",
    "see_also": """
See Also
--------
CovarianceCompressor, HistogramCompressor : Learn prototypes that are no samples.
""",
}

LEARNED_PROTOTYPES = by_name(f"""{_LABELS}class_weight : dict, "balanced" or None, default=None
    Factors of the sample weights of each class; "balanced" makes the sums of all classes equal.
verbose : int, default=0
    Above 0, progress is shown.
""")
