"""Gaussian processes of any kernel."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, ClassVar, Literal, Self, get_args

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin
from sklearn.utils._param_validation import StrOptions

from histrs._docs import documented
from histrs._progress import TrainingProgress
from histrs._row_weights import ClassWeight
from histrs._solvers.block_cg import Array
from histrs._threads import blas_threads_at_most
from histrs.gaussian_process._classification import ClassTargets
from histrs.gaussian_process._dense.left_out import centred_leave_one_out, learn_by_leaving_out
from histrs.gaussian_process._dense.likelihood import DenseLikelihood
from histrs.gaussian_process._docs import CLASSIFICATION_GP, GAUSSIAN_PROCESS, REGRESSION_GP
from histrs.gaussian_process._hyperparameters import SCALES, Bounds, Hyperparameters
from histrs.gaussian_process._kernel_gp import KernelGP
from histrs.gaussian_process._kernel_gp_docs import KERNEL_GP
from histrs.gaussian_process._kernels.algebra import Constant, Sum
from histrs.gaussian_process._kernels.base import Kernel
from histrs.gaussian_process._optimizer import OptimizerName
from histrs.gaussian_process._options import LikelihoodSearch, OptimizerOption, Solver
from histrs.gaussian_process._regression import RealTargets

# Values of each of the kernel's parameters of which the best is taken by leaving rows out, as
# multiples of the start, the smoothest first.
_TRIED = (0.03, 0.3, 1.0, 3.0)
# Variance of the level in units of the noise, or of the kernel: any level is as likely.
_LEVEL = 30.0
# Rows up to which threads of BLAS mostly wait for one another.
_FEW = 1024


@documented(GAUSSIAN_PROCESS, REGRESSION_GP, KERNEL_GP)
class GPRegressor(RealTargets, KernelGP):
    r"""Gaussian process regressor of any kernel.

    The target, its mean subtracted and divided by its standard deviation, has covariance
    :math:`\mathrm{amplitude}\; k(x, x') + \mathrm{noise}\,[x = x']`, exactly. Noise, amplitude and
    the parameters of the kernel are those of largest marginal likelihood. Several targets are
    solved together, equal rows are one of their weights together, and rows come and go by
    `partial_fit` and `forget`.

    Parameters
    ----------
    kernel : Kernel, str or None, default=None
        What rows have in common: an expression of :mod:`histrs.gaussian_process.kernels`, a kernel
        of scikit-learn, or the name of one of ours. A constant factor of all of it is where the
        search for the amplitude starts, and bounds it. None is ``Radial()``.
    {noise}
    {noise_bounds}
    {optimizer}
    {solver}
    {tol}
    {variance}
    {random_state}
    {n_jobs}
    {verbose}

    Attributes
    ----------
    {X_fit_}
    {Y_fit_}
    {sample_weight_fit_}
    {of_regression}
    {pattern_targets_}
    {kernel_}
    {theta_}
    {optimization_history_}
    {n_iter_}
    {std_error_}
    {n_features_in_}
    {feature_names_in_}

    See Also
    --------
    GPClassifier : The same for class labels.
    SlicedGPRegressor : For tables, with a metric that is learned.
    IntersectionGPRegressor : Additive functions, in time and memory linear in the rows.

    Examples
    --------
    >>> import numpy as np
    >>> from histrs.gaussian_process import GPRegressor
    >>> from histrs.gaussian_process.kernels import Linear, Radial
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-3.0, 3.0, size=(100, 1))
    >>> y = 2.0 * X[:, 0] + np.sin(3.0 * X[:, 0]) + 0.1 * rng.normal(size=100)
    >>> model = GPRegressor(Radial() + Linear()).fit(X, y)
    >>> mean, std = model.predict([[1.0]], return_std=True)
    >>> bool(abs(mean[0] - 2.0 - np.sin(3.0)) < 3 * std[0])
    True
    """

    @property
    def std_error_(self) -> float:
        """Mean relative error of standard deviations, as measured; 0 where they are exact.

        Of several fits it is the largest.
        """
        if self._has_patterns():
            return self._largest_std_error()
        return super().std_error_


@documented(GAUSSIAN_PROCESS, CLASSIFICATION_GP, KERNEL_GP)
class GPClassifier(ClassifierMixin, ClassTargets, KernelGP):
    r"""Gaussian process classifier of any kernel.

    For every class a Gaussian process with the covariance of `GPRegressor` is fitted to targets +1
    for the class and -1 for all others, exactly; less their means, where the kernel leaves a level
    that rows share open. Scores are calibrated by what the model predicts of each training row
    without it, in closed form where the matrix is factorised, and else by fits without a tenth of
    the rows, as many as leave out 4,000 of them together.

    Parameters
    ----------
    kernel : Kernel, str or None, default=None
        What rows have in common: see `GPRegressor`.
    {noise}
    {noise_bounds}
    {optimizer_of_classes}
    {solver}
    {tol}
    {variance}
    {random_state}
    {calibration}
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
    {kernel_}
    {theta_}
    optimization_history_ : dict of ndarray
        After a search: ``leave_one_out_log_loss`` or ``log_marginal_likelihood``, and every
        hyper-parameter, of each evaluation.
    {of_classification}
    {n_iter_}
    {std_error_}
    {n_features_in_}
    {feature_names_in_}

    See Also
    --------
    GPRegressor : The same for real targets.
    SlicedGPClassifier : For tables, with a metric that is learned.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from histrs.gaussian_process import GPClassifier
    >>> X, y = make_moons(200, noise=0.2, random_state=0)
    >>> GPClassifier("radial").fit(X[:100], y[:100]).score(X[100:], y[100:]) > 0.9
    True
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **KernelGP._parameter_constraints,
        "optimizer": [
            StrOptions({"auto", "leave-one-out", *get_args(OptimizerName)}),
            LikelihoodSearch,
            None,
        ],
        "calibration": [StrOptions({"leave-one-out"}), None],
        "class_weight": [dict, StrOptions({"balanced"}), None],
    }

    def __init__(
        self,
        kernel: Any = None,
        *,
        noise: float | ArrayLike = 0.1,
        noise_bounds: Bounds = (1e-6, 1e12),
        optimizer: OptimizerOption = "auto",
        solver: Literal["auto", "cholesky", "cg"] | Solver = "auto",
        tol: float = 1e-5,
        variance: Literal["auto", "cached", "exact"] = "auto",
        random_state: int | np.random.RandomState | None = None,
        calibration: Literal["leave-one-out"] | None = "leave-one-out",
        class_weight: ClassWeight = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(
            kernel,
            noise=noise,
            noise_bounds=noise_bounds,
            optimizer=optimizer,
            solver=solver,
            tol=tol,
            variance=variance,
            random_state=random_state,
            n_jobs=n_jobs,
            verbose=verbose,
        )
        self.calibration = calibration
        self.class_weight = class_weight

    def _level(self, Y: Array) -> Array:
        return self._means(Y) if self.kernel_.leaves_level or self._is_open else super()._level(Y)

    # ---- hyper-parameters that predict rows left out best --------------------------------------

    @property
    def _is_open(self) -> bool:
        """Whether the level that all rows share is open, as where rows were left out."""
        return isinstance(self.kernel_, _WithLevel)

    def _leaves_out(self) -> bool:
        """Say whether hyper-parameters are learned by leaving rows out."""
        suits = self._asked()[1].classes_by == "leave-one-out"
        if self.optimizer == "leave-one-out" and not suits:
            raise ValueError(
                'optimizer="leave-one-out" is for kernels of coordinates of covariances, Tangent '
                'and LogEuclidean: choose one of these, or optimizer="l-bfgs-b".'
            )
        return suits and self.optimizer in ("auto", "leave-one-out")

    def _learn_hyperparameters(
        self, start: Hyperparameters, likelihood: Any, names: Collection[str] | None = None
    ) -> Hyperparameters:
        if not self._leaves_out():
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
        for name in space.names:
            if name not in SCALES:
                value = start.kernel.parameter(name)
                kernels = [k.with_parameters({name: t * value}) for k in kernels for t in _TRIED]
        few = likelihood.shape[0] <= _FEW
        with (
            TrainingProgress(type(self).__name__, self.verbose) as progress,
            blas_threads_at_most(1) if few else nullcontext(),
        ):
            found, chosen = learn_by_leaving_out(likelihood, space, kernels, progress)
        self.optimization_history_ = found
        self.theta_ = space.pack(chosen)
        level = max(1.0, _LEVEL * float(chosen.noise[0] / chosen.amplitude[0]))
        return replace(chosen, kernel=_WithLevel.of(chosen.kernel, level))

    def _offsets(self) -> dict[str, Any]:
        # Where the level is open, scores are centred already.
        return {"offset_std": 0.3, "centred": True} if self._is_open else {}

    def _scores_left_out(self, posterior: Any, Y: Array) -> Array:
        if not self._is_open:
            return super()._scores_left_out(posterior, Y)
        # What opens the level learns one noise and one amplitude for all classes.
        (system,) = posterior.systems
        L = np.tril(system.factor.whole())
        K = L @ L.T
        K[np.diag_indices_from(K)] -= system.s
        r = system.row_scale
        K = K if r is None else K / r / r[:, None]
        return centred_leave_one_out(K, system.s, Y - self._level(Y), r)


class _WithLevel(Sum):
    """A kernel, and the variance of a level that was opened where rows were left out."""

    @classmethod
    def of(cls, kernel: Kernel, level: float) -> Self:
        """Add the level to a kernel of a fit."""
        opened = cls(kernel, Constant(level, "fixed").taken(None))
        opened.is_taken = True
        return opened
