"""Gaussian processes with the MinMax kernel: counts, and molecules by their fingerprints."""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils import Tags
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from histrs import _histrs
from histrs._docs import documented
from histrs._row_weights import ClassWeight
from histrs._validation import (
    HISTOGRAM_CHECKS,
    Matrix,
    canonical,
    count_threads,
    to_core,
    validate_data,
    validate_fit,
)
from histrs.gaussian_process._classification import ClassTargets
from histrs.gaussian_process._dense.base import BaseDenseGP
from histrs.gaussian_process._dense.docs import MINMAX_GP
from histrs.gaussian_process._dense.minmax_kernel import MinMaxKernel
from histrs.gaussian_process._docs import CLASSIFICATION_GP, GAUSSIAN_PROCESS, REGRESSION_GP
from histrs.gaussian_process._hyperparameters import Bounds
from histrs.gaussian_process._optimizer import OptimizerName
from histrs.gaussian_process._regression import RealTargets

WeightName: TypeAlias = Literal["learned"] | float

# Odds of the intersection kernel between which its weight is learned: beyond them, one of the two
# is hardly there.
_ODDS = (1e-3, 1e3)


class BaseMinMaxGP(BaseDenseGP):
    """Gaussian processes with the MinMax kernel."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **BaseDenseGP._parameter_constraints,
        "intersection_weight": [StrOptions({"learned"}), Interval(Real, 0, 1, closed="both")],
    }
    _most_factorised = 10_000

    def __init__(
        self,
        *,
        noise: float | ArrayLike = 0.1,
        amplitude: float | ArrayLike = 1.0,
        intersection_weight: WeightName = "learned",
        optimizer: OptimizerName | None = "l-bfgs-b",
        shared_hyperparameters: bool | None = None,
        noise_bounds: Bounds = (1e-6, 1e12),
        amplitude_bounds: Bounds = (1e-12, 1e12),
        n_restarts_optimizer: int = 0,
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(
            noise=noise,
            amplitude=amplitude,
            optimizer=optimizer,
            shared_hyperparameters=shared_hyperparameters,
            noise_bounds=noise_bounds,
            amplitude_bounds=amplitude_bounds,
            n_restarts_optimizer=n_restarts_optimizer,
            random_state=random_state,
            n_jobs=n_jobs,
            verbose=verbose,
        )
        self.intersection_weight = intersection_weight

    @property
    def std_error_(self) -> float:
        """Mean relative error of standard deviations, as measured; 0 where they are exact."""
        return self._measured_std_error()

    def _rows_to_fit(
        self, X: ArrayLike | Matrix, y: ArrayLike, *, reset: bool = True, **checks: Any
    ) -> tuple[Matrix, NDArray[Any]]:
        X, y = validate_fit(self, X, y, reset=reset, **checks)
        X = canonical(X)
        _histrs.check_histograms(to_core(X), count_threads(self.n_jobs))
        return X, y

    def _check_test(self, X: ArrayLike | Matrix) -> Matrix:
        check_is_fitted(self)
        X = canonical(validate_data(self, X, reset=False, **HISTOGRAM_CHECKS))
        _histrs.check_histograms(to_core(X), count_threads(self.n_jobs))
        return X

    def _start_kernel(self, X: Matrix) -> MinMaxKernel:
        sums = _histrs.row_sums(to_core(X), count_threads(self.n_jobs))
        # In units of the largest sums do not overflow; where all rows are empty, any size will do.
        unit = int(np.frexp(np.max(sums, initial=0.0))[1])
        size = float(np.ldexp(np.mean(np.ldexp(sums, -unit)), unit)) or 1.0
        weight = self.intersection_weight
        return MinMaxKernel(0.5 if isinstance(weight, str) else float(weight), size)

    def _kernel_bounds(self) -> dict[str, Bounds]:
        return {"odds": _ODDS} if self.intersection_weight == "learned" else {}

    def _keep_kernel(self, kernel: Any) -> None:
        self.intersection_weight_, self.mean_sum_ = kernel.weight, kernel.size

    def _kernel(self, state: dict[str, Any]) -> MinMaxKernel:
        return MinMaxKernel(state["intersection_weight_"], state["mean_sum_"])

    def __sklearn_tags__(self) -> Tags:
        """Return what scikit-learn may expect of the estimator."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = True
        return tags


