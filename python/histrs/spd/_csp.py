"""Common spatial patterns."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import eigh
from sklearn.base import TransformerMixin, _fit_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from histrs._checks.scale import check_computed, may_overflow
from histrs._checks.validation import naming_rows, unchanged_on_error
from histrs._estimator import documented
from histrs._warnings import warn
from histrs._weights import encode
from histrs.spd._base import StackEstimator, congruence
from histrs.spd._docs import MATRICES
from histrs.spd._geometry import MetricName
from histrs.spd._logarithms import Float64
from histrs.spd._mean import checked_weights
from histrs.spd._running import MEAN_CONSTRAINT, reference_mean
from histrs.spd._stack import Stack

# Of the search for filters of more than two classes.
_TOL = 1e-7
_MAX_ITER = 2000
_MAX_HALVINGS = 30
_LEAST_CURVATURE = 1e-4
_ROUNDING = 1e-12


@documented(MATRICES)
class CSP(TransformerMixin, StackEstimator):
    r"""Common spatial patterns: filters whose variance tells classes apart.

    Filters for two classes solve :math:`C_2 w = \lambda (C_1 + C_2) w`, with :math:`C_c` the mean
    of the matrices of class :math:`c` [1]_. For more classes, the rows of :math:`W` approximately
    diagonalise all means [2]_,

    .. math:: \min_W \sum_c P_c \log \frac{\det \mathrm{diag}(W C_c W^T)}{\det (W C_c W^T)}

    with :math:`P_c` the fraction of class :math:`c`. The steps of the minimisation are from [3]_.
    Filters are ordered by an upper bound of the mutual information :math:`I` of the class and the
    filtered signal, the largest first. The signal is taken as Gaussian in each class:

    .. math:: I(w) \le \frac12 \Big(\log \sum_c P_c v_c - \sum_c P_c \log v_c\Big),
              \qquad v_c = w^T C_c w.

    Each filter has unit variance in :math:`\sum_c P_c C_c`. A matrix becomes :math:`W X W^T`, or
    the logarithms of its diagonal.

    Parameters
    ----------
    n_filters : int, default=8
        Number of filters, at most one for each channel.
    metric : {"airm", "riemann", "jbld", "logeuclid", "euclid"}, default="euclid"
        The mean of a class, as in :class:`TangentSpace`.
    shrinkage : "scm" or float, default="scm"
        Filters are learned from :math:`(1 - s) X + s\, \mathrm{tr}(X)/p\, I` with this weight
        :math:`s`; "scm" means :math:`s = 0`. The rules "oas" and "lwf" of :class:`Covariances` need
        signals.
    log : bool, default=True
        Whether to return logarithms of variances, as rows for a linear model. Otherwise filtered
        matrices are returned, for :class:`MDM`, :class:`TangentSpace` or
        :class:`~histrs.gaussian_process.SPDGPClassifier`.
    {n_jobs}

    Attributes
    ----------
    filters_ : ndarray of shape (n_filters, p)
        :math:`W`.
    patterns_ : ndarray of shape (n_filters, p)
        How strongly the source of each filter shows in each channel: columns of the inverse of all
        filters [5]_.
    n_iter_ : int
        Iterations of the joint diagonalisation; 0 for two classes.
    {n_features_in_}

    Warns
    -----
    ConvergenceWarning
        If the joint diagonalisation did not converge.

    Notes
    -----
    If classes are balanced and `n_filters` is the number of channels, the filters are those of
    pyRiemann's ``CSP``, except for their signs and lengths. For more than two classes, their order
    differs too: pyRiemann orders them by the approximation of [4]_ to :math:`I`. The approximation
    ranks filters too low if their variances differ much between classes.

    References
    ----------
    .. [1] Z. J. Koles, M. S. Lazar and S. Z. Zhou, "Spatial patterns underlying population
       differences in the background EEG", Brain Topography 2, 1990.
    .. [2] D. T. Pham, "Joint approximate diagonalization of positive definite Hermitian matrices",
       SIAM J. Matrix Anal. Appl. 22, 2001.
    .. [3] P. Ablin, J.-F. Cardoso and A. Gramfort, "Beyond Pham's algorithm for joint
       diagonalization", ESANN 2019.
    .. [4] M. Grosse-Wentrup and M. Buss, "Multiclass common spatial patterns and information
       theoretic feature extraction", IEEE Transactions on Biomedical Engineering 55, 2008.
    .. [5] S. Haufe, F. Meinecke, K. Görgen, S. Dähne, J.-D. Haynes, B. Blankertz and F. Bießmann,
       "On the interpretation of weight vectors of linear models in multivariate neuroimaging",
       NeuroImage 87, 2014.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> from histrs.spd import CSP, Covariances
    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(90) % 3
    >>> sources = rng.standard_normal((90, 6, 128))
    >>> sources[np.arange(90), y] *= 1.5  # each class has a source of its own
    >>> trials = rng.standard_normal((6, 6)) @ sources
    >>> model = make_pipeline(Covariances(), CSP(3), LogisticRegression())
    >>> model.fit(trials[:60], y[:60]).score(trials[60:], y[60:])
    1.0
    """

    filters_: Float64
    patterns_: Float64
    n_iter_: int

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_filters": [Interval(Integral, 1, None, closed="left")],
        "metric": [MEAN_CONSTRAINT],
        "shrinkage": [StrOptions({"scm"}), Interval(Real, 0, 1, closed="both")],
        "log": ["boolean"],
    }

    def __init__(
        self,
        n_filters: int = 8,
        *,
        metric: MetricName = "euclid",
        shrinkage: float | Literal["scm"] = "scm",
        log: bool = True,
        n_jobs: int | None = None,
    ) -> None:
        self.n_filters = n_filters
        self.metric = metric
        self.shrinkage = shrinkage
        self.log = log
        self.n_jobs = n_jobs

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Learn the filters.

        {of_classes}
        {weights}

        {self}
        """
        with unchanged_on_error(self):
            stack, labels = self._stack_and_labels(X, y, reset=True)
            weights = checked_weights(sample_weight, len(stack))
            used = np.flatnonzero(weights)
            classes, codes = encode(labels[used])
            if len(classes) < 2:
                raise ValueError("y has 1 class: filters that tell classes apart take at least 2.")
            shares = np.bincount(codes, weights[used] / weights.max())
            with naming_rows(used):
                means = self._class_means(stack[used], codes, weights[used])
            self._choose(means, shares / shares.sum())
        return self

    def _class_means(self, stack: Stack, codes: NDArray[np.intp], weights: Float64) -> Float64:
        s = 0.0 if isinstance(self.shrinkage, str) else self.shrinkage
        if s > 0.0:
            stack = stack.astype(np.float64)
            size = np.trace(stack, axis1=1, axis2=2) / stack.shape[1]
            stack = (1.0 - s) * stack + (s * size)[:, None, None] * np.eye(stack.shape[1])
        means = []
        for code in range(codes.max() + 1):
            own = codes == code
            with naming_rows(np.flatnonzero(own)):
                means.append(
                    reference_mean("CSP", stack[own], weights[own], self.metric, self.n_jobs)
                )
        return np.stack(means)

    def _choose(self, means: Float64, shares: Float64) -> None:
        """Keep those of all filters that tell most about the class."""
        W, self.n_iter_, residual = _joint_diagonalizer(means, shares)
        if residual > _TOL:
            warn(
                f"CSP stopped after {self.n_iter_} iterations with a residual of {residual:.2e}, "
                f"above the tolerance {_TOL:.2e}; look for matrices that are nearly singular, and "
                "shrink them.",
                ConvergenceWarning,
            )
        variances = np.einsum("fi,cij,fj->cf", W, means, W)
        size = shares @ variances
        W /= np.sqrt(size)[:, None]
        told = np.log(size) - shares @ np.log(variances)
        best = np.argsort(-told, kind="stable")[: self.n_filters]
        patterns = np.linalg.inv(W).T[best]
        # Of the two signs, that by which the channel that shows most is positive.
        most = np.argmax(np.abs(patterns), axis=1)[:, None]
        signs = np.sign(np.take_along_axis(patterns, most, axis=1))
        self.filters_, self.patterns_ = signs * W[best], signs * patterns

    def transform(self, X: ArrayLike) -> NDArray[Any]:
        r"""Filter matrices.

        {of_matrices}

        Returns
        -------
        X_new : ndarray
            With `log` logarithms of variances, of shape (n_samples, n_filters); else
            :math:`W X W^T`, of shape (n_samples, n_filters, n_filters), or flattened as `X` was. In
            the precision of `X`.

        Raises
        ------
        ValueError
            If a filter has no variance in a matrix, or a filtered matrix overflows; the message
            names the matrix.
        """
        if not self.log:
            return self._made_of(X, lambda stack: congruence(self.filters_.T, stack))
        stack = self._stack(X, finite=True)
        W = self.filters_
        with may_overflow():
            variances = np.sum((W @ stack.astype(np.float64)) * W, axis=-1)
        check_computed(variances, "Variances")
        bad = np.argwhere(variances <= 0.0)
        if len(bad) > 0:
            i, f = bad[0]
            raise ValueError(
                f"X[{i}] has a variance of {variances[i, f]:.3g} in filter {f}: give positive "
                "definite matrices; Covariances shrinks them."
            )
        return np.asarray(np.log(variances), dtype=stack.dtype)

    @available_if(lambda self: self.log)
    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[Any]:
        """Return names of the variances, for `set_output`; filtered matrices have none.

        Parameters
        ----------
        input_features : array-like of str, default=None
            Ignored.

        Returns
        -------
        names : ndarray of str of shape (n_filters,)
            ``"csp0"``, ``"csp1"`` and so on.
        """
        check_is_fitted(self)
        return np.array([f"csp{i}" for i in range(len(self.filters_))], dtype=object)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags


