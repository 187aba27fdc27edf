"""Ridge regression after principal components, from moments."""

from __future__ import annotations

from histrs._estimator import documented
from histrs.streaming._docs import STREAMS
from histrs.streaming._linear import MomentRegressor
from histrs.streaming._ridge_on_components import RidgeOnComponents


@documented(STREAMS)
class PCARidge(RidgeOnComponents, MomentRegressor):
    r"""Ridge regression on principal components, from moments, with a path of penalties.

    Algorithm 3 of [1]_: with `U` and :math:`\Lambda` from `StreamingPCA`,

    .. math:: v' = U^T v - \frac{1^T y}{n} U^T m, \qquad w = (\Lambda + \lambda I)^{-1} v',
              \qquad f(z) = (U w)^T (z - m/n) + \bar y,

    the minimiser of :math:`\|y - \bar y - (Z - 1 m^T/n) U w\|^2 + \lambda \|w\|^2`. (The paper
    prints :math:`U^T w` for the coefficients and leaves out the mean of `y`.) One decomposition
    serves all targets and all penalties. A prediction needs no projection.

    Moments of rows without targets may contribute to the directions, see `fit_moments`.

    Parameters
    ----------
    n_components : int or sequence of int, default=None
        Number of principal components to regress on; None takes as many as there are features,
        which is plain ridge regression. With `blocks`, a number for all or one for each.
    alphas : "auto", float or array-like of shape (n_alphas,), default="auto"
        Penalties :math:`\lambda > 0` to choose from, as in `sklearn.linear_model.Ridge`. "auto"
        takes two for each power of ten, from :math:`10^{-14}` to :math:`10^3` times the sum of
        squares of the centred features. With few rows it begins at :math:`10^{-10}`.
    selection : {"auto", "loo", "gcv"}, default="auto"
        The error that the chosen penalty minimises, as a mean over targets. "loo" is the squared
        error of left-out rows, in closed form, with the principal components of all rows. It reads
        the rows again. A row with a weight above 1 counts as several copies, of which one is left
        out. "gcv" is generalised cross-validation, :math:`(|y - Sy|^2/n) / (1 - tr(S)/n)^2`. It
        needs the moments alone, and may fail with fewer rows than features. "auto" is "loo" with
        several penalties, unless rows come from moments, iterators or dask arrays.
    blocks : sequence of int, "union" or None, default=None
        Numbers of consecutive features that have principal components of their own, for instance
        the random features of several descriptors (Algorithm 4). "union" takes those of the
        `sklearn.pipeline.FeatureUnion` given to `fit_rows`. The rows are read twice, and the matrix
        of all features is never made.
    n_jobs : int or None, default=None
        Threads of BLAS while rows are read; None leaves them as they are. Their number may change
        the last bits.
    {verbose}

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,) or (n_targets, n_features)
        Coefficients of the features.
    {intercept_}
    {alpha_}
    {alphas_}
    {selection_}
    {n_components_}
    {moments_}
    {n_features_in_}
    {feature_names_in_}

    References
    ----------
    .. [1] F. Li, G. Lebanon and C. Sminchisescu, "Chebyshev approximations to the histogram
       chi-square kernel", CVPR 2012.

    Examples
    --------
    >>> import numpy as np
    >>> from histrs.streaming import Moments, PCARidge
    >>> Z = np.random.default_rng(0).random((5000, 8))
    >>> y = Z @ np.arange(8) + 3
    >>> model = PCARidge(alphas=[1e-6, 1.0]).fit_moments(Moments.of(Z, y))
    >>> model.coef_.round(3) + 0
    array([0., 1., 2., 3., 4., 5., 6., 7.])
    >>> round(model.intercept_, 3)
    3.0
    """