@documented(GAUSSIAN_PROCESS, REGRESSION_GP, MINMAX_GP)
class MinMaxGPRegressor(RealTargets, BaseMinMaxGP):
    r"""Gaussian process regressor on counts, for instance of the fragments of molecules.

    The target, its mean subtracted and divided by its standard deviation, has covariance

    .. math:: \mathrm{amplitude} \left( (1 - w)
              \frac{\sum_d \min(x(d), x'(d))}{\sum_d \max(x(d), x'(d))}
              + \frac{w}{m} \sum_d \min(x(d), x'(d)) \right) + \mathrm{noise}\,[x = x'] :

    a convex sum of the MinMax kernel, which is known as the count Tanimoto kernel ([1]_, [2]_), and
    of the intersection kernel, which is additive and knows the size of rows, `m` being the mean sum
    of a training row. Noise, amplitude and weight are those of largest marginal likelihood. All is
    exact, by a Cholesky factor of the matrix of all pairs of rows: on whole numbers below 32,768
    that matrix takes a fraction of a nanosecond for ten counts. Above 10,000 rows, noise and
    amplitude are learned from 4,096 of them, only the sums of minima are kept, in `n_samples**2`
    bytes where rows are whole numbers that sum to less than 65,536 and in twice as many where they
    are not, and the system is solved by conjugate gradients, preconditioned by 512 columns, to
    1e-5 of the spread of the target. Standard deviations are then nearly exact: `std_error_` is
    what they are off by.

    Parameters
    ----------
    {noise}
    {amplitude}
    intersection_weight : "learned" or float, default="learned"
        Weight `w` of the intersection kernel, between 0 and 1: 0 is the MinMax kernel alone.
        "learned" is that of largest likelihood, without an `optimizer` 0.5.
    {optimizer}
    {shared_hyperparameters}
    {bounds}
    {n_restarts_optimizer}
    {random_state}
    {n_jobs}
    {verbose}

    Attributes
    ----------
    {X_fit_}
    {Y_fit_}
    {sample_weight_fit_}
    {y_mean_}
    {y_std_}
    {noise_}
    {intersection_weight_}
    {mean_sum_}
    {theta_}
    {optimization_history_}
    dual_coef_ : ndarray of shape (n_samples, n_targets)
        Weights of the training rows.
    {n_iter_}
    pattern_fits_ : list of MinMaxGPRegressor
        Where targets miss different rows: a fitted estimator for each pattern of missing rows.
        Attributes that are not of single targets, as those of the kernel, are there alone, and so
        is what takes predictions apart.
    {pattern_targets_}
    {std_error_}
    {n_features_in_}
    {feature_names_in_}

    See Also
    --------
    MinMaxGPClassifier : The same for class labels.
    IntersectionGPRegressor : The additive model, in memory linear in the entries.
    histrs.metrics.minmax_kernel : The kernel by itself.

    References
    ----------
    .. [1] L. Ralaivola, S. J. Swamidass, H. Saigo and P. Baldi, "Graph kernels for chemical
       informatics", Neural Networks, 2005.
    .. [2] R.-R. Griffiths et al., "GAUCHE: a library for Gaussian processes in chemistry", NeurIPS,
       2023.

    Examples
    --------
    >>> import numpy as np
    >>> from histrs.gaussian_process import MinMaxGPRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.poisson(0.3, size=(400, 50))
    >>> y = np.log1p(X[:, :5].sum(axis=1)) - X[:, 5] * (X[:, 6] > 0)
    >>> model = MinMaxGPRegressor().fit(X[:300], y[:300])
    >>> mean, std = model.predict(X[300:], return_std=True)
    >>> bool(np.mean(np.abs(mean - y[300:]) < 2 * std) > 0.9)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {**BaseMinMaxGP._parameter_constraints}

    @property
    def std_error_(self) -> float:
        """Mean relative error of standard deviations, as measured; 0 where they are exact.

        Of several fits it is the largest.
        """
        if self._has_patterns():
            return self._largest_std_error()
        return super().std_error_


@documented(CLASSIFICATION_GP, GAUSSIAN_PROCESS, MINMAX_GP)
class MinMaxGPClassifier(ClassifierMixin, ClassTargets, BaseMinMaxGP):
    r"""Gaussian process classifier on counts, for instance of the fragments of molecules.

    For every class a Gaussian process with the covariance of `MinMaxGPRegressor` is fitted to
    targets +1 for the class and -1 for all others, exactly, by a Cholesky factor of the matrix of
    all pairs of rows. Scores are calibrated by what the model predicts of each training row without
    it, in closed form. Above 10,000 rows it is solved as `MinMaxGPRegressor` is, and scores are
    calibrated by fits without a tenth of the rows, as many as leave out 4,000 of them together.

    Parameters
    ----------
    {noise}
    {amplitude}
    intersection_weight : "learned" or float, default="learned"
        Weight of the intersection kernel, between 0 and 1: 0 is the MinMax kernel alone. "learned"
        is that of largest likelihood, without an `optimizer` 0.5.
    {optimizer}
    {shared_hyperparameters}
    {bounds}
    {n_restarts_optimizer}
    {random_state}
    calibration : {"leave-one-out"} or None, default="leave-one-out"
        What scores and probabilities are made of. "leave-one-out" fits a temperature, a matrix
        and offsets to what the model predicts of training rows without each. None leaves the
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
    {intersection_weight_}
    {mean_sum_}
    {theta_}
    {optimization_history_}
    dual_coef_ : ndarray of shape (n_samples, n_outputs)
        Weights of the training rows; one output for two classes, else one per class.
    {n_iter_}
    {std_error_}
    {n_features_in_}
    {feature_names_in_}

    See Also
    --------
    MinMaxGPRegressor : The same for real targets, and the references.
    IntersectionGPClassifier : The additive model, in memory linear in the entries.

    Notes
    -----
    The tags ask for data that are not negative. Two checks of scikit-learn,
    `check_class_weight_classifiers` and `check_decision_proba_consistency`, fit others all the
    same, and fail.

    Examples
    --------
    >>> import numpy as np
    >>> from histrs.gaussian_process import MinMaxGPClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.poisson(0.3, size=(400, 30))
    >>> y = np.where(X[:, 0] + X[:, 1] > X[:, 2], "active", "inactive")
    >>> model = MinMaxGPClassifier().fit(X[:300], y[:300])
    >>> model.score(X[300:], y[300:]) > 0.75
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **BaseMinMaxGP._parameter_constraints,
        "calibration": [StrOptions({"leave-one-out"}), None],
        "class_weight": [dict, StrOptions({"balanced"}), None],
    }

    def __init__(
        self,
        *,
        noise: float | ArrayLike = 0.1,
        amplitude: float | ArrayLike = 1.0,
        intersection_weight: WeightName = "learned",
        optimizer: OptimizerName | None = "l-bfgs-b",
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
            noise=noise,
            amplitude=amplitude,
            intersection_weight=intersection_weight,
            optimizer=optimizer,
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
