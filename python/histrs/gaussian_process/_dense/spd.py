"""Gaussian processes on covariance matrices."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import nullcontext
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin
from sklearn.utils._param_validation import StrOptions

from histrs._docs import documented
from histrs._progress import TrainingProgress
from histrs._row_weights import ClassWeight
from histrs._solvers.block_cg import Array
from histrs._threads import blas_threads_at_most
from histrs.gaussian_process._classification import CentredClassTargets
from histrs.gaussian_process._dense.docs import SPD_GP
from histrs.gaussian_process._dense.left_out import centred_leave_one_out, learn_by_leaving_out
from histrs.gaussian_process._dense.likelihood import DenseLikelihood
from histrs.gaussian_process._dense.spd_base import BaseSPDGP, KernelName
from histrs.gaussian_process._docs import CLASSIFICATION_GP, GAUSSIAN_PROCESS, REGRESSION_GP
from histrs.gaussian_process._hyperparameters import Bounds, Hyperparameters
from histrs.gaussian_process._optimizer import OptimizerName
from histrs.gaussian_process._regression import RealTargets

# Kernel coefficients of which the best is taken by leaving rows out, the smoothest first.
_TRIED = (0.03, 0.3, 1.0, 3.0)
# Variance of the constant in units of the noise, or of the kernel: any level is as likely.
_CONSTANT = 30.0
# Rows up to which threads of BLAS mostly wait for one another.
_FEW = 1024


@documented(GAUSSIAN_PROCESS, REGRESSION_GP, SPD_GP)
class SPDGPRegressor(RealTargets, BaseSPDGP):
    r"""Gaussian process regressor on covariance matrices.

    The target, its mean subtracted and divided by its standard deviation, has covariance
    :math:`\mathrm{amplitude}\; k(X, X') + \mathrm{noise}\,[X = X']`, exactly, by a Cholesky factor
    of the matrix of all pairs, with the kernel

    .. math:: k(X, X') = e^{-\gamma \| v(X) - v(X') \|^2} \quad\text{or}\quad e^{-\gamma D_J(X, X')}

    of the coordinates :math:`v` of :class:`~histrs.spd.TangentSpace` or of the divergence of
    :func:`~histrs.metrics.jbld_distances`. Kernel coefficient :math:`\gamma`, noise and amplitude
    are those of largest marginal likelihood.

    Parameters
    ----------
    kernel : {"tangent", "logeuclid", "jbld"}, default="tangent"
        "tangent" is the Gaussian in the tangent space at the geometric mean of the first training
        matrices, "logeuclid" that of logarithms, :func:`~histrs.metrics.log_euclidean_kernel`;
        "jbld" is :func:`~histrs.metrics.jbld_kernel`, in which two kernel coefficients at which it
        is positive definite are mixed between them. The Gaussian of the affine-invariant distance
        is positive definite nowhere, and no covariance.
    {gamma}
    {noise}
    {amplitude}
    optimizer : {"l-bfgs-b", "nelder-mead"} or None, default="l-bfgs-b"
        How hyper-parameters of largest marginal likelihood are searched for. None keeps what is
        given, of a learned `gamma` one over the mean squared distance, of "jbld" 1/2.
    {shared_hyperparameters}
    {bounds}
    {n_restarts_optimizer}
    random_state : int, RandomState or None, default=None
        Draws starts, and, above 2,048 matrices, those that `gamma` is learned from. An int gives
        the same fit every time.
    {n_jobs}
    {verbose}

    Attributes
    ----------
    {X_fit_}
    {Y_fit_}
    {sample_weight_fit_}
    y_mean_, y_std_ : ndarray of shape (n_targets,)
        Mean of each target, and its standard deviation in the first fit: the unit of noise and
        amplitude. That of a target of one value is what rounding may leave of it, until
        `partial_fit` brings others.
    noise_, amplitude_ : float, or ndarray of shape (n_targets,)
        Variances of the fit, as parts of the variance of the target. Arrays for several targets
        that do not share them.
    {gamma_}
    {distance_scale_}
    {constant_}
    {kernel_}
    {reference_}
    {theta_}
    {optimization_history_}
    dual_coef_ : ndarray of shape (n_samples, n_targets)
        Weights of the training matrices.
    n_iter_ : ndarray of shape (n_targets,)
        Ones: the matrix is factorised.
    pattern_fits_ : list of SPDGPRegressor
        Where targets miss different rows: a fitted estimator for each pattern of missing rows.
        Attributes that are not of single targets, as those of the kernel, are there alone, and so
        is what takes predictions apart.
    {pattern_targets_}
    n_features_in_ : int
        Number of entries of a matrix, p * p.

    See Also
    --------
    SPDGPClassifier : The same for class labels.
    histrs.spd.Covariances : Matrices of signals.

    Examples
    --------
    >>> import numpy as np
    >>> from histrs.gaussian_process import SPDGPRegressor
    >>> A = np.random.default_rng(0).standard_normal((150, 3, 30))
    >>> X = A @ A.transpose(0, 2, 1) / 30
    >>> y = np.log(np.linalg.det(X)) + X[:, 0, 1]
    >>> model = SPDGPRegressor().fit(X[:100], y[:100])
    >>> mean, std = model.predict(X[100:], return_std=True)
    >>> bool(np.mean(np.abs(mean - y[100:]) < 2 * std) > 0.9)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {**BaseSPDGP._parameter_constraints}
    _of_columns = (*RealTargets._of_columns, "kernel_", "reference_", "whitener_")


@documented(CLASSIFICATION_GP, GAUSSIAN_PROCESS, SPD_GP)
class SPDGPClassifier(ClassifierMixin, CentredClassTargets, BaseSPDGP):
    r"""Gaussian process classifier on covariance matrices.

    For every class a Gaussian process with the covariance of `SPDGPRegressor` is fitted to targets
    +1 for the class and -1 for all others, less their mean, exactly. Kernel coefficient and noise
    are those by which the model predicts the class of each training matrix best without it, in
    closed form, and so are its scores calibrated.

    Parameters
    ----------
    kernel : {"tangent", "logeuclid", "jbld"}, default="tangent"
        The Gaussian in the tangent space at the geometric mean of the first training matrices, that
        of logarithms, or the kernel of the divergence: see `SPDGPRegressor`.
    {gamma}
    {noise}
    {amplitude}
    optimizer : {"auto", "leave-one-out", "l-bfgs-b", "nelder-mead"} or None, default="auto"
        How hyper-parameters are learned. "leave-one-out" tries four kernel coefficients, or the
        one given, with nine ratios of noise, and takes the largest noise at which the log loss of
        matrices that are left out is that of the best, up to its standard error. Noise below ten
        times the variance of the latent functions is unlikely before anything is seen. "l-bfgs-b"
        and "nelder-mead" search for the largest marginal likelihood, which takes labels for
        numbers: of few matrices in many dimensions it explains every one, and predicts worse.
        "auto" is "leave-one-out", but "l-bfgs-b" for "jbld" and for classes with noise of their
        own. None keeps what is given.
    {shared_hyperparameters}
    {bounds}
    n_restarts_optimizer : int, default=0
        Further searches for the largest likelihood, from starts drawn between the bounds; the best
        is kept.
    random_state : int, RandomState or None, default=None
        Draws starts, and, above 2,048 matrices, those that hyper-parameters are learned from. An
        int gives the same fit every time.
    calibration : {"leave-one-out"} or None, default="leave-one-out"
        What scores and probabilities are made of. "leave-one-out" fits a temperature, a matrix
        and offsets to what the model predicts of training matrices without each. None leaves the
        posterior as it is, whose probabilities are too certain.
    {class_weight}
    {n_jobs}
    {verbose}

    Attributes
    ----------
    {classes_}
    {X_fit_}
    {Y_fit_}
    {sample_weight_fit_}
    {noise_}
    {calibration_}
    {gamma_}
    {distance_scale_}
    {constant_}
    {kernel_}
    {reference_}
    {theta_}
    optimization_history_ : dict of ndarray
        After a search: ``leave_one_out_log_loss`` or ``log_marginal_likelihood``, and every
        hyper-parameter, of each evaluation.
    dual_coef_ : ndarray of shape (n_samples, n_outputs)
        Weights of the training matrices; one output for two classes, else one per class.
    n_iter_ : ndarray of shape (n_outputs,)
        Ones: the matrix is factorised.
    n_features_in_ : int
        Number of entries of a matrix, p * p.

    See Also
    --------
    SPDGPRegressor : The same for real targets.
    histrs.spd.MDM : The nearest mean: faster, and online in constant memory.

    Examples
    --------
    >>> import numpy as np
    >>> from histrs.gaussian_process import SPDGPClassifier
    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(120) % 2
    >>> A = rng.standard_normal((120, 3, 30))
    >>> A[:, 1] *= 1 + y[:, None]
    >>> X = A @ A.transpose(0, 2, 1) / 30
    >>> model = SPDGPClassifier().fit(X[:80], y[:80])
    >>> model.score(X[80:], y[80:]) > 0.9
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **BaseSPDGP._parameter_constraints,
        "optimizer": [StrOptions({"auto", "leave-one-out", "l-bfgs-b", "nelder-mead"}), None],
        "calibration": [StrOptions({"leave-one-out"}), None],
        "class_weight": [dict, StrOptions({"balanced"}), None],
    }
    optimizer: OptimizerName | Literal["auto", "leave-one-out"] | None  # type: ignore[assignment]

    def __init__(
        self,
        kernel: KernelName = "tangent",
        *,
        gamma: Literal["learned"] | float = "learned",
        noise: float | ArrayLike = 0.1,
        amplitude: float | ArrayLike = 1.0,
        optimizer: OptimizerName | Literal["auto", "leave-one-out"] | None = "auto",
        shared_hyperparameters: bool | None = None,
        noise_bounds: Bounds = (1e-6, 1e12),
        amplitude_bounds: Bounds = (1e-12, 1e12),
        n_restarts_optimizer: int = 0,
        random_state: int | np.random.RandomState | None = None,
        calibration: Literal["leave-one-out"] | None = "leave-one-out",
        class_weight: ClassWeight = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(
            kernel,
            gamma=gamma,
            noise=noise,
            amplitude=amplitude,
            optimizer=optimizer,  # type: ignore[arg-type]
            shared_hyperparameters=shared_hyperparameters,
            noise_bounds=noise_bounds,
            amplitude_bounds=amplitude_bounds,
            n_restarts_optimizer=n_restarts_optimizer,
            random_state=random_state,
            n_jobs=n_jobs,
            verbose=verbose,
        )
        self.calibration = calibration
        self.class_weight = class_weight

    def _search_method(self) -> OptimizerName | None:
        """Return the search for the largest likelihood, None for leaving rows out."""
        # The divergence has no smooth kernels, for which much noise is right.
        possible = self.kernel != "jbld" and self.shared_hyperparameters is not False
        if self.optimizer == "leave-one-out" and not possible:
            raise ValueError(
                'optimizer="leave-one-out" learns one noise and one amplitude for all classes and '
                "a kernel of coordinates: leave shared_hyperparameters as it is, and choose "
                'kernel="tangent" or "logeuclid"; or choose optimizer="l-bfgs-b".'
            )
        if self.optimizer == "auto":
            return None if possible else "l-bfgs-b"
        return None if self.optimizer == "leave-one-out" else self.optimizer

    def _learn_hyperparameters(
        self,
        start: Hyperparameters,
        likelihood: Any,
        names: Collection[str] | None = None,
    ) -> Hyperparameters:
        if self._search_method() is not None or self.optimizer is None:
            return super()._learn_hyperparameters(start, likelihood, names)
        if names is not None:
            # Some of the rows have told of noise as well as all would.
            return start
        return self._learn_by_leaving_out(start, likelihood)

    def _learn_by_leaving_out(
        self, start: Hyperparameters, likelihood: DenseLikelihood
    ) -> Hyperparameters:
        self.__dict__.pop("optimization_history_", None)
        space = self._search_space(start)
        space.check_start()
        self.theta_ = space.pack(start)
        if not space.names:
            return start
        if likelihood.targets_are_constant:
            self._warn("There is one class, which any hyper-parameters explain: kept as given.")
            return start
        kernels = [start.kernel]
        if self.gamma == "learned":
            kernels = [start.kernel.with_parameters({"scaled_gamma": value}) for value in _TRIED]
        few = likelihood.shape[0] <= _FEW
        with (
            TrainingProgress(type(self).__name__, self.verbose) as progress,
            blas_threads_at_most(1) if few else nullcontext(),
        ):
            found, chosen = learn_by_leaving_out(likelihood, space, kernels, progress)
        constant = max(1.0, _CONSTANT * float(chosen.noise[0] / chosen.amplitude[0]))
        chosen = chosen.with_values({"constant": constant})
        self.optimization_history_ = found
        self.theta_ = space.pack(chosen)
        return chosen

    def _offsets(self) -> dict[str, Any]:
        # Where the level is open, scores are centred already.
        return {"offset_std": 0.3, "centred": True} if self.constant_ > 0.0 else {}

    def _scores_left_out(self, posterior: Any, Y: Array) -> Array:
        if self.constant_ == 0.0:
            return super()._scores_left_out(posterior, Y)
        # What opens the level learns one noise and one amplitude for all classes.
        (system,) = posterior.systems
        L = np.tril(system.factor.whole())
        K = L @ L.T
        K[np.diag_indices_from(K)] -= system.s
        r = system.row_scale
        K = K if r is None else K / r / r[:, None]
        return centred_leave_one_out(K, system.s, Y - self._level(Y), r)
