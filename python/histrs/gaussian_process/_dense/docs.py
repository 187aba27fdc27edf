"""Descriptions of parameters and attributes of processes whose kernel matrix is stored."""

from __future__ import annotations

MINMAX_GP = {
    "std_error_": """
std_error_ : float
    Mean relative error of the standard deviations, on 32 training rows, each predicted without
    itself; 0 up to 10,000 rows.
""",
    "n_iter_": """
n_iter_ : ndarray of shape (n_outputs,)
    Iterations of the solver; 1 where the matrix was factorised.
""",
    "optimizer": """
optimizer : {"l-bfgs-b", "nelder-mead"} or None, default="l-bfgs-b"
    How hyper-parameters of largest marginal likelihood are searched for. None keeps what is
    given.
""",
    "random_state": """
random_state : int, RandomState or None, default=None
    Draws starts, and, above 2,048 rows, those that the weight is learned from. An int gives
    the same fit every time.
""",
    "X_fit_": """
X_fit_ : {ndarray, CSR matrix} of shape (n_samples, n_features)
    The training rows.
""",
    "intersection_weight_": """
intersection_weight_ : float
    Weight of the intersection kernel.
""",
    "mean_sum_": """
mean_sum_ : float
    Mean sum of a training row in the first fit.
""",
    "theta_": """
theta_ : ndarray of shape (n_hyperparameters,)
    Logarithms of the hyper-parameters that are not fixed: noise, amplitude, and the odds of the
    intersection kernel where its weight is learned.
""",
}

SPD_GP = {
    "gamma": """
gamma : "learned" or float, default="learned"
    The kernel coefficient: learned, or given, of "jbld" at least 1/2.
""",
    "X_fit_": """
X_fit_ : ndarray
    The training matrices, or their coordinates, as the kernel takes them.
""",
    "gamma_": """
gamma_ : float
    The kernel coefficient.
""",
    "distance_scale_": """
distance_scale_ : float
    Mean squared distance of the first training coordinates; 1 for "jbld".
""",
    "constant_": """
constant_ : float
    What is added to the kernel: 0 unless hyper-parameters were learned by leaving rows out,
    where the level of the targets is left open.
""",
    "kernel_": """
kernel_ : str
    The kernel of the fit.
""",
    "reference_": """
reference_, whitener_ : ndarray of shape (p, p), or None
    Of "tangent": the mean, and its inverse root.
""",
    "theta_": """
theta_ : ndarray of shape (n_hyperparameters,)
    Logarithms of the hyper-parameters that are not fixed.
""",
}
