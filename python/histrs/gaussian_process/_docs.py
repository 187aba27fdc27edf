"""Descriptions of parameters and attributes that Gaussian processes share."""

from __future__ import annotations

_NOISE = """
noise : float or array-like of shape (n_outputs,), default=0.1
    Noise variance where the search starts, for targets of variance 1.
noise_bounds : pair or "fixed", default=(1e-6, 1e12)
    Least and greatest noise in the search; "fixed" keeps `noise`.
"""
_OPTIMIZER = """
optimizer : {"auto", "l-bfgs-b", "nelder-mead"}, LikelihoodSearch or None, default="auto"
    Search for the largest marginal likelihood; "auto" is "l-bfgs-b". None keeps the given values.
"""
_OPTIMIZER_OF_CLASSES = """
optimizer : {"auto", "leave-one-out", "l-bfgs-b", "nelder-mead"}, LikelihoodSearch or None, \
default="auto"
    "leave-one-out" minimises the error of left-out rows; "auto" takes it for the kernels "tangent"
    and "logeuclid" of covariance matrices. Otherwise "auto" takes "l-bfgs-b". This and
    "nelder-mead" maximise the marginal likelihood. None keeps the given values.
"""
_SOLVING = """
solver : {"auto", "cg", "cholesky", "coordinate-descent", "greedy-block"} or Solver, default="auto"
    "cholesky" factorises the matrix; "cg" runs conjugate gradients; "auto" takes the cheaper. The
    others need additive kernels, and serve comparisons.
tol : float, default=1e-4
    Largest entry of a solver's residual, divided by the largest absolute centred target.
variance : {"auto", "exact", "cached", "fine", "coarse", "coarse-quantized"} or Fine, default="auto"
    How variances are computed. "exact" solves a system per row; "cached" is an approximation with
    an error of `std_error_`; "auto" is "exact" if a system was factorised, else "cached". The
    others are upper bounds for additive kernels (Rodner et al., 2016, eqs. 29 and 30).
n_bins : int, Bins or None, default=None
    For an additive kernel: cells per column of a look-up table, which predicts in constant time;
    None is exact.
random_state : int, RandomState or None, default=None
    Draws starting points, rows and vectors. An int repeats a fit exactly.
"""
_CLASS_WEIGHT = """
class_weight : dict, "balanced" or None, default=None
    Weights of the classes, which multiply the weights of rows. "balanced" makes them inversely
    proportional to the sum of weights of each class.
"""
_LIKELIHOOD = """
likelihood : {"auto", "gaussian", "bernoulli", "softmax"}, default="auto"
    "gaussian" regresses targets +1 and -1. In "bernoulli" (each class against all others) and
    "softmax", functions are logits. Their log loss is lower than with "gaussian", and a fit takes
    about ten times as long. For additive kernels, "auto" is "bernoulli" for two classes of at most
    4,096 rows. It is "softmax" for 3 to 64 classes and at least 400 rows, if
    ``n_samples**3 * n_classes`` is at most 4e10. Otherwise "auto" is "gaussian".
calibration : {"leave-one-out"} or None, default="leave-one-out"
    "leave-one-out" calibrates probabilities on leave-one-out predictions. None gives the
    posterior's probabilities, which are too certain if classes are easily told apart.
"""
_LIKELIHOOD_OF_NUMBERS = """
likelihood : {"gaussian", "poisson", "gamma"}, default="gaussian"
    "gaussian": a target is the process plus noise. "poisson" (counts) and "gamma" (positive
    numbers): the process is the logarithm of the mean of one target. `noise` is then the
    dispersion: the variance over the mean ("poisson", at least 1) or over its square ("gamma").
"""
_EXPOSURE = """
exposure : array-like of shape (n_samples,), default=None
    For counts: a positive factor of the mean of each row, such as a time or a population.
offset : array-like of shape (n_samples,), default=None
    A known part of the process at each row. With "poisson" and "gamma", it is added to the
    logarithm of the mean.
"""
_N_JOBS = """
n_jobs : int or None, default=None
    Number of threads; None and -1 mean one per core. Results do not depend on it.
"""
_VERBOSE = """
verbose : int, default=0
    Above 0, a progress bar.
"""
_CLASSES = """
classes_ : ndarray of shape (n_classes,)
    The class labels.
"""
_ROWS = """
X : {array-like, sparse matrix} of shape (n_samples, n_features)
    Finite rows. Some kernels, such as `Intersection()` and `MinMax()`, need entries that are not
    negative. Kernels of covariance matrices take arrays of shape (n_samples, p, p) too.
"""

