"""Additive kernels as inner products of sparse features."""

from __future__ import annotations

from numbers import Integral
from typing import Any, ClassVar, Literal, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import TransformerMixin, _fit_context
from sklearn.utils import Tags
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted

from histrs import _histrs
from histrs._checks.scale import in_precision_of, may_overflow
from histrs._checks.validation import (
    HISTOGRAM_CHECKS,
    NameOptions,
    canonical,
    count_threads,
    to_core,
    unchanged_on_error,
    validate_data,
)
from histrs._estimator import BaseEstimator, documented
from histrs._typing import Array, Matrix
from histrs.kernel_approximation._docs import MAPS
from histrs.kernel_approximation._inner_product import (
    IdentityInnerProduct,
    InnerProduct,
    RootedInnerProduct,
    additive_inner_product,
)
from histrs.kernel_approximation._out import csr_result, small_indices
from histrs.metrics._registry import ADDITIVE_KERNELS, AdditiveKernelName

Spacing: TypeAlias = Literal["uniform", "quantile", "log"]


@documented(MAPS)
class SparseAdditiveMap(TransformerMixin, BaseEstimator):
    r"""Sparse features of an additive kernel: every value on the two knots around it.

    For a kernel :math:`K(x, y) = \sum_d k(x(d), y(d))`, a value `x` between two knots
    :math:`a < x \le b` of its column is projected on both, equation 5 of [1]_:

    .. math::

       \Phi(x) = \begin{bmatrix} k(a, a) & k(a, b) \\ k(a, b) & k(b, b) \end{bmatrix}^{-1}
                 \begin{bmatrix} k(a, x) \\ k(b, x) \end{bmatrix}.

    For the intersection kernel this is linear interpolation (equation 8), and for the chi-square
    kernel

    .. math::

       \Phi(x) = \frac{2 x (a + b)}{(a + x)(b + x)(b - a)}
                 \begin{bmatrix} b - x \\ x - a \end{bmatrix},

    equation 9 for any knots. (As printed for `a = i` and `b = i + 1`, its second entry should read
    `x - i`, not `x - 1`.) Then

    .. math:: K(x, y) \approx \Phi(x)^T K_{ZZ} \Phi(y)

    with the kernel :math:`K_{ZZ}` of the knots, `inner_product_`, which is never formed. A linear
    model with this inner product is the kernel machine.

    Parameters
    ----------
    kernel : {"intersection", "chi2", "hellinger", "jensen_shannon"}, default="intersection"
        The kernel: :math:`\min(x, y)`, :math:`2xy/(x + y)`, :math:`\sqrt{xy}` or
        :math:`\frac{x}{2} \log_2 \frac{x + y}{x} + \frac{y}{2} \log_2 \frac{x + y}{y}`.
    n_knots : int, default=16
        Knots of a column, above 0, at most 1,048,576; equal ones count once.
    spacing : {"uniform", "quantile", "log"}, default="uniform"
        Knots of a column: even from 0 to its largest value, at quantiles of its positive values, or
        in equal ratios from its smallest positive to its largest value.
    whiten : bool, default=False
        Multiply the features by a root `W` of :math:`K_{ZZ} = W W^T`, so that they have the usual
        inner product. A positive value then has up to `n_knots` features, and one for Hellinger's
        kernel.
    {n_jobs}

    Attributes
    ----------
    kernel_ : str
        The kernel of the fitted map.
    knots_ : ndarray of shape (n_features_out,)
        The knots of all columns, one for each feature.
    offsets_ : ndarray of shape (n_features + 1,)
        The knots, and features, of column `d` are `offsets_[d]` to `offsets_[d + 1]`.
    inner_product_ : InnerProduct
        Products and solves with :math:`K_{ZZ}`; with the identity if `whiten` is set.
    {n_features_in_}
    {feature_names_in_}

    See Also
    --------
    SparseKernelMap : The same for every kernel.
    AdditiveChi2Map : Dense features of the chi-square kernel, with the usual inner product.
    InnerProduct : The interface of `inner_product_`.

    Notes
    -----
    A value below the first or above the last knot is projected on that knot alone,
    :math:`\Phi(x) = k(z, x)/z`. A zero has no features, and there is no knot at 0.
    :math:`K_{ZZ}` is regular, except for Hellinger's kernel, which has rank one in a column and no
    error. A column without positive training values adds nothing.

    The intersection kernel is exact for values with a knot between them. Its error is at most a
    quarter of the distance of two knots within the range of training. The chi-square and the
    Jensen-Shannon kernel are smooth except at 0, where "log" has more knots.

    References
    ----------
    .. [1] A. Vedaldi and A. Zisserman, "Sparse kernel approximations for efficient classification
       and detection", CVPR 2012.

    Examples
    --------
    >>> import numpy as np
    >>> from histrs.kernel_approximation import SparseAdditiveMap
    >>> from histrs.metrics import additive_chi2_kernel
    >>> X = np.random.default_rng(0).dirichlet(np.ones(8), size=50)
    >>> map = SparseAdditiveMap("chi2", n_knots=16, spacing="log")
    >>> features = map.fit_transform(X)
    >>> features.shape, features.nnz <= 2 * X.size
    ((50, 128), True)
    >>> K = features @ map.inner_product_.matmul(features.T.toarray())
    >>> bool(np.abs(K - additive_chi2_kernel(X)).max() < 0.01)
    True
    """

    _inputs: ClassVar[dict[str, bool]] = {"sparse": True, "positive_only": True}
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "kernel": [NameOptions(ADDITIVE_KERNELS)],
        "n_knots": [Interval(Integral, 1, 2**20, closed="both")],
        "spacing": [StrOptions({"uniform", "quantile", "log"})],
    }

    def __init__(
        self,
        kernel: AdditiveKernelName = "intersection",
        n_knots: int = 16,
        *,
        spacing: Spacing = "uniform",
        whiten: bool = False,
        n_jobs: int | None = None,
    ) -> None:
        self.kernel = kernel
        self.n_knots = n_knots
        self.spacing = spacing
        self.whiten = whiten
        self.n_jobs = n_jobs

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: ArrayLike | Matrix, y: object = None) -> Self:
        """Place the knots; on an error nothing changes.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Histograms: non-negative, finite.
        y : None
            Not used; there for pipelines.

        {self}

        Raises
        ------
        ValueError
            If an entry is negative, NaN or infinite (the message names it).
        """
        with unchanged_on_error(self):
            X = canonical(validate_data(self, X, **HISTOGRAM_CHECKS))
            self.knots_, self.offsets_ = self._spaced_knots(to_core(X))
            self.kernel_ = self.kernel
            self._set_inner_product(
                additive_inner_product(self.kernel_, self.knots_, self.offsets_)
            )
        return self

    def _set_inner_product(self, product: RootedInnerProduct) -> None:
        self.__dict__.pop("whitening_", None)
        self.inner_product_: InnerProduct = product
        self._counts = np.diff(self.offsets_)
        if self.whiten:
            self.whitening_, self._counts = product.root()
            self.inner_product_ = IdentityInnerProduct(self.whitening_.shape[1])

    def transform(self, X: ArrayLike | Matrix) -> sparse.csr_array:
        """Map rows to their features.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Histograms: non-negative, finite.

        Returns
        -------
        features : csr_array of shape (n_samples, n_features_out)
            At most two stored values for every positive one, more with `whiten`; float32 when `X`
            is. A value that equals a knot may have a stored 0 beside its 1.

        Raises
        ------
        ValueError
            If an entry is negative, NaN or infinite (the message names it).
        """
        check_is_fitted(self)
        X = canonical(validate_data(self, X, reset=False, **HISTOGRAM_CHECKS))
        core = _histrs.SparseAdditiveMap(self.kernel_, self.knots_, self.offsets_)
        parts = core.transform(to_core(X), count_threads(self.n_jobs))
        features = csr_result(parts, X.shape[0])
        if not hasattr(self, "whitening_"):
            return features
        root = in_precision_of(X, self.whitening_, "The roots of the inner product")
        with may_overflow():
            whitened: sparse.csr_array = small_indices(features @ root)
        if not np.isfinite(whitened.data).all():
            raise ValueError("The features of X overflow: scale X down.")
        return whitened

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[Any]:
        """Return the names of the features: a name of a column and the number of the knot.

        Parameters
        ----------
        input_features : array-like of str, default=None
            Names of the columns; None takes the names of the training data.

        Returns
        -------
        names : ndarray of str
            `x0_0, x0_1, ..., x1_0, ...`.
        """
        check_is_fitted(self)
        names = _check_feature_names_in(self, input_features, generate_names=True)
        named = zip(names, self._counts, strict=True)
        return np.array([f"{name}_{k}" for name, count in named for k in range(count)], object)

    def _spaced_knots(self, X: Any) -> tuple[Array, NDArray[np.int64]]:
        n_threads = count_threads(self.n_jobs)
        if self.spacing == "quantile":
            return _histrs.column_quantiles(X, self.n_knots, n_threads)
        low, high = _histrs.column_ranges(X, n_threads)
        spaced = _uniform if self.spacing == "uniform" else _geometric
        knots = spaced(low[:, None], high[:, None], self.n_knots)
        # Neighbours closer than numbers are, as those of a column of zeros, count once.
        distinct = np.diff(knots, axis=1, prepend=0.0) > 0
        offsets = np.append(0, np.cumsum(distinct.sum(axis=1)))
        return knots[distinct], offsets.astype(np.int64)

    def __sklearn_tags__(self) -> Tags:
        """Return what scikit-learn may expect of the map."""
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _uniform(low: Array, high: Array, n_knots: int) -> Array:
    return high * (np.arange(1, n_knots + 1) / n_knots)


def _geometric(low: Array, high: Array, n_knots: int) -> Array:
    """Return knots in equal ratios, which end at `high` as it is; zeros for a column of zeros."""
    ends = np.log(np.where(high > 0, low, 1.0)), np.log(np.where(high > 0, high, 1.0))
    knots = np.exp(np.linspace(*ends, n_knots, axis=1)[:, :, 0])
    knots = np.maximum.accumulate(np.clip(knots, low, high), axis=1)
    knots[:, -1:] = high
    return np.asarray(knots)
