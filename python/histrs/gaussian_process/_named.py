"""Named Gaussian processes: the two estimators with another kernel by default."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from histrs._estimator import documented
from histrs.gaussian_process._classifier import GPClassifier
from histrs.gaussian_process._docs import CLASSIFICATION_GP, GAUSSIAN_PROCESS, REGRESSION_GP
from histrs.gaussian_process._kernels.base import Kernel
from histrs.gaussian_process._kernels.covariance import Tangent
from histrs.gaussian_process._kernels.intersection import Intersection
from histrs.gaussian_process._kernels.minmax import MinMax
from histrs.gaussian_process._regressor import GPRegressor


@documented(GAUSSIAN_PROCESS, REGRESSION_GP)
class IntersectionGPRegressor(GPRegressor):
    r"""Exact Gaussian process regressor with the histogram intersection kernel.

    With the transform `g`, the `feature_weights` `w` and the `intercept_variance` `c` of the
    kernel, the standardised target has the covariance

    .. math:: \mathrm{amplitude} \Big(\sum_d w_d \min(g(x(d)), g(x'(d))) + c\Big)
              + \mathrm{noise}\,[x = x'].

    `min` is the covariance of Brownian motion. The model is therefore a sum of functions of single
    columns, piecewise linear with knots at the training values. With many rows, preconditioned
    block conjugate gradients on sorted columns solve for all targets together, in memory linear in
    the stored values. The unit of a target does not matter.

    Parameters
    ----------
    kernel : Kernel, str or None, default=None
        `Intersection` or `Splines`. If columns interact, `Interactions` can be added to
        `Intersection`. None is ``Intersection()``. All other parameters and attributes are those of
        `GPRegressor`.

    Attributes
    ----------
    {additive_attributes}

    See Also
    --------
    IntersectionGPClassifier : The same for class labels.

    Notes
    -----
    `X` may be a dask array, and so may rows to predict. The workers then keep the sorted columns of
    `X`, and return vectors with one number for each row. `n_jobs` is the number of threads of a
    task, and None is one. A model of dask arrays refuses pairs of features, smooth functions,
    transforms, upper bounds as `variance`, and online updates.

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


@documented(GAUSSIAN_PROCESS, CLASSIFICATION_GP)
class IntersectionGPClassifier(GPClassifier):
    r"""Exact Gaussian process classifier with the histogram intersection kernel.

    With ``likelihood="gaussian"`` it is the classifier of section 3.3 of [1]_. For every class a
    process with the covariance of `IntersectionGPRegressor` is fitted to targets +1 for the class
    and -1 for all others. All classes are solved together. The other likelihoods are Laplace
    approximations (sections 3.4 and 3.5 of [2]_), and are the default with few rows.

    `GPClassifier` describes the parameters that are not listed here, such as `likelihood`,
    `variance` and `n_bins`, and the other attributes.

    Parameters
    ----------
    kernel : Kernel, str or None, default=None
        `Intersection` or `Splines`. If columns interact, `Interactions` can be added to
        `Intersection`. None is ``Intersection()``.

    Attributes
    ----------
    {additive_attributes}

    See Also
    --------
    IntersectionGPRegressor : The same for real targets. Its notes are about dask arrays.

    Notes
    -----
    With the Bernoulli and softmax likelihoods, functions, standard deviations, look-up tables and
    explanations are on the scale of the logit. `amplitude_` is the variance of the logit. The fit
    tries seven values. Bernoulli takes the one with the least log loss of left-out rows, softmax
    the one with the largest marginal likelihood. `noise_` is 1, and has no effect.

    Rows must not be negative, as the estimator's tags say. Two of scikit-learn's estimator checks,
    `check_class_weight_classifiers` and `check_decision_proba_consistency`, fit negative values all
    the same, and fail.

    References
    ----------
    .. [1] E. Rodner, A. Freytag, P. Bodesheim, B. Fröhlich and J. Denzler, "Large-scale Gaussian
       process inference with generalized histogram intersection kernels for visual recognition
       tasks", International Journal of Computer Vision, 2016.
    .. [2] C. E. Rasmussen and C. K. I. Williams, "Gaussian processes for machine learning", MIT
       Press, 2006.

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


class MinMaxGPRegressor(GPRegressor):
    r"""Gaussian process regressor on counts: `GPRegressor` with the kernel `MinMax`.

    The MinMax kernel is :math:`\sum_d \min(x_d, x'_d) / \sum_d \max(x_d, x'_d)`. For bits and
    counts, it is known as the Tanimoto coefficient [1]_. The process has a convex sum of this
    kernel and the intersection kernel, with weights that maximise the marginal likelihood. Up to
    10,000 rows the matrix of all pairs is factorised. With more rows, the sum of minima of each
    pair is stored in two bytes, and conjugate gradients solve the system. 60,000 rows then need 3.6
    GB, or twice as much if sums are not whole numbers below 65,536. Parameters and attributes are
    those of `GPRegressor`.

    See Also
    --------
    MinMaxGPClassifier : The same for class labels.
    IntersectionGPRegressor : The additive model, in memory linear in the entries.
    histrs.metrics.minmax_kernel : The kernel by itself.

    References
    ----------
    .. [1] R.-R. Griffiths et al., "GAUCHE: a library for Gaussian processes in chemistry", NeurIPS,
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

    _default_kernel: ClassVar[Callable[[], Kernel]] = MinMax


class MinMaxGPClassifier(GPClassifier):
    r"""Gaussian process classifier on counts: `GPClassifier` with the kernel `MinMax`.

    The MinMax kernel is :math:`\sum_d \min(x_d, x'_d) / \sum_d \max(x_d, x'_d)`. As in
    `MinMaxGPRegressor`, it is mixed with the intersection kernel. Parameters and attributes are
    those of `GPClassifier`.

    See Also
    --------
    MinMaxGPRegressor : The same for real targets, and the references.
    IntersectionGPClassifier : The additive model, in memory linear in the entries.

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

    _default_kernel: ClassVar[Callable[[], Kernel]] = MinMax


class SPDGPRegressor(GPRegressor):
    r"""Gaussian process regressor on covariance matrices: `GPRegressor` with the kernel `Tangent`.

    Rows are matrices, of shape (n, p, p), or their entries, of shape (n, p * p). The kernel
    "tangent" is the Gaussian kernel in the tangent space at the geometric mean of the matrices of
    the first fit. "logeuclid" is the Gaussian kernel of logarithms,
    :func:`~histrs.metrics.log_euclidean_kernel`. "jbld" is :func:`~histrs.metrics.jbld_kernel`. The
    Gaussian of the affine-invariant distance is not positive definite for any `gamma`, so it cannot
    be a covariance. Parameters and attributes are those of `GPRegressor`.

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

    _default_kernel: ClassVar[Callable[[], Kernel]] = Tangent


class SPDGPClassifier(GPClassifier):
    r"""Gaussian process classifier on covariance matrices: `GPClassifier` with `Tangent`.

    Rows are matrices, of shape (n, p, p), or their entries, of shape (n, p * p). `Tangent` is the
    Gaussian kernel :math:`e^{-\gamma d^2}` of distances in the tangent space at the mean matrix.
    `SPDGPRegressor` describes further kernels, and `GPClassifier` the parameters and attributes.
    For the kernels "tangent" and "logeuclid", `gamma` and the noise minimise the error of
    leave-one-out predictions, which are in closed form. The same predictions calibrate the scores.

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

    _default_kernel: ClassVar[Callable[[], Kernel]] = Tangent
