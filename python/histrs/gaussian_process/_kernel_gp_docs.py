"""Descriptions of parameters and attributes of processes of any kernel."""

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
tol : float, default=1e-5
    Largest entry of a residual of "cg", in units of the spread of the targets.
""",
    "variance": """
variance : {"auto", "cached", "exact"}, default="auto"
    How posterior variances are computed where nothing is factorised. "exact" solves for each row;
    "cached", which is "auto" there, takes them from directions that are found once, and
    `std_error_` is what standard deviations are off by.
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
