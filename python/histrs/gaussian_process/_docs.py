"""Descriptions of parameters and attributes that Gaussian processes share."""

from __future__ import annotations

GAUSSIAN_PROCESS = {
    "n_jobs": """
n_jobs : int or None, default=None
    Number of threads; None and -1 mean one per core. Results do not depend on it.
""",
    "verbose": """
verbose : int, default=0
    Above 0, a progress bar (tqdm where installed, lines on stderr where not).
""",
    "sample_weight_fit_": """
sample_weight_fit_ : ndarray of shape (n_samples,) or None
    Weights of the training rows, equal ones counted together: of mean 1 at the fit where noise is
    learned and no row has two targets, else as given. None where all are 1.
""",
    "optimization_history_": """
optimization_history_ : dict of ndarray
    After a search: ``log_marginal_likelihood`` and every hyper-parameter of each evaluation.
""",
    "n_features_in_": """
n_features_in_ : int
    Number of features.
""",
    "feature_names_in_": """
feature_names_in_ : ndarray of shape (n_features,)
    Names of the features, when `X` had string column names.
""",
}

CLASSIFICATION_GP = {
    "noise": """
noise : float or array-like of shape (n_outputs,), default=0.1
    Variance of the noise on the targets, where the search for it starts; an array, one for
    each output, where these do not share it.
""",
    "class_weight": """
class_weight : dict, "balanced" or None, default=None
    Weights of the classes, by which those of rows are multiplied. "balanced" makes them
    inversely proportional to the sums of the classes' weights.
""",
    "classes_": """
classes_ : ndarray of shape (n_classes,)
    The class labels.
""",
    "Y_fit_": """
Y_fit_ : ndarray of shape (n_samples, n_outputs)
    The targets, +1 for the class of an output and -1 for others.
""",
    "noise_": """
noise_, amplitude_ : float, or ndarray of shape (n_outputs,)
    Variances of the fit, for targets -1 and +1; arrays where classes do not share them.
""",
    "calibration_": """
calibration_ : tuple of ndarray
    With `calibration`: ``(matrix, offset)``, which turn posterior means into logits.
""",
}

INTERSECTION_GP = {
    "kernel": """
kernel : Kernel, str or None, default=None
    `Intersection` or `Splines`, and `Interactions` beside it: an expression of
    :mod:`histrs.gaussian_process.kernels` or a name. A constant factor of all of it is where the
    search for the amplitude starts, and bounds it. None is ``Intersection()``.
""",
    "noise_bounds": """
noise_bounds : pair or "fixed", default=(1e-6, 1e12)
    Least and greatest noise in the search; "fixed" leaves it as given.
""",
    "optimizer": """
optimizer : {"auto", "l-bfgs-b", "nelder-mead"}, LikelihoodSearch or None, default="auto"
    How hyper-parameters of largest marginal likelihood are searched for: "auto" is "l-bfgs-b",
    which follows gradients; "nelder-mead" is the paper's simplex. Both start at the given values
    and end at those with a trailing underscore. None keeps what is given.
""",
    "solver": """
solver : {"auto", "cg", "cholesky", "coordinate-descent", "greedy-block"} or Solver, default="auto"
    "cg" never forms the kernel matrix; "cholesky" stores and factorises it, which is
    cheaper for few rows; "auto" estimates which is. The other two are what the paper compares
    with (section 9.5), and slower: coordinate descent on tables (Wu, 2010) and greedy block
    coordinate descent (Bo and Sminchisescu, 2012). Their iterations are passes over the rows,
    and they take no preconditioner. A `Solver` says more.
""",
    "variance": """
variance : {"auto", "exact", "cached", "fine", "coarse", "coarse-quantized"} or Fine, default="auto"
    How the posterior variance of a row is computed, for whatever needs it. ``"exact"`` takes a
    solve, which is cheap where the system was factorised. ``"cached"`` takes a score with a
    hundred outputs, from directions that are found once, corrected by rows that are solved
    exactly; `std_error_` is what its standard deviations are off by. ``"auto"`` is
    ``"exact"`` where the system was factorised, else ``"cached"``. The others are bounds
    above: ``"fine"`` (FAPU, eq. 29) takes a kernel vector and two projections, ``Fine(k)`` so
    many, ``"coarse"`` (CAPU, eq. 30) one score of squared features, ``"coarse-quantized"``
    (q-CAPU) one look-up per feature, in a table of `n_bins` cells, or of 100 when that is None.
    The last two are often two to three times too large.
""",
    "n_bins": """
n_bins : int, Bins or None, default=None
    Cells per column of the look-up table that predicts in constant time (section 4.2 of [1]_);
    None predicts exactly. `quantization_error_bound_` certifies the difference. Linear cells
    from 64 on are replaced by 128 cells of one or two bytes where those are as good.
""",
    "random_state": """
random_state : int, RandomState or None, default=None
    Draws the random vectors of the Lanczos quadrature, which are the same for all
    hyper-parameters, the rows that some of them are learned from, and starts; a fit to few
    rows draws nothing. An int gives the same fit every time.
""",
    "X_fit_": """
X_fit_ : {ndarray, CSR matrix, dask array} of shape (n_samples, n_features)
    The training histograms, of rows that are equal, targets too, one. Where whole weights
    differ, they are in the order of their columns.
""",
    "exponent_": """
exponent_ : float
    Exponent of the fit.
""",
    "std_error_": """
std_error_ : float
    Mean relative error of standard deviations, measured on training rows, each without itself;
    0 where they are exact.
""",
    "feature_weights_": """
feature_weights_ : ndarray of shape (n_features,)
    Weights of the features.
""",
    "intercept_": """
intercept_ : ndarray of shape (n_outputs,)
    What is predicted where no feature and no pair of features adds anything.
""",
    "intercept_variance_": """
intercept_variance_ : float
    Variance of the intercept, before `amplitude_` multiplies it.
""",
    "interactions_": """
interactions_ : ndarray of shape (n_pairs, 2)
    The pairs of features, the strongest first, or as they were given.
""",
    "interaction_weight_": """
interaction_weight_ : float
    Weight of the pairs; 0 where there are none.
""",
    "interaction_knots_": """
interaction_knots_ : list of ndarray
    Knots of each feature of a pair, in the order of the features.
""",
    "smoothness_": """
smoothness_ : {"linear", "cubic", "both"}
    The functions of the fit.
""",
    "slope_weight_": """
slope_weight_, rough_weight_ : float
    Weights of lines and of minima beside smooth functions; 0 where there are none.
""",
    "feature_transform_": """
feature_transform_ : str
    The transform of the fit.
""",
    "theta_": """
theta_ : ndarray of shape (n_hyperparameters,)
    Logarithms of the hyper-parameters that are not fixed: noise, amplitude, the exponent of a
    transform, feature weights with "ard", and the weights of pairs, of lines and of minima.
""",
}

