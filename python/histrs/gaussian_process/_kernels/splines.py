"""The kernel of cubic smoothing splines of features."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from histrs import _histrs
from histrs._checks.validation import to_core
from histrs._typing import Array
from histrs.gaussian_process._bound.splines import SmoothRows, SmoothTerm
from histrs.gaussian_process._kernels.base import Kernel, Takes
from histrs.gaussian_process._kernels.generalized import weighted_kernel
from histrs.gaussian_process._kernels.intersection import check_names_of_weights
from histrs.gaussian_process._kernels.rows import as_matrix
from histrs.gaussian_process._learning.hyperparameters import Bounds


class Splines(Kernel):
    r"""Smooth additive functions: integrated Brownian motion of every feature, and lines.

    .. math:: k(t, t') = \tfrac16 s^2 (3 u - s) + a\, t t' + b\, s, \qquad
              t = w_d (x_d - \min_i x_{id}),

    with `s` and `u` the smaller and the larger of `t` and `t'`, less its mean over the training
    rows in either argument, and summed over features. The first term is the covariance of
    integrated Brownian motion, with which the posterior mean of a single feature is the cubic
    smoothing spline of the penalty
    :math:`\mathrm{noise} / \mathrm{amplitude} \int f''(t)^2 dt` when the slope is free ([1]_).
    Functions have a mean of 0 over the training rows, as in generalised additive models, and are
    lines beyond their least and largest value. Neither units nor origins of features matter.

    Parameters
    ----------
    slope_weight : float, default=1.0
        `a`, the variance of the slopes of lines, where the search for it starts.
    slope_weight_bounds : pair or "fixed", default=(1e-6, 1e6)
        Least and greatest weight in the search; "fixed" keeps it.
    rough_weight : float, default=0.0
        `b`, the weight of Brownian motion beside, where the search for it starts; 0 goes without.
    rough_weight_bounds : pair or "fixed", default=(1e-6, 1e6)
        Likewise.
    feature_weights : {"auto", "scale"}, array-like or None, default="auto"
        Weights `w` of the features, as of `Intersection`.

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

    def __init__(
        self,
        slope_weight: float = 1.0,
        slope_weight_bounds: Bounds = (1e-6, 1e6),
        rough_weight: float = 0.0,
        rough_weight_bounds: Bounds = (1e-6, 1e6),
        feature_weights: str | ArrayLike | None = "auto",
    ) -> None:
        self.slope_weight = slope_weight
        self.slope_weight_bounds = slope_weight_bounds
        self.rough_weight = rough_weight
        self.rough_weight_bounds = rough_weight_bounds
        self.feature_weights = feature_weights

    def check(self) -> None:
        """Refuse parameters that mean nothing."""
        if not 0.0 < self.slope_weight < np.inf:
            raise ValueError(f"slope_weight = {self.slope_weight!r}: it is positive.")
        if not 0.0 <= self.rough_weight < np.inf:
            raise ValueError(f"rough_weight = {self.rough_weight!r}: it is not negative.")
        check_names_of_weights(self.feature_weights, ("auto", "scale"))

    # ---- as a term of any kernel, whose matrix is stored ---------------------------------------

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
        """Return rows as functions take them."""
        return self._term.shifted(self._core.rows(as_matrix(X), n_threads))

    def parts(self, X: Any, Y: Any | None, n_threads: int) -> tuple[Array, ...]:
        """Return the kernel matrix."""
        return (self._term.gram(X) if Y is None else self._term.between(X, Y),)

    def matrix(self, parts: Any) -> Array:
        """Return the kernel matrix."""
        matrix: Array = parts[0].copy()
        return matrix

    def diagonal(self, X: Any, n_threads: int) -> Array:
        """Return the kernel of every row with itself."""
        return self._term.prior(X)
