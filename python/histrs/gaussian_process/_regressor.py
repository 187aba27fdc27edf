"""Gaussian process regression."""

from __future__ import annotations

from typing import Any, ClassVar

from histrs._docs import documented
from histrs._solvers.block_cg import Array
from histrs._validation import Matrix
from histrs.gaussian_process._base import BaseIntersectionGP
from histrs.gaussian_process._docs import GAUSSIAN_PROCESS, INTERSECTION_GP, REGRESSION_GP
from histrs.gaussian_process._regression import RealTargets


@documented(GAUSSIAN_PROCESS, INTERSECTION_GP, REGRESSION_GP)
class IntersectionGPRegressor(RealTargets, BaseIntersectionGP):
    r"""Exact Gaussian process regressor with the histogram intersection kernel.

    The target, its mean subtracted and divided by its standard deviation, has covariance

    .. math:: \mathrm{amplitude} \sum_d w_d \min(g(x(d)), g(x'(d))) + \mathrm{noise}\,[x = x'].

    `min` is the covariance of Brownian motion, so that this is an exact Bayesian additive model
    whose components are piecewise linear with knots at the training values. Several targets are
    solved together by preconditioned block conjugate gradients on the sorted columns of the data,
    in memory linear in the number of stored values. Hyper-parameters are those of largest marginal
    likelihood (section 6 of [1]_), for each target its own, unless `optimizer` is None. The unit of
    a target does not matter: predictions and their standard deviations scale with it.

    Parameters
    ----------
    {kernel}
    {noise}
    {noise_bounds}
    {optimizer}
    {solver}
    tol : float, default=1e-4
        A target is solved when no entry of its residual is larger than `tol` times the largest
        absolute centred target.
    {variance}
    {n_bins}
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
    {exponent_}
    {std_error_}
    {feature_weights_}
    {intercept_}
    {intercept_variance_}
    {interactions_}
    {interaction_weight_}
    {interaction_knots_}
    {smoothness_}
    {slope_weight_}
    {feature_transform_}
    {theta_}
    {optimization_history_}
    dual_coef_ : ndarray of shape (n_samples, n_targets)
        The weights alpha of eq. 2.
    n_iter_ : ndarray of shape (n_targets,)
        Iterations until each target was solved; 1 when the matrix was factorised.
    residual_ : ndarray of shape (n_targets,)
        Largest absolute entry of `Y - (amplitude K + noise W^-1) alpha`, in units of the target.
    quantization_error_bound_ : ndarray of shape (n_targets,)
        With `n_bins`: a number that `|prediction - exact prediction|` never exceeds.
    pattern_fits_ : list of IntersectionGPRegressor
        Where targets miss different rows: a fitted estimator for each pattern of missing rows.
        Attributes that are not of single targets, as those of the kernel, are there alone, and so
        is what takes predictions apart.
    {pattern_targets_}
    {n_features_in_}
    {feature_names_in_}

    See Also
    --------
    IntersectionGPClassifier : The same for class labels.

    Notes
    -----
    A product with smooth functions (`Splines`) takes four sums along each sorted column in place of
    two, and is preconditioned by a low-rank approximation. Their two weights are those of largest
    likelihood, of all rows or, of more than 2,048, of 1,024 of them, from several starts; noise and
    amplitude are learned by all rows. Rows added or removed move the mean that is taken away, so
    that systems are solved anew.

    `X` may be a dask array. Its columns then stay, sorted, on the workers that dask computes on,
    and what comes here are vectors with a number for each row; rows to predict may be dask arrays
    too. `n_jobs` is of each task there, and None is one thread. Pairs of features, smooth
    functions, transforms, and the bounds of `variance` are refused, and so are rows that come and
    go. The hyper-parameters are those of all rows, as ever, and equal rows count one by one.

    References
    ----------
    .. [1] E. Rodner, A. Freytag, P. Bodesheim, B. Fröhlich and J. Denzler, "Large-scale Gaussian
       process inference with generalized histogram intersection kernels for visual recognition
       tasks", International Journal of Computer Vision, 2016.

    Examples
    --------
    >>> import numpy as np
    >>> from histrs.gaussian_process import IntersectionGPRegressor
    >>> from histrs.gaussian_process.kernels import Intersection
    >>> rng = np.random.default_rng(0)
    >>> X = rng.random((500, 3))
    >>> y = np.sin(6 * X[:, 0]) + X[:, 1] ** 2 + 0.1 * rng.standard_normal(500)
    >>> kernel = Intersection(feature_weights="ard")
    >>> model = IntersectionGPRegressor(kernel).fit(X, y)
    >>> [int(d) for d in np.argsort(model.feature_weights_)]  # the third does not matter
    [2, 1, 0]
    >>> mean, std = model.predict([[0.25, 0.5, 0.5]], return_std=True)
    >>> bool(abs(mean[0] - np.sin(1.5) - 0.25) < 3 * std[0])
    True
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {**BaseIntersectionGP._parameter_constraints}
    _predicted = "mean"

    def _check_entries(self, X: Matrix) -> None:
        self._check_histograms(X)

    @property
    def std_error_(self) -> float:
        """Mean relative error of the standard deviations that come from cached directions.

        It is measured on training rows that are solved exactly, each by a fit without it; 0 where
        all standard deviations are exact. Of several fits it is the largest.
        """
        if self._has_patterns():
            return self._largest_std_error()
        return super().std_error_

    @property
    def intercept_(self) -> Array:
        """What is predicted where no feature and no pair of features adds anything."""
        if self._has_patterns():
            intercepts: Array = self._of_patterns(lambda fit: fit.intercept_)
            return intercepts
        return super().intercept_

    @property
    def quantization_error_bound_(self) -> Array:
        """What no number from the table of `n_bins` cells is off by more than."""
        if self._has_patterns():
            bound: Array = self._of_patterns(lambda fit: fit.quantization_error_bound_)
            return bound
        return super().quantization_error_bound_
