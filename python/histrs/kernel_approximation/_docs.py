"""Descriptions of parameters and attributes that kernel maps share."""

from __future__ import annotations

from histrs._estimator import by_name

MAPS = by_name("""
kernel : str or callable, default="intersection"
    A kernel of `histrs.metrics`, one of "intersection", "chi2" (the additive one), "hellinger",
    "jensen_shannon", "exp_chi2" and "minmax", or a function `(X, Z)` to an array of shape
    `(n_X, n_Z)`.
landmarks : {"kmeans", "sample"} or array-like of shape (D, n_features), default="kmeans"
    "kmeans" takes the centres of k-means, by Euclidean distance whatever the kernel. "sample" draws
    rows at random. An array gives the landmarks, and `n_landmarks` then does not matter.
kernel_, kernel_params_ : str or callable, dict
    The kernel of the fitted map, and its arguments. A later `set_params` does not change them.
inner_product_ : InnerProduct
    Products and solves with :math:`K_{ZZ}`, or with the identity when `whiten` is set.
kernel_params : dict, default=None
    More arguments of the kernel, such as `{"gamma": 2.0}` for "exp_chi2".
random_state : int, RandomState instance or None, default=None
    For k-means or the sample.
verbose : int, default=0
    Above 0, the k-means of scikit-learn prints its iterations.
n_landmarks : int, default=100
    Number of landmarks; no more than there are rows.
landmarks_ : {ndarray, sparse array} of shape (D, n_features)
    The landmarks.
n_jobs : int, default=None
    Number of threads; None and -1 mean one per core.
n_features_in_ : int
    Number of columns.
""")
