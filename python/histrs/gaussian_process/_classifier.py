"""Gaussian process classification by label regression."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin
from sklearn.utils._param_validation import StrOptions

from histrs._docs import documented
from histrs._row_weights import ClassWeight
from histrs._solvers.block_cg import Array
from histrs.gaussian_process._base import BaseIntersectionGP
from histrs.gaussian_process._docs import CLASSIFICATION_GP, GAUSSIAN_PROCESS, INTERSECTION_GP
from histrs.gaussian_process._hyperparameters import Bounds, WeightsName
from histrs.gaussian_process._interactions.calibration import MOST_ROWS, scores_without_pairs_of
from histrs.gaussian_process._interactions.search import Interactions
from histrs.gaussian_process._kernel import SmoothnessName, TransformName
from histrs.gaussian_process._latent_classes import LatentClasses, LikelihoodName
from histrs.gaussian_process._likelihood import LogDetName
from histrs.gaussian_process._optimizer import OptimizerName
from histrs.gaussian_process._posterior import Interpolation
from histrs.gaussian_process._preconditioned import PreconditionerName
from histrs.gaussian_process._system import SolverName
from histrs.gaussian_process._variance import VarianceName


@documented(CLASSIFICATION_GP, GAUSSIAN_PROCESS, INTERSECTION_GP)
class IntersectionGPClassifier(ClassifierMixin, LatentClasses):
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
    noise : float or array-like of shape (n_outputs,), default=0.1
        Variance of the noise on the targets, where the search for it starts; an array, one for
        each output, where these do not share it. Without a search, features whose rows sum to much
        more than 1 ask for a smaller `amplitude` or a larger `noise`.
    {amplitude}
    tol : float, default=1e-4
        A class is solved when no entry of its residual is larger (section 5.1 of [1]_).
    {max_iter}
    {preconditioner}
    {n_bins}
    {interpolation}
    {solver}
    {feature_transform}
    {exponent}
    {feature_weights}
    intercept_variance : float or "auto", default="auto"
        Prior variance of a constant that is added to the functions of the features, which are 0 at
        0, before `amplitude` multiplies it; 0 goes without. "auto" is 3 times the mean of the
        kernel over the training rows, with which a row of zeros is predicted as its neighbours say.
        Smooth functions have none: their mean is that of the targets; nor does
        ``solver="coordinate-descent"``. The likelihoods of classes have a bias of
        their own.
    {n_interactions}
    {interactions}
    {n_interaction_knots}
    {interaction_weight}
    smoothness : {"linear", "cubic", "both"}, default="linear"
        Functions of the features. "linear" is the kernel above. "cubic" has integrated Brownian
        motion in its place, and lines: functions are cubic smoothing splines. "both" is their sum,
        and the likelihood of regression says how much of each (see `IntersectionGPRegressor`). The
        last two cost a few times as much, and go without pairs of features, tables (`n_bins`,
        `export_tables`), transforms, learned weights of features, and the bounds of `variance`.
    {slope_weight}
    {rough_weight}
    {optimizer}
    {log_det}
    shared_hyperparameters : bool or None, default=None
        Whether all classes share one noise and one amplitude. None is True: they come
        from the same rows and are of one size.
    {noise_bounds}
    {interaction_weight_bounds}
    {slope_weight_bounds}
    {n_restarts_optimizer}
    {variance}
    {n_eigenvectors}
    {random_state}
    warm_start : bool, default=False
        Start from the previous weights when `fit` is called again with as many rows and classes.
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
    the noise variance :math:`1 / (\pi (1 - \pi))` (Laplace's approximation, [3]_). Standard
    deviations, tables, explanations and rows left out are those of this regression, in the unit of
    the logit. Weights of features are learned by the likelihood of regression; then the variance
    of the logit, `amplitude_`, is the one of seven with which rows are predicted best, each by a
    fit without it: 1,024 of them at most, over the root of the number of outputs. `noise_` is 1,
    and does not count.

    The softmax likelihood ties the functions of all classes (section 3.5 of [3]_): the curvature of
    a row is :math:`\mathrm{diag}(\pi) - \pi \pi^T`. Newton's steps are solved by conjugate
    gradients, preconditioned class by class. `amplitude_` is the one of seven with the largest
    evidence, and rows are left out of the functions of all classes at once, to first order; with
    these scores the calibration needs no matrix. Standard deviations are those of the function
    of a class where the others are known.

    With pairs of features, the kernel is

    .. math:: \mathrm{amplitude} \Big( \sum_d w_d \min(x(d), x'(d))
              + w \sum_{(i, j)} c_i(x(i), x'(i)) \, c_j(x(j), x'(j)) \Big),

    where :math:`c_d` is the covariance of a Brownian motion in equal steps over the knots of a
    feature, less its mean over the training rows and divided by its variance over these. Neither
    units nor origins of features matter, and a pair's function has a mean of 0 over the values of
    each of its features: it holds no main effect. The block of a pair is explicit, so that products
    take time linear in the rows. Pairs are chosen by histograms of the residuals, as in FAST
    ([2]_). The weight of chosen pairs is that of largest likelihood of rows that did not choose
    them, each half of them with the pairs of the other, up to 2,048 rows; of more, that of 1,024 of
    them.

    Probabilities of a model that chose pairs of features come, up to 2,048 rows, from what fits to
    four fifths of the rows, with pairs of their own, say of the others.

    References
    ----------
    .. [1] E. Rodner, A. Freytag, P. Bodesheim, B. Fröhlich and J. Denzler, "Large-scale Gaussian
       process inference with generalized histogram intersection kernels for visual recognition
       tasks", International Journal of Computer Vision, 2016.
    .. [2] Y. Lou, R. Caruana, J. Gehrke and G. Hooker, "Accurate intelligible models with pairwise
       interactions", KDD, 2013.
    .. [3] C. E. Rasmussen and C. K. I. Williams, "Gaussian processes for machine learning", MIT
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

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **BaseIntersectionGP._parameter_constraints,
        "likelihood": [StrOptions(set(get_args(LikelihoodName)))],
        "calibration": [StrOptions({"leave-one-out"}), None],
        "class_weight": [dict, StrOptions({"balanced"}), None],
    }
    _predicted = "decision"

    def __init__(
        self,
        *,
        noise: float | ArrayLike = 0.1,
        amplitude: float | ArrayLike = 1.0,
        tol: float = 1e-4,
        max_iter: int = 1000,
        preconditioner: PreconditionerName = "auto",
        n_bins: int | None = None,
        interpolation: Interpolation = "linear",
        solver: SolverName = "auto",
        feature_transform: TransformName = "identity",
        exponent: float = 1.0,
        feature_weights: WeightsName | ArrayLike | None = "auto",
        intercept_variance: float | Literal["auto"] = "auto",
        n_interactions: int = 0,
        interactions: Interactions | None = None,
        n_interaction_knots: int = 12,
        interaction_weight: float = 0.3,
        smoothness: SmoothnessName = "linear",
        slope_weight: float = 1.0,
        rough_weight: float = 1.0,
        optimizer: OptimizerName | None = "l-bfgs-b",
        log_det: LogDetName = "lanczos",
        shared_hyperparameters: bool | None = None,
        noise_bounds: Bounds = (1e-6, 1e12),
        amplitude_bounds: Bounds = (1e-12, 1e12),
        exponent_bounds: Bounds = (0.05, 20.0),
        feature_weights_bounds: Bounds = (1e-6, 1e6),
        interaction_weight_bounds: Bounds = (1e-6, 1e6),
        slope_weight_bounds: Bounds = (1e-6, 1e6),
        rough_weight_bounds: Bounds = (1e-6, 1e6),
        n_restarts_optimizer: int = 0,
        variance: VarianceName = "auto",
        n_eigenvectors: int = 2,
        random_state: int | np.random.RandomState | None = None,
        warm_start: bool = False,
        likelihood: LikelihoodName = "auto",
        calibration: Literal["leave-one-out"] | None = "leave-one-out",
        class_weight: ClassWeight = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(
            noise=noise,
            amplitude=amplitude,
            tol=tol,
            max_iter=max_iter,
            preconditioner=preconditioner,
            n_bins=n_bins,
            interpolation=interpolation,
            solver=solver,
            feature_transform=feature_transform,
            exponent=exponent,
            feature_weights=feature_weights,
            intercept_variance=intercept_variance,
            n_interactions=n_interactions,
            interactions=interactions,
            n_interaction_knots=n_interaction_knots,
            interaction_weight=interaction_weight,
            smoothness=smoothness,
            slope_weight=slope_weight,
            rough_weight=rough_weight,
            optimizer=optimizer,
            log_det=log_det,
            shared_hyperparameters=shared_hyperparameters,
            noise_bounds=noise_bounds,
            amplitude_bounds=amplitude_bounds,
            exponent_bounds=exponent_bounds,
            feature_weights_bounds=feature_weights_bounds,
            interaction_weight_bounds=interaction_weight_bounds,
            slope_weight_bounds=slope_weight_bounds,
            rough_weight_bounds=rough_weight_bounds,
            n_restarts_optimizer=n_restarts_optimizer,
            variance=variance,
            n_eigenvectors=n_eigenvectors,
            random_state=random_state,
            warm_start=warm_start,
            n_jobs=n_jobs,
            verbose=verbose,
        )
        self.likelihood = likelihood
        self.calibration = calibration
        self.class_weight = class_weight

    def _scores_left_out(self, posterior: Any, Y: Array) -> Array:
        found = self.interactions is None and posterior.system.pairs is not None
        if found and len(Y) <= MOST_ROWS:
            return scores_without_pairs_of(self, posterior, Y - self._level(Y))
        return super()._scores_left_out(posterior, Y)