class _Found(NamedTuple):
    """Filters as rows, the steps that they took, and what is left of the gradient."""

    filters: Float64
    n_iter: int
    residual: float


def _joint_diagonalizer(C: Float64, shares: Float64) -> _Found:
    """Return what makes positive definite matrices most diagonal, by steps as of Ablin et al.

    The start diagonalises one of them and their mean: of two matrices that is all.
    """
    W = eigh(C[-1], np.tensordot(shares, C, 1))[1].T
    found = _Found(W, 0, 0.0)
    if len(C) == 2:
        return found
    D = W @ C @ W.T
    for n_iter in range(_MAX_ITER):
        d = np.einsum("kii->ki", D)
        scale = np.sqrt(shares @ d)
        W, D, d = W / scale[:, None], D / scale[:, None] / scale, d / scale**2
        gradient = np.tensordot(shares, D / d[:, :, None], 1)
        np.fill_diagonal(gradient, 0.0)
        found = _Found(W, n_iter, float(np.max(np.abs(gradient))))
        if found.residual <= _TOL:
            break
        curvature = (shares[:, None] / d).T @ d
        # 0 for a pair whose variances are the same up to a factor: any axes of their span will do.
        told = np.maximum(curvature * curvature.T - 1.0, _LEAST_CURVATURE)
        step = (gradient.T - curvature.T * gradient) / told
        before = shares @ np.log(d).sum(axis=1) / 2.0 + _ROUNDING
        for _ in range(_MAX_HALVINGS):
            change = np.eye(len(W)) + step
            changed = change @ D @ change.T
            variances = np.log(np.einsum("kii->ki", changed)).sum(axis=1)
            if shares @ variances / 2.0 - np.linalg.slogdet(change)[1] <= before:
                break
            step /= 2.0
        W, D = change @ W, changed
    return found
