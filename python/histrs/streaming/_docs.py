"""Descriptions of parameters and attributes that models of streams share."""

from __future__ import annotations

from histrs._estimator import by_name

STREAMS = by_name(r"""
moments_ : Moments
    Only after `partial_fit`: the moments of its rows.
alphas_, errors_ : ndarray of shape (n_alphas,)
    The penalties and their errors. `fit` warns when the error is still falling at the smallest
    or the largest of them.
tol : float, default=1e-4
    Largest duality gap at which the descent ends, divided by the mean square of the targets
    (about their mean, with an intercept).
n_jobs : int or None, default=None
    Threads of BLAS while rows are read, and of the descent, which uses at most one for each target.
    None means every core.
dual_gap_ : float or ndarray of shape (n_targets,)
    A bound, up to the rounding of the moments, on how far the objective is above its minimum.
intercept_ : float or ndarray of shape (n_targets,)
    Intercepts.
fit_intercept : bool, default=True
    Whether to learn the intercept `b`, which is not penalised.
verbose : int, default=0
    1 shows the progress of each pass, with tqdm where it is installed.
alpha : float, default=1.0
    Strength :math:`\alpha > 0` of the penalty.
warm_start : bool, default=False
    Whether `fit` starts from `coef_`.
n_components_ : int
    Number of components, of all blocks together.
selection_ : str
    The kind of errors: "loo" or "gcv".
alpha_ : float
    The chosen penalty.
l1_ratio : float, default=1.0
    Fraction :math:`0 < \rho \le 1` of the L1 norm in the penalty.
positive : bool, default=False
    Whether coefficients must not be negative.
""")

PASSES = by_name("""
sample_weight : array-like of shape (n_samples,), default=None
    Weights of the rows; a row of weight 2 is two equal rows, and one of weight 0 is left out.
rows : {ndarray, memmap, sparse matrix, dask array, path, iterable}
    The rows, as `Moments.of` takes them. An iterator is refused if more than one pass is needed.
Y : {array-like of shape (n_rows,) or (n_rows, n_targets), str, list of str}, default=None
    Targets, unless `rows` is an iterable of chunks; for a table, names of its columns or an array.
feature_map : estimator, default=None
    A fitted transformer, applied to a chunk at a time. The model learns from its features.
chunk_size : int, default=4096
    Rows per chunk, unless `rows` is an iterable.
checkpoint : path-like, default=None
    A file for the moments of the first pass, as in `Moments.of`: after an interruption the same
    call goes on from there.
""") | {
    "weights_of_rows": """
sample_weight : {array-like of shape (n_rows,), str}, default=None
    Weights of the rows, as `Moments.of` takes them.
""",
    "rows_to_predict": """
X : {array-like, sparse matrix, path, Table, iterator} of shape (n_samples, n_features)
    Finite rows; with a `feature_map`, rows that it takes. Only the features of a table are read.
""",
    "targets_to_score": """
y : {array-like of shape (n_samples,) or (n_samples, n_targets), str, list of str}, default=None
    Targets, or the names of their columns in a table. None if the rows come with targets.
""",
    "weights_to_score": """
sample_weight : {array-like of shape (n_samples,), str}, default=None
    Weights of the rows, or the name of their column in a table.
""",
    "feature_map_of_fit": """
feature_map : estimator, default=None
    The fitted transformer that `fit_rows` was given, as in `PCARidge.predict`.
""",
}
