"""Gaussian processes of the histogram intersection kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from histrs._estimator import documented
from histrs.gaussian_process._classifier import GPClassifier
from histrs.gaussian_process._docs import (
    CLASSIFICATION_GP,
    GAUSSIAN_PROCESS,
    INTERSECTION_GP,
    REGRESSION_GP,
)
from histrs.gaussian_process._kernels.base import Kernel
from histrs.gaussian_process._kernels.intersection import Intersection
from histrs.gaussian_process._regressor import GPRegressor


@documented(GAUSSIAN_PROCESS, INTERSECTION_GP, REGRESSION_GP)
class IntersectionGPRegressor(GPRegressor):
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

    _default_kernel: ClassVar[Callable[[], Kernel]] = Intersection


@documented(CLASSIFICATION_GP, GAUSSIAN_PROCESS, INTERSECTION_GP)
class IntersectionGPClassifier(GPClassifier):
    r"""Exact Gaussian process classifier with the histogram intersection kernel.

    One-vs-all label regression (section 3.3 of [1]_): for every class a Gaussian process with
    covariance

    .. math:: \mathrm{amplitude} \sum_d w_d \min(g(x(d)), g(x'(d))) + \mathrm{noise}\,[x = x']

    is fitted to targets +1 for the class and -1 for all others, and the class of largest
    posterior mean is predicted. The solution is exact: all classes are solved together by
    preconditioned block conjugate gradients on the sorted columns of the data, in memory linear in
    the number of stored values. Hyper-parameters are those of largest marginal likelihood, summed
    over the classes (section 6), unless `optimizer` is None.

    Parameters
    ----------
    {kernel}
    {noise}
    {noise_bounds}
    {optimizer}
    {solver}
    tol : float, default=1e-4
        A class is solved when no entry of its residual is larger (section 5.1 of [1]_).
    {variance}
    {n_bins}
    {random_state}
    likelihood : {"auto", "gaussian", "bernoulli", "softmax"}, default="auto"
        What ties classes to latent functions. "gaussian" is the paper's: targets +1 and -1 plus
        noise. "bernoulli" says that a row is of the class with probability
        :math:`1 / (1 + e^{-f})`, each class against all others, and "softmax" with probability
        :math:`e^{f_c} / \sum_k e^{f_k}`, which is what classes are: their log loss is lower, above
        all where a class is rare or classes are many (see Notes). They take some ten solves in
        place of one, and rows that come or go take as many; "softmax" factorises a matrix for each
        class. "auto" is "bernoulli" for two classes of at most 4,096 rows, "softmax" for 3
        to 64 of 400 rows or more whose cube times the number of classes is at most 4e10, unless
        other parameters ask for the noise of the targets, and else "gaussian". Of two classes,
        "softmax" is "bernoulli": the difference of two functions is a function like them.
    calibration : {"leave-one-out"} or None, default="leave-one-out"
        What scores and probabilities are made of. "leave-one-out" fits a temperature, a matrix
        and offsets to what the model predicts of training rows without each: in closed form where
        the system was factorised, else by fits without a tenth of the rows at a time. None leaves
        the posterior as it is, whose probabilities are too certain.
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
    {exponent_}
    likelihood_ : {"gaussian", "bernoulli", "softmax"}
        The likelihood of the fit.
    {calibration_}
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
    dual_coef_ : ndarray of shape (n_samples, n_outputs)
        The weights alpha of eq. 2; one output for two classes, else one per class.
    n_iter_ : ndarray of shape (n_outputs,)
        Iterations until each output was solved; 1 when the matrix was factorised. Of the other
        likelihoods, Newton's steps.
    residual_ : ndarray of shape (n_outputs,)
        Largest absolute entry of `Y - (amplitude K + noise W^-1) alpha`; of the other
        likelihoods, of the gradient at the mode.
    quantization_error_bound_ : ndarray of shape (n_outputs,)
        With `n_bins`: a number that `|score - exact score|` never exceeds, for any histogram;
        scores are what `decision_function` returns.
    {n_features_in_}
    {feature_names_in_}

    See Also
    --------
    IntersectionGPRegressor : The same for real targets.

    Notes
    -----
    The paper's Theorem 1 bounds the error of the table by ``D eps |alpha|_1 / 2``. Its factor one
    half needs rounding to keep the norm of the histogram, which it does not in general; the bound
    here is measured on the tabulated functions themselves and holds always.

    The tags ask for data that are not negative. Two checks of scikit-learn,
    `check_class_weight_classifiers` and `check_decision_proba_consistency`, fit others all the
    same, and fail.

    `X` may be a dask array. Its columns then stay, sorted, on the workers that dask computes on,
    and what comes here are vectors with a number for each row; rows to predict may be dask arrays
    too. `n_jobs` is of each task there, and None is one thread. Pairs of features, smooth
    functions, transforms, and the bounds of `variance` are refused, and so are rows that come and
    go. The hyper-parameters are those of all rows, as ever, and equal rows count one by one.

    The bound of eq. 19 needs a number at or above the largest eigenvalue. Arnoldi and Lanczos
    values, which the paper takes, lie below it, so that their "bound" is none. Here that number is
    the largest ratio of an entry of `A v` to that of a positive `v` near the eigenvector (Collatz
    and Wielandt), which is one for certain as no entry of the kernel matrix is negative.

    The paper calls gradients too costly. The derivative by the logarithm of a feature's weight is
    a sum of quadratic forms in that feature's kernel matrix, and one pass over the sorted columns
    gives those of all features, so that thousands of weights can be learned.

    With the Bernoulli likelihood, each class has a latent function `f` with the same covariance and
    a bias of variance 4. Weights and predictions are those of the mode of its posterior, found by
    Newton's method, whose last step is a regression of :math:`f + (t - \pi) / (\pi (1 - \pi))` with
    the noise variance :math:`1 / (\pi (1 - \pi))` (Laplace's approximation, [2]_). Standard
    deviations, tables, explanations and rows left out are those of this regression, in the unit of
    the logit. Weights of features are learned by the likelihood of regression; then the variance
    of the logit, `amplitude_`, is the one of seven with which rows are predicted best, each by a
    fit without it: 1,024 of them at most, over the root of the number of outputs. `noise_` is 1,
    and does not count.

    The softmax likelihood ties the functions of all classes (section 3.5 of [2]_): the curvature of
    a row is :math:`\mathrm{diag}(\pi) - \pi \pi^T`. Newton's steps are solved by conjugate
    gradients, preconditioned class by class. `amplitude_` is the one of seven with the largest
    evidence, and rows are left out of the functions of all classes at once, to first order; with
    these scores the calibration needs no matrix. Standard deviations are those of the function
    of a class where the others are known.

    Probabilities of a model that chose pairs of features come, up to 2,048 rows, from what fits to
    four fifths of the rows, with pairs of their own, say of the others.

    References
    ----------
    .. [1] E. Rodner, A. Freytag, P. Bodesheim, B. Fröhlich and J. Denzler, "Large-scale Gaussian
       process inference with generalized histogram intersection kernels for visual recognition
       tasks", International Journal of Computer Vision, 2016.
    .. [2] C. E. Rasmussen and C. K. I. Williams, "Gaussian processes for machine learning", MIT
       Press, 2006, section 3.4.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.model_selection import train_test_split
    >>> from histrs.gaussian_process import IntersectionGPClassifier
    >>> X, y = load_digits(n_class=5, return_X_y=True)
    >>> X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    >>> model = IntersectionGPClassifier().fit(X_train, y_train)
    >>> model.score(X_test, y_test) > 0.93
    True
    >>> model.likelihood_, bool(0.1 < model.amplitude_ < 10.0)
    ('softmax', True)
    """

    _default_kernel: ClassVar[Callable[[], Kernel]] = Intersection