REGRESSION_GP = {
    "noise": """
noise : float or array-like of shape (n_targets,), default=0.1
    Variance of the noise on the target, as part of the variance of the target, where the
    search for it starts; an array, one for each target that has its own.
""",
    "Y_fit_": """
Y_fit_ : ndarray of shape (n_samples, n_outputs)
    The targets that were solved for, centred; NaN where they are missing.
""",
    "pattern_targets_": """
pattern_targets_, pattern_rows_ : list of ndarray
    Which targets those are of, and which of the training rows, counted as in `Y_fit_`.
""",
    "y_mean_": """
y_mean_ : ndarray of shape (n_targets,)
    Mean of each target, subtracted before the fit.
""",
    "y_std_": """
y_std_ : ndarray of shape (n_targets,)
    Standard deviation of each target in the first fit: the unit of noise and amplitude. That of a
    target of one value is what rounding may leave of it, until `partial_fit` brings others.
""",
    "noise_": """
noise_, amplitude_ : float, or ndarray of shape (n_targets,)
    Variances of the fit, as parts of the variance of the target: ``noise_ * y_std_**2`` is in
    the units of the target. Arrays for several targets that do not share them.
""",
}

UPDATES = {
    "further_weights": """
sample_weight : array-like of shape (n_samples,), default=None
    Weights of the rows, as those of the fit were; 1 by default.
""",
    "indices": """
indices : array-like of int
    Which of the rows of positive weight that `fit` and `partial_fit` were given, counted
    from 0, each once. Those behind them move up. One of several equal rows takes its own
    weight alone.
""",
}

CLASSIFICATION_FIT = {
    "sample_weight": """
sample_weight : array-like of shape (n_samples,), default=None
    Weights of the rows: the noise variance of a row is that of all, `noise_`, over its
    weight, and it counts as much as that where probabilities are calibrated. A whole weight
    is so many equal rows, and equal rows are one of their weights together. Where equal rows
    all have one class, they may be copies of one measurement: weights then count in units of
    their mean, so that copies of all rows change nothing, and such rows are left out together.
    Else each counts. A row of weight 0 is as if it were not there.
""",
    "classes": """
classes : array-like of shape (n_classes,), default=None
    Labels that the model keeps whether it has rows of them or not, beside those that it
    keeps already; `y` must then have no others. None lets the classes be those of the rows.
""",
}

REGRESSION_FIT = {
    "y": """
y : array-like of shape (n_samples,) or (n_samples, n_targets)
    Targets. In a table of them, NaN is a missing target: each target learns from the rows
    that have it, as if fitted to these alone.
""",
    "sample_weight": """
sample_weight : array-like of shape (n_samples,), default=None
    Weights of the rows: the noise variance of a row is that of all, `noise_`, over its
    weight. A whole weight is so many equal rows, and rows that are equal, targets too, are one
    of their weights together. Where no rows have equal columns and different targets, they may
    be copies of one measurement: weights then count in units of their mean where noise is
    learned, so that copies of all rows change nothing. A row of weight 0 is as if it were not
    there.
""",
}

