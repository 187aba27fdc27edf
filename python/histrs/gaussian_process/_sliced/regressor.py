"""Regression on learned projections."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, get_args, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import Tags
from sklearn.utils._param_validation import StrOptions

from histrs._checks.validation import check_random_state
from histrs._estimator import documented
from histrs._typing import Array
from histrs.gaussian_process._docs import GAUSSIAN_PROCESS
from histrs.gaussian_process._options import Bins, Fine, Solver, SolverName, VarianceName
from histrs.gaussian_process._precision import Answer, in_precision_of_rows
from histrs.gaussian_process._sliced.docs import SLICED_GP
from histrs.gaussian_process._sliced.metrics import MetricName
from histrs.gaussian_process._sliced.regression_learning import (
    KernelName,
    SlicedRegressionLearning,
)


@documented(GAUSSIAN_PROCESS, SLICED_GP)
class SlicedGPRegressor(SlicedRegressionLearning):
    r"""Gaussian process regressor for tables, with all interactions, in linear time.

    The kernel is a sum of two: one of Brownian motions over the columns, which is additive, and one
    of random projections of the columns, the energy-distance kernel in a learned metric, in
    which all columns interact,

    .. math:: k(x, x') = \sigma_1^2 \sum_d \min(x(d), x'(d))
              + \frac{\sigma_2^2}{P} \sum_p \min(t_p(x), t_p(x')),
              \qquad t_p(x) = (w_p^T M x - l_p)_+ .

    Columns are standardised first, skewed ones straightened (Yeo and Johnson, 2000), missing
    values marked, and categories of a data frame turned into indicators, whose variances sum to 1.
    Signal variances and noise are those of largest likelihood. The metric is learned as in
    recursive feature machines ([1]_): directions are drawn anew where the fit before has its
    gradients, and added. Pairs of columns that the likelihood asks for get directions in their own
    plane and a signal variance of their own: few strong interactions among many columns are found
    so. On projections the
    kernel is an intersection kernel, so that the fit is exact, its products take time linear in the
    rows, and standard deviations, tables and online updates are those of
    `IntersectionGPRegressor`.

    Brownian motions are rough. The cubic-spline kernel, of their integral ([3]_),

    .. math:: k_3(s, t) = \int_0^\infty (s - u)_+ (t - u)_+ \, du
              = \frac{s^2 (3 t - s)}{6} \quad (s \le t),

    on the same projections is for smooth functions. Up to 8,192 rows both are tried, and their sum,
    and what predicts left-out rows best is kept (`kernel`).

    Three parameters matter: `n_projections` (more are slower and a little better),
    `n_metric_steps` (0 for isotropic data), and `variance`. Of a fitted model, `n_bins`,
    `variance` and `n_jobs` may be set; the others wait for the next fit, and the solver for the
    next rows.

    Parameters
    ----------
    kernel : {"auto", "sliced", "splines"}, default="auto"
        Kernel of the projections. "sliced" has minima, from which functions come that are linear
        between training rows, "splines" those of cubic splines. "auto" takes whatever of the two,
        or their sum, predicts left-out rows best. Smooth kernels store the matrix of all pairs of
        rows: "auto" is "sliced" for more than 8,192 rows, and with an `n_bins`, `solver` or
        `variance` that the matrix has no use for.
    n_projections : "auto" or int, default="auto"
        Number of projections in all, shared by the sets of directions, one and one per step, and
        rounded down; those of interactions come on top. "auto" takes 256 per set, or 512 where
        there is one, up to 8,192 rows, 512 in all up to 100,000, and 256 above. Above 8,192 rows,
        each projection is rounded to 255 levels.
    metric : {"learned", "identity", "pca", "whitened"}, default="learned"
        The metric of the projections. "learned" starts from "identity", that of standardised
        columns, and where a quarter as many components as columns, or fewer, carry 99 % of their
        variance, from "whitened" too: the one that predicts left-out rows better. "pca" is that of
        columns in their own units, as pixels have them, on the principal components that carry 99 %
        of the variance. "whitened" is the inverse of their covariance.
    n_metric_steps : int, default=3
        How often directions are added in the metric of the fit before, and interactions looked for.
    {n_interactions}
    tol : float, default=1e-4
        As for `IntersectionGPRegressor`.
    solver : str or Solver, default="auto"
        As for `IntersectionGPRegressor`.
    {n_bins}
    variance : str or Fine, default="auto"
        As for `IntersectionGPRegressor`. Smooth kernels' standard deviations are always exact.
    random_state : int, RandomState instance or None, default=None
        Draws directions, and the rows that metric and variances are learned from where there are
        more than 4,096 and 2,048; of more than 8,192, so many tell the noise, and 4,096 where
        kernels are smooth. An int gives the same fit every time.
    {n_jobs}
    {verbose}

    Attributes
    ----------
    metric_ : ndarray of shape (n_columns, n_columns)
        Mean outer product of gradients over the standardised columns, of trace `n_columns`: of
        what the projections predict, as the columns' part of the kernel needs no metric. Columns
        of numbers come first, those of categories behind them, and those that mark missing values
        last.
    feature_importances_ : ndarray of shape (n_features,)
        Share of each feature in the diagonal of `metric_`: how much it matters in interactions. A
        feature with an effect of its own may have a small one.
    interactions_ : list of tuple (int, int, float)
        Pairs of features that got directions of their own, with the variance of what they add to
        the prediction in units of the target's variance, largest first. What interacts beside them
        is in `metric_`.
    kernel_ : {"sliced", "splines", "both"}
        The kernel of the fit; "both" is the sum.
    {directions_}
    {offsets_}
    noise_ : float or ndarray of shape (n_targets,)
        Noise variance, relative to the variance of the target.
    n_iter_ : ndarray of shape (n_targets,)
        Iterations of the solver; 1 when the matrix was factorised.
    pattern_fits_ : list of SlicedGPRegressor
        Where targets miss different rows: a fitted estimator for each pattern of missing rows.
        Attributes that are not of single targets, as `metric_`, are there alone, and so is
        `partial_dependence`.
    pattern_targets_ : list of ndarray
        Which targets those are of.
    {n_features_in_}
    {feature_names_in_}

    See Also
    --------
    IntersectionGPRegressor : The additive model.
    histrs.kernel_approximation.SlicedDistanceMap : The projections by themselves.

    References
    ----------
    .. [1] A. Radhakrishnan, D. Beaglehole, P. Pandit and M. Belkin, "Mechanism for feature learning
       in neural networks and backpropagation-free machine learning models", Science 383, 2024.
    .. [2] J. Hertrich, "Fast kernel summation in high dimensions via slicing and Fourier
       transforms", SIAM Journal on Mathematics of Data Science, 2024.
    .. [3] G. Wahba, "Improper priors, spline smoothing and the problem of guarding against model
       errors in regression", Journal of the Royal Statistical Society B 40, 1978.

    Examples
    --------
    >>> import numpy as np
    >>> from histrs.gaussian_process import SlicedGPRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(400, 4))
    >>> y = X[:, 0] * X[:, 1] + 0.1 * rng.normal(size=400)
    >>> model = SlicedGPRegressor(n_projections=400, random_state=0).fit(X[:300], y[:300])
    >>> model.score(X[300:], y[300:]) > 0.8
    True
    >>> bool(model.feature_importances_[:2].sum() > 0.8)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **SlicedRegressionLearning._parameter_constraints,
        "kernel": [StrOptions(set(get_args(KernelName)))],
    }

    def __init__(
        self,
        *,
        kernel: KernelName = "auto",
        n_projections: Literal["auto"] | int = "auto",
        metric: MetricName = "learned",
        n_metric_steps: int = 3,
        n_interactions: int = 24,
        tol: float = 1e-4,
        solver: SolverName | Solver = "auto",
        n_bins: int | Bins | None = None,
        variance: VarianceName | Fine = "auto",
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(
            n_projections=n_projections,
            metric=metric,
            n_metric_steps=n_metric_steps,
            n_interactions=n_interactions,
            tol=tol,
            solver=solver,
            n_bins=n_bins,
            variance=variance,
            random_state=random_state,
            n_jobs=n_jobs,
            verbose=verbose,
        )
        self.kernel = kernel

    @overload
    def predict(
        self,
        X: ArrayLike,
        return_std: Literal[False] = False,
        return_cov: Literal[False] = False,
        return_quantiles: None = None,
    ) -> NDArray[Any]: ...
    @overload
    def predict(
        self, X: ArrayLike, return_std: Literal[True]
    ) -> tuple[NDArray[Any], NDArray[Any]]: ...
    @overload
    def predict(
        self, X: ArrayLike, *, return_cov: Literal[True]
    ) -> tuple[NDArray[Any], NDArray[Any]]: ...
    @overload
    def predict(
        self, X: ArrayLike, *, return_quantiles: ArrayLike
    ) -> tuple[NDArray[Any], NDArray[Any]]: ...
    @overload
    def predict(
        self,
        X: ArrayLike,
        return_std: bool = False,
        return_cov: bool = False,
        return_quantiles: ArrayLike | None = None,
    ) -> Answer: ...
    @in_precision_of_rows
    def predict(
        self,
        X: ArrayLike,
        return_std: bool = False,
        return_cov: bool = False,
        return_quantiles: ArrayLike | None = None,
    ) -> Answer:
        """Predict targets, and on request how uncertain they are.

        Parameters
        ----------
        X : {array-like, data frame} of shape (n_samples, n_features)
            Rows.
        return_std : bool, default=False
            Whether to return the predictive standard deviation too, noise included.
        return_cov : bool, default=False
            Whether to return the predictive covariance of the rows too, exactly, noise included on
            the diagonal.
        return_quantiles : array-like of shape (n_quantiles,), default=None
            Probabilities, between 0 and 1, whose quantiles to return too.

        Returns
        -------
        mean : ndarray of shape (n_samples,) or (n_samples, n_targets)
            Posterior means.
        std : ndarray of the same shape
            Only with `return_std`.
        covariance : ndarray of shape (n_samples, n_samples) or (n_samples, n_samples, n_targets)
            Only with `return_cov`.
        quantiles : ndarray of shape (n_samples, n_quantiles) or (n_samples, n_quantiles, n_targets)
            Only with `return_quantiles`.

        Raises
        ------
        ValueError
            If more than one of these is asked for, or a probability is not between 0 and 1.
        """
        asked = {
            "return_std": return_std,
            "return_cov": return_cov,
            "return_quantiles": return_quantiles,
        }
        answer: Answer = self._answers(
            X, lambda inner, T: inner.predict(T, **asked), at_once=return_cov
        )
        return answer

    def std_bounds(self, X: ArrayLike, rtol: float = 0.01) -> tuple[Array, Array]:
        """Return two numbers that the predictive standard deviation is certainly between.

        Parameters
        ----------
        X : {array-like, data frame} of shape (n_samples, n_features)
            Rows.
        rtol : float, default=0.01
            As for `IntersectionGPRegressor.std_bounds`.

        Returns
        -------
        lower, upper : ndarray of shape (n_samples,) or (n_samples, n_targets)
            Bounds, noise included.
        """
        bounds: tuple[Array, Array] = self._answers(X, lambda inner, T: inner.std_bounds(T, rtol))
        return bounds

    @in_precision_of_rows
    def sample_y(
        self,
        X: ArrayLike,
        n_samples: int = 1,
        random_state: int | np.random.RandomState | None = 0,
    ) -> Array:
        """Draw targets of rows from the posterior, noise included.

        Parameters
        ----------
        X : {array-like, data frame} of shape (n_rows, n_features)
            Rows.
        n_samples : int, default=1
            Number of draws.
        random_state : int, RandomState instance or None, default=0
            Draws them.

        Returns
        -------
        samples : ndarray of shape (n_rows, n_samples) or (n_rows, n_targets, n_samples)
            Joint draws: a column is one for all rows.
        """
        # One generator for all, whose draws differ from fit to fit.
        random = check_random_state(random_state)
        samples: Array = self._answers(
            X, lambda inner, T: inner.sample_y(T, n_samples, random), at_once=True, axis=1
        )
        return samples

    def __sklearn_tags__(self) -> Tags:
        """Return what scikit-learn may expect of the estimator."""
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