GAUSSIAN_PROCESS = {
    "n_jobs": _N_JOBS,
    "verbose": _VERBOSE,
    "rows": _ROWS,
    "additive_attributes": """
feature_transform_, exponent_, feature_weights_, intercept_variance_, smoothness_, slope_weight_, \
rough_weight_, interaction_weight_
    The learned values of the kernel's parameters. `feature_transform_` is the `transform` of
    `Intersection`, `interaction_weight_` is the `weight` of `Interactions`, and `smoothness_` is
    "linear", "cubic" or "both". The others have the name of their parameter.
interactions_, interaction_knots_
    The pairs of features, the strongest first or as they were given, and the knots of each feature
    of a pair.
intercept_ : ndarray of shape (n_outputs,)
    The prediction without the contributions of features and pairs.
quantization_error_bound_ : ndarray of shape (n_outputs,)
    With `n_bins`: a certified bound of the error of any prediction or score.
""",
}
UPDATES = {
    "further_weights": """
sample_weight : array-like of shape (n_samples,), default=None
    Weights of the rows, as in the fit; 1 by default.
""",
    "indices": """
indices : array-like of int
    Numbers of the rows to remove, each once. Rows of positive weight are numbered from 0, in the
    order in which they were given. After a removal, later rows get smaller numbers. Equal rows that
    are not named stay.
""",
}
_SAMPLE_WEIGHT = """
sample_weight : array-like of shape (n_samples,), default=None
    Weights of the rows. The noise variance of a row is divided by its weight; calibration of
    probabilities weighs the row too. A row of weight 3 counts as three equal rows, and rows with
    equal columns and targets count as one row of their total weight. If rows with equal columns
    never differ in their targets, they may be copies of one measurement. To learn the noise, the
    fit therefore divides the weights of such rows by their mean weight. Two copies of every row
    then give the same model as one. A row of weight 0 is left out.
"""
FIT = {
    "y": """
y : array-like of shape (n_samples,) or (n_samples, n_targets)
    Class labels, or targets. With several columns of targets, NaN is a missing target: each column
    learns from the rows that have its target, as if fitted to these alone.
""",
    "sample_weight": _SAMPLE_WEIGHT,
}
CLASSIFICATION_FIT = {
    "sample_weight": _SAMPLE_WEIGHT,
    "classes": """
classes : array-like of shape (n_classes,), default=None
    Class labels that the model keeps, even if no row has them yet. If given, each label in `y` must
    be one of these or a class of the model. None adds the classes in `y`.
""",
}
REGRESSION_FIT = {
    "y": """
y : array-like of shape (n_samples,) or (n_samples, n_targets)
    Targets. With several columns, NaN is a missing target: each column learns from the rows that
    have its target, as if fitted to these alone.
""",
    "sample_weight": _SAMPLE_WEIGHT,
    "exposure": _EXPOSURE,
}


def _joined(*blocks: str) -> str:
    return "".join(block.removeprefix("\n") for block in blocks)


REGRESSION_GP = {
    "parameters": _joined(
        *(_LIKELIHOOD_OF_NUMBERS, _NOISE, _OPTIMIZER, _SOLVING, _N_JOBS, _VERBOSE)
    )
}
CLASSIFICATION_GP = {
    "class_weight": _CLASS_WEIGHT,
    "classes_": _CLASSES,
    "parameters": _joined(
        *(_LIKELIHOOD, _CLASS_WEIGHT, _NOISE, _OPTIMIZER_OF_CLASSES, _SOLVING, _N_JOBS, _VERBOSE)
    ),
}
