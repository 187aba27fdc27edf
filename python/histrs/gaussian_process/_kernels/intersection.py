"""Kernels of single features: minima, transformed and weighted, and cubic smoothing splines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from histrs import _histrs
from histrs._checks.validation import to_core
from histrs._typing import Array
from histrs.gaussian_process._bound.splines import SmoothRows, SmoothTerm
from histrs.gaussian_process._kernels.base import Kernel, Takes, as_matrix, double_pair
from histrs.gaussian_process._kernels.generalized import (
    SmoothnessName,
    TransformName,
    WeightsName,
    weighted_kernel,
)
from histrs.gaussian_process._learning.hyperparameters import Bounds


@dataclass(repr=False, eq=False)
class Intersection(Kernel):
    r"""The generalised histogram intersection kernel, :math:`\sum_d w_d \min(g(x_d), g(x'_d)) + c`.

    `min` is the covariance of Brownian motion. Functions are sums over columns, piecewise linear
    with knots at the training values (equations 5 and 14 to 17 of [1]_). `IntersectionGPRegressor`
    and `IntersectionGPClassifier` do not form the kernel matrix. In sums with other kernels,
    exponent and weights are kept as given, ``feature_weights="auto"`` means "scale", and there is
    no intercept.

    Parameters
    ----------
    transform : {"identity", "power", "exponential"}, default="identity"
        Increasing function `g` of every feature: "power" is ``x ** exponent`` (eq. 15),
        "exponential" ``expm1(exponent * x) / expm1(exponent)`` (eq. 16).
    exponent : float, default=1.0
        Exponent of the transform where the search starts.
    exponent_bounds : pair or "fixed", default=(0.05, 20.0)
        Least and greatest exponent in the search; "fixed" keeps it.
    feature_weights : {"auto", "scale", "relevance", "ard"}, array-like or None, default="auto"
        Weights `w` of the features (eq. 17); an array has one for each. "scale" is 1 over a robust
        standard deviation of each column, so that units do not matter. None is 1 for all columns.
        Columns of large numbers then dominate, which suits histograms. "auto" is "scale", unless
        the marginal likelihood on at most 512 rows is more than :math:`e^8` times larger with None.
        "auto" is always "scale" where noise and amplitude are fixed.

        "relevance" suits many features of which few matter. It starts from the weights of "auto",
        and maximises the likelihood on at most 2,048 rows, with a prior on the logarithms of
        weights. Columns of similar sparsity share a further factor. The loss on held-out
        rows decides when to stop, perhaps at once. "ard" (automatic relevance determination)
        maximises the likelihood, and overfits if there are many features.
    feature_weights_bounds : pair or "fixed", default=(1e-6, 1e6)
        Least and greatest weight of "ard".
    intercept_variance : float or "auto", default="auto"
        Prior variance `c` of the intercept; 0 means none. Without levels, functions are 0 at 0.
        "auto" is 3 times the mean of the kernel over the training rows. The likelihoods
        "bernoulli" and "softmax" have a bias of their own; ``solver="coordinate-descent"`` has no
        intercept.
    levels : int, "auto" or None, default=None
        Number of knots of each column. Functions are linear between knots, and values are rounded
        to the nearest of twice as many training values. The system then has few unknowns, and the
        rows are read once. Each column has two learned weights, which are divided among the
        intervals between knots. The first is divided in proportion to the rows near each interval,
        the second in proportion to the interval's length. Columns may be negative. "auto"
        is ``min(n_samples // 2, 2048) // n_features``, but at least 16 and at most 512. None keeps
        every value.
    monotonic_cst : dict or array-like of int, default=None
        1 where the prediction must not decrease with a column, -1 where it must not increase, 0
        elsewhere. A dict has names or indices of columns, an array a number for each. Constraints
        need `levels`, one target or two classes, and the Gaussian likelihood. `Interactions` then
        has no pair with such a column. The function of a column is the mean of posterior draws,
        each replaced by the nearest monotone function ([2]_). Standard deviations ignore the
        constraint, and are larger than with it.

    References
    ----------
    .. [1] E. Rodner, A. Freytag, P. Bodesheim, B. Fröhlich and J. Denzler, "Large-scale Gaussian
       process inference with generalized histogram intersection kernels for visual recognition
       tasks", International Journal of Computer Vision, 2016.
    .. [2] L. Lin and D. B. Dunson, "Bayesian monotone regression using Gaussian process
       projection", Biometrika, 2014.

    Examples
    --------
    >>> from histrs.gaussian_process.kernels import Intersection
    >>> Intersection(feature_weights=None, intercept_variance=0)([[1.0, 2.0], [3.0, 1.0]])
    array([[3., 2.],
           [2., 4.]])
    """

    smoothness: ClassVar[SmoothnessName] = "linear"

    transform: TransformName = "identity"
    exponent: float = 1.0
    exponent_bounds: Bounds = (0.05, 20.0)
    feature_weights: WeightsName | ArrayLike | None = "auto"
    feature_weights_bounds: Bounds = (1e-6, 1e6)
    intercept_variance: float | Literal["auto"] = "auto"
    levels: int | Literal["auto"] | None = None
    monotonic_cst: Mapping[str | int, int] | ArrayLike | None = None

    @property
    def takes(self) -> Takes:  # type: ignore[override]
        """What rows may be: columns on levels are any numbers."""
        return "histograms" if self.levels is None else "numbers"

    def check(self) -> None:
        """Refuse parameters that mean nothing."""
        if self.transform not in get_args(TransformName):
            raise ValueError(
                f"transform = {self.transform!r}: choose one of {list(get_args(TransformName))}."
            )
        if not 0.0 < self.exponent < np.inf:
            raise ValueError(f"exponent = {self.exponent!r}: must be positive.")
        if self.transform == "identity" and self.exponent != 1.0:
            raise ValueError(
                f"exponent = {self.exponent} has no effect with transform='identity'; choose "
                "'power' or 'exponential', or leave exponent at 1."
            )
        check_names_of_weights(self.feature_weights, get_args(WeightsName))
        given: Any = self.intercept_variance
        if given != "auto" and (isinstance(given, str) or not 0.0 <= given < np.inf):
            raise ValueError(
                f'intercept_variance = {self.intercept_variance!r}: give "auto", or a number that '
                "is not negative."
            )

        if self.levels is not None:
            self._check_levels()
        elif self.monotonic_cst is not None:
            raise ValueError(
                f"monotonic_cst = {self.monotonic_cst!r} needs functions on levels: set "
                'levels="auto".'
            )

    def _check_levels(self) -> None:
        levels: Any = self.levels
        if levels != "auto" and (not isinstance(levels, Integral) or int(levels) < 2):
            raise ValueError(f'levels = {levels!r}: give a number from 2 on, "auto" or None.')
        given = self.feature_weights
        if self.transform != "identity" or not (isinstance(given, str) and given == "auto"):
            raise ValueError(
                f"{self!r}: levels learn weights of their own for each column, and no transform "
                'changes them; leave feature_weights at "auto" and transform at "identity".'
            )

    def free(self) -> dict[str, Bounds]:
        """Return no bounds: exponent and weights are kept where the matrix is stored."""
        return {}

    def _take(self, X: Any, weights: Array | None, n_threads: int) -> None:
        self.check()
        if self.levels is not None:
            raise ValueError(
                f"{self!r} must be the whole kernel, because it has levels: set levels=None, or "
                "remove the other terms."
            )
        given = self.feature_weights
        if isinstance(given, str) and given in ("relevance", "ard"):
            raise ValueError(
                f"{self!r} learns feature_weights only in IntersectionGPRegressor and "
                "IntersectionGPClassifier: use these, or give an array of weights."
            )
        columns = _histrs.SortedColumns(to_core(as_matrix(X)), n_threads)
        self._core = weighted_kernel(self.transform, self.exponent, given, columns, n_threads)
        self.feature_weights_ = self._core.weights
        self.intercept_variance_ = 0.0
        if self.intercept_variance != "auto":
            self.intercept_variance_ = float(self.intercept_variance)

    def view(self, X: Any, n_threads: int) -> Any:
        """Return transformed and weighted rows."""
        return self._core.rows(as_matrix(X), n_threads)

    def parts(self, X: Any, Y: Any | None, n_threads: int) -> tuple[Array, ...]:
        """Return the sums of minima."""
        left, right = double_pair(X, Y)
        return (_histrs.intersection_gram(left, right, n_threads),)

    def matrix(self, parts: Any) -> Array:
        return np.asarray(parts[0] + self.intercept_variance_)

    def diagonal(self, X: Any, n_threads: int) -> Array:
        return _histrs.row_sums(to_core(X), n_threads) + self.intercept_variance_


def check_names_of_weights(given: Any, names: tuple[str, ...]) -> None:
    """Refuse a name of feature weights that there is not."""
    if isinstance(given, str) and given not in names:
        raise ValueError(
            f"feature_weights = {given!r}: give one weight for each feature, None, or one of "
            f"{list(names)}."
        )


@dataclass(repr=False, eq=False)
class Splines(Kernel):
    r"""Smooth additive functions: integrated Brownian motion of every feature, and lines.

    .. math:: k(t, t') = \tfrac16 s^2 (3 u - s) + a\, t t' + b\, s, \qquad
              t = w_d (x_d - \min_i x_{id}),

    with `s` and `u` the smaller and the larger of `t` and `t'`. The kernel is centred over the
    training rows, and summed over features. The first term is the covariance of integrated Brownian
    motion. With it and a free slope, the posterior mean of a single feature is the cubic smoothing
    spline of the penalty :math:`\mathrm{noise} / \mathrm{amplitude} \int f''(t)^2 dt` ([1]_).
    Functions have a mean of 0 over the training rows, as in generalised additive models, and are
    lines beyond the range of the training values. Neither units nor origins of features matter.

    Parameters
    ----------
    slope_weight : float, default=1.0
        Start of the search for `a`, the variance of the slopes of lines.
    slope_weight_bounds : pair or "fixed", default=(1e-6, 1e6)
        Least and greatest weight in the search; "fixed" keeps it.
    rough_weight : float, default=0.0
        Start of the search for `b`, the weight of Brownian motion; 0 leaves it out.
    rough_weight_bounds : pair or "fixed", default=(1e-6, 1e6)
        Least and greatest `b` in the search; "fixed" keeps it.
    feature_weights : {"auto", "scale"}, array-like or None, default="auto"
        Weights `w` of the features, as in `Intersection`.

    References
    ----------
    .. [1] G. Wahba, "Improper priors, spline smoothing and the problem of guarding against model
       errors in regression", Journal of the Royal Statistical Society B, 1978.

    Examples
    --------
    >>> import numpy as np
    >>> from histrs.gaussian_process import IntersectionGPRegressor
    >>> from histrs.gaussian_process.kernels import Splines
    >>> X = np.linspace(0.0, 6.0, 60)[:, None]
    >>> model = IntersectionGPRegressor(Splines()).fit(X, np.sin(X[:, 0]))
    >>> bool(abs(model.predict([[1.05]])[0] - np.sin(1.05)) < 1e-2)
    True
    """

    takes: ClassVar[Takes] = "histograms"
    transform: ClassVar[TransformName] = "identity"
    exponent: ClassVar[float] = 1.0
    intercept_variance: ClassVar[str] = "auto"
    levels: ClassVar[None] = None

    slope_weight: float = 1.0
    slope_weight_bounds: Bounds = (1e-6, 1e6)
    rough_weight: float = 0.0
    rough_weight_bounds: Bounds = (1e-6, 1e6)
    feature_weights: str | ArrayLike | None = "auto"

    @property
    def smoothness(self) -> SmoothnessName:
        """How smooth functions are."""
        return "both" if self.rough_weight > 0.0 else "cubic"

    def check(self) -> None:
        """Refuse parameters that mean nothing."""
        if not 0.0 < self.slope_weight < np.inf:
            raise ValueError(f"slope_weight = {self.slope_weight!r}: must be positive.")
        if not 0.0 <= self.rough_weight < np.inf:
            raise ValueError(f"rough_weight = {self.rough_weight!r}: must not be negative.")
        check_names_of_weights(self.feature_weights, ("auto", "scale"))

    def free(self) -> dict[str, Bounds]:
        """Return no bounds: weights are kept where the matrix is stored."""
        return {}

    def _take(self, X: Any, weights: Array | None, n_threads: int) -> None:
        self.check()
        X = as_matrix(X)
        columns = _histrs.SortedColumns(to_core(X), n_threads)
        self._core = weighted_kernel("identity", 1.0, self.feature_weights, columns, n_threads)
        self.feature_weights_ = self._core.weights
        masses = np.ones(X.shape[0]) if weights is None else weights
        rows = SmoothRows.of(self._core.rows(X, n_threads), masses / np.sum(masses), n_threads)
        self._term = SmoothTerm(rows, self.slope_weight, self.rough_weight, n_threads)

    def view(self, X: Any, n_threads: int) -> Any:
        return self._term.shifted(self._core.rows(as_matrix(X), n_threads))

    def parts(self, X: Any, Y: Any | None, n_threads: int) -> tuple[Array, ...]:
        """Return the kernel matrix."""
        return (self._term.between(X, Y),)

    def diagonal(self, X: Any, n_threads: int) -> Array:
        return self._term.prior(X)