KERNEL_GP = {
    "noise": """
noise : float or array-like of shape (n_outputs,), default=0.1
    Variance of the noise on standardised targets, where the search for it starts; an array, one
    for each output, where these do not share it.
""",
    "noise_bounds": """
noise_bounds : pair or "fixed", default=(1e-6, 1e12)
    Least and greatest noise in the search; "fixed" leaves it as given.
""",
    "optimizer": """
optimizer : {"auto", "l-bfgs-b", "nelder-mead"}, LikelihoodSearch or None, default="auto"
    How hyper-parameters of largest marginal likelihood are searched for; "auto" is "l-bfgs-b".
    None keeps what is given.
""",
    "solver": """
solver : {"auto", "cholesky", "cg"} or Solver, default="auto"
    "cholesky" factorises the matrix of all pairs of rows; "cg" keeps it in few bytes, where the
    kernel can, and solves by conjugate gradients to `tol`. "auto" factorises up to some 10,000
    rows, and where the kernel cannot.
""",
    "tol": """
tol : float, default=1e-4
    Largest entry of a residual of "cg", in units of the spread of the targets.
""",
    "variance": """
variance : {"auto", "cached", "exact"}, default="auto"
    How posterior variances are computed where nothing is factorised. "exact" solves for each row;
    "cached", which is "auto" there, takes them from directions that are found once, and
    `std_error_` is what standard deviations are off by.
""",
    "n_bins": """
n_bins : int, Bins or None, default=None
    Cells per column of the look-up table that predicts in constant time, of an additive kernel;
    None predicts exactly.
""",
    "likelihood": """
likelihood : {"auto", "gaussian", "bernoulli", "softmax"}, default="auto"
    What ties classes to latent functions: targets +1 and -1 plus noise, or a probability by
    Laplace's approximation. "auto" is "gaussian" but for additive kernels, where it is as said at
    `IntersectionGPClassifier`.
""",
    "random_state": """
random_state : int, RandomState or None, default=None
    Draws starts, and, above 2,048 rows, those that the kernel is learned from. An int gives the
    same fit every time.
""",
    "X_fit_": """
X_fit_ : ndarray or CSR matrix
    The training rows, as the kernel sees them.
""",
    "kernel_": """
kernel_ : Kernel
    The kernel of the fit without its constant factor, which is `amplitude_`. Attributes with a
    trailing underscore are what was learned of it and taken from the first training rows.
""",
    "theta_": """
theta_ : ndarray of shape (n_hyperparameters,)
    Logarithms of the hyper-parameters that are not fixed: noise, amplitude, and the kernel's.
""",
    "n_iter_": """
n_iter_ : ndarray of shape (n_outputs,)
    Iterations of the solver; 1 where the matrix was factorised.
""",
    "std_error_": """
std_error_ : float
    Mean relative error of standard deviations, on 32 training rows, each predicted without itself;
    0 where they are exact.
""",
    "of_regression": """
y_mean_, y_std_ : ndarray of shape (n_targets,)
    Mean of each target, and its standard deviation in the first fit: the unit of noise and
    amplitude. That of a target of one value is what rounding may leave of it, until
    `partial_fit` brings others.
noise_, amplitude_ : float, or ndarray of shape (n_targets,)
    Variances of the fit, as parts of the variance of the target. Arrays for several targets
    that do not share them.
dual_coef_ : ndarray of shape (n_samples, n_targets)
    Weights of the training rows.
pattern_fits_ : list
    Where targets miss different rows: a fitted estimator for each pattern of missing rows.
    Attributes that are not of single targets, as those of the kernel, are there alone, and so
    is what takes predictions apart.
""",
    "of_classification": """
dual_coef_ : ndarray of shape (n_samples, n_outputs)
    Weights of the training rows; one output for two classes, else one per class.
""",
    "calibration": """
calibration : {"leave-one-out"} or None, default="leave-one-out"
    What scores and probabilities are made of. "leave-one-out" fits a temperature, a matrix
    and offsets to what the model predicts of training rows without each. None leaves the
    posterior as it is, whose probabilities are too certain.
""",
    "optimizer_of_classes": """
optimizer : {"auto", "leave-one-out", "l-bfgs-b", "nelder-mead"}, LikelihoodSearch or None, \
default="auto"
    How hyper-parameters are learned. "l-bfgs-b", "nelder-mead" and a `LikelihoodSearch` look for
    the largest marginal likelihood, which takes labels for numbers: of few rows in many
    dimensions it explains every one, and predicts worse. "leave-one-out" tries some values of the
    kernel's parameters, with nine ratios of noise, and takes the largest noise at which the log
    loss of rows that are left out is that of the best, up to its standard error. Noise below ten
    times the variance of the latent functions is unlikely before anything is seen. "auto" is
    "leave-one-out" where the kernel asks for it, as those of coordinates of covariances do, and
    else "l-bfgs-b". None keeps what is given.
""",
}
