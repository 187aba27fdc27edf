"""The additive chi-square kernel as an inner product of explicit features."""

from __future__ import annotations

from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import TransformerMixin, _fit_context
from sklearn.utils import Tags
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted

from histrs import _histrs
from histrs._checks.validation import (
    HISTOGRAM_CHECKS,
    canonical,
    count_threads,
    to_core,
    unchanged_on_error,
    validate_data,
)
from histrs._estimator import BaseEstimator, documented
from histrs._typing import Array, Matrix
from histrs._warnings import warn
from histrs.kernel_approximation._docs import MAPS
from histrs.kernel_approximation._out import csr_result
from histrs.kernel_approximation._rows_error import Shares, relative_error, row_poles
from histrs.kernel_approximation._series_bounds import (
    best_interval,
    chebyshev_bound,
    periodic_bound,
)
from histrs.kernel_approximation._zolotarev import balanced_poles, rational_bound

Method: TypeAlias = Literal["rational", "chebyshev", "periodic", "power"]

# The certificate of the error takes time in the square of the number of poles.
_MOST_POLES = 1024
# Training rows whose error is looked at, and errors no one notices.
_ERROR_ROWS = 1024
_TOLERATED, _NOTICED = 0.05, 1.5


@documented(MAPS)
class AdditiveChi2Map(TransformerMixin, BaseEstimator):
    r"""Explicit features of the additive chi-square kernel, with a certified error.

    Maps every value to `n_components` features such that, for rows `x` and `y`,

    .. math:: \langle c(x), c(y) \rangle \approx \sum_d \frac{2 x(d) y(d)}{x(d) + y(d)}.

    A linear model on the features is then a model with the kernel. The default is a rational map of
    our own, with poles :math:`z_k` in the range of the data:

    .. math:: c_k(x) = 2 \sqrt{z_k} \frac{x}{x + z_k} \prod_{j < k} \frac{x - z_j}{x + z_j}.

    Its error is exactly :math:`\frac{2xy}{x + y} R(x) R(y)` with
    :math:`R(x) = \prod_j (x - z_j)/(x + z_j)`. The poles are Zolotarev's for an interval `[a, b]`,
    :math:`z_j = b\,\mathrm{dn}((2j + 1) K / 2m, \kappa)` with :math:`\kappa^2 = 1 - (a/b)^2`, the
    Jacobi function dn and its quarter period `K`. For `m` poles, `n_components`, they minimise the
    maximum of :math:`|R|`. The interval is the one with the smallest mean relative error on
    training rows, so units do not matter. The error falls exponentially with the number of poles.

    Parameters
    ----------
    n_components : int, default=9
        Features for each input feature.
    method : {"rational", "chebyshev", "periodic", "power"}, default="rational"
        "chebyshev" is equation 12 of [1]_, and "power" is equation 15. Both suit values near 1.
        "periodic" is the map of [2]_ and of scikit-learn's `AdditiveChi2Sampler`, with
        `n_components = 2 sample_steps - 1`.
    domain : "auto" or pair of floats, default="auto"
        The smallest and the largest positive value that the map is for; "auto" takes both from the
        training data. Zeros add no error.
    per_column : bool, default=False
        Learn a domain, and poles, for each column.
    sample_interval : float, default=None
        Sampling interval of the periodic map. None takes scikit-learn's for 1, 3 and 5
        components, else the one with the smallest error on the domain.
    {n_jobs}

    Attributes
    ----------
    method_, n_components_ : str, int
        Method and number of components of the fitted map.
    domain_ : ndarray of shape (2,) or (2, n_features)
        The domain; the second shape with `per_column`.
    kernel_error_bound_ : float or ndarray of shape (n_features,)
        Bound of the error that a value in the domain adds to a kernel value. The error
        of the kernel of two rows is at most the sum of bounds over features positive in both.
    relative_error_ : float
        The largest relative error of the kernel of a row with itself, over up to 1,024 training
        rows.
    poles_ : ndarray of shape (n_components, 1) or (n_components, n_features)
        The poles, for the rational and the power map.
    sample_interval_ : float
        The sampling interval, for the periodic map.
    {n_features_in_}
    {feature_names_in_}

    See Also
    --------
    ExpChi2Sampler : Random features of the exponential chi-square kernel.
    histrs.metrics.additive_chi2_kernel : The kernel itself.

    Notes
    -----
    The features of a row are in blocks: the first of every column, the second of every column,
    and so on. A sparse matrix has sparse features.

    References
    ----------
    .. [1] F. Li, G. Lebanon and C. Sminchisescu, "Chebyshev approximations to the histogram
       chi-square kernel", CVPR 2012.
    .. [2] A. Vedaldi and A. Zisserman, "Efficient additive kernels via explicit feature maps",
       IEEE Transactions on Pattern Analysis and Machine Intelligence, 2012.

    Examples
    --------
    >>> import numpy as np
    >>> from histrs.kernel_approximation import AdditiveChi2Map
    >>> from histrs.metrics import additive_chi2_kernel
    >>> X = np.random.default_rng(0).dirichlet(np.ones(8), size=50)
    >>> chi2_map = AdditiveChi2Map(n_components=9)
    >>> features = chi2_map.fit_transform(X)
    >>> features.shape
    (50, 72)
    >>> error = np.abs(features @ features.T - additive_chi2_kernel(X)).max()
    >>> bool(error <= 8 * chi2_map.kernel_error_bound_ + 1e-12)
    True
    """

    _inputs: ClassVar[dict[str, bool]] = {"sparse": True, "positive_only": True}
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_components": [Interval(Integral, 1, 1 << 20, closed="both")],
        "method": [StrOptions({"rational", "chebyshev", "periodic", "power"})],
        "domain": [StrOptions({"auto"}), tuple, list, np.ndarray],
        "per_column": ["boolean"],
        "sample_interval": [Interval(Real, 0, None, closed="neither"), None],
    }

    def __init__(
        self,
        n_components: int = 9,
        *,
        method: Method = "rational",
        domain: Literal["auto"] | ArrayLike = "auto",
        per_column: bool = False,
        sample_interval: float | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.n_components = n_components
        self.method = method
        self.domain = domain
        self.per_column = per_column
        self.sample_interval = sample_interval
        self.n_jobs = n_jobs

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: ArrayLike | Matrix, y: object = None) -> Self:
        """Learn the range of the data, and the poles for it; on an error nothing changes.

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
            If an entry is negative, NaN or infinite (the message names it), or parameters do not
            go together.

        Warns
        -----
        UserWarning
            If the rows have values outside a given `domain`, as `transform` warns.
        """
        self._check_parameters()
        with unchanged_on_error(self):
            X = canonical(validate_data(self, X, **HISTOGRAM_CHECKS))
            ranges = self._ranges(X)
            low, high = self._domain(ranges)
            self.method_, self.n_components_ = self.method, self.n_components
            for name in ("poles_", "sample_interval_"):
                self.__dict__.pop(name, None)
            if self.method == "rational":
                if self.n_components > _MOST_POLES:
                    raise ValueError(
                        f"n_components = {self.n_components}: a rational map has at most "
                        f"{_MOST_POLES} poles; some tens bring the error to rounding."
                    )
                self.poles_ = self._choose_poles(X, ranges, low, high)
            elif self.method == "power":
                self.poles_ = np.ones((int(self.n_components), 1))
            elif self.method == "periodic":
                self.sample_interval_ = self._choose_interval(low, high)
            bound = self._error_bound(low, high)
            ends = np.stack([low, high])
            self.domain_ = ends if self.per_column else ends[:, 0]
            self.kernel_error_bound_ = bound if self.per_column else float(bound[0])
            some = np.unique(np.linspace(0, X.shape[0] - 1, _ERROR_ROWS).astype(np.intp))
            error = partial(relative_error, self._core_map(), X[some], count_threads(self.n_jobs))
            self.relative_error_ = self._error_inside = error()
            if not isinstance(self.domain, str):
                self._error_inside = error(self.domain_.reshape(2, -1), inside=True)
        if not isinstance(self.domain, str):
            self._warn_outside(X)
        return self

    def transform(self, X: ArrayLike | Matrix) -> NDArray[Any] | sparse.csr_array:
        """Map rows to their features.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Histograms: non-negative, finite.

        Returns
        -------
        features : {ndarray, csr_array} of shape (n_samples, n_features * n_components)
            The features; CSR and float32 when `X` is.

        Warns
        -----
        UserWarning
            If values outside the domain change the kernel of a row with itself by more than 5%, and
            by more than 1.5 times the largest error of training rows.

        Raises
        ------
        ValueError
            If an entry is negative, NaN or infinite (the message names it).
        """
        check_is_fitted(self)
        X = canonical(validate_data(self, X, reset=False, **HISTOGRAM_CHECKS))
        self._warn_outside(X)
        features = self._core_map().transform(to_core(X), count_threads(self.n_jobs))
        if isinstance(features, tuple):
            return csr_result(features, X.shape[0])
        return features

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[Any]:
        """Return the names of the features: a name of the input and the number of the component.

        Parameters
        ----------
        input_features : array-like of str, default=None
            Names of the input features; None takes the names of the training data.

        Returns
        -------
        names : ndarray of str
            `x0_0, x1_0, ..., x0_1, ...`; for the periodic map `x0_sqrt, ..., x0_cos1, ...,
            x0_sin1, ...`, as scikit-learn has them behind its prefix.
        """
        check_is_fitted(self)
        names = _check_feature_names_in(self, input_features, generate_names=True)
        suffixes = [str(k) for k in range(self.n_components_)]
        if self.method_ == "periodic":
            steps = range(1, self.n_components_ // 2 + 1)
            suffixes = ["sqrt", *(f"{part}{k}" for k in steps for part in ("cos", "sin"))]
        return np.array([f"{name}_{suffix}" for suffix in suffixes for name in names], dtype=object)

    # ---- parameters --------------------------------------------------------------------------

    def _check_parameters(self) -> None:
        if self.method == "periodic" and self.n_components % 2 == 0:
            raise ValueError(
                f"n_components = {self.n_components}: the periodic map has an odd number of "
                f"components; use {self.n_components + 1} or another method."
            )
        if self.method != "periodic" and self.sample_interval is not None:
            raise ValueError(
                f"sample_interval = {self.sample_interval} is for method='periodic' only; "
                f"leave it None with method={self.method!r}."
            )

    def _domain(self, ranges: tuple[Array, Array]) -> tuple[Array, Array]:
        """Return both ends, with one entry or one for each column."""
        if not isinstance(self.domain, str):
            ends = np.asarray(self.domain, dtype=np.float64)
            if ends.shape != (2,) or not 0 <= ends[0] <= ends[1] < np.inf or ends[1] == 0:
                raise ValueError(
                    f"domain = {self.domain!r}: give two finite numbers 0 <= a <= b with b > 0, "
                    'or "auto".'
                )
            columns = len(ranges[0]) if self.per_column else 1
            return np.full(columns, ends[0]), np.full(columns, ends[1])
        return ranges if self.per_column else _overall(*ranges)

    def _choose_poles(
        self, X: Matrix, ranges: tuple[Array, Array], low: Array, high: Array
    ) -> Array:
        # A column of zeros has no features, whatever the poles are.
        empty = high == 0
        low, high = np.where(empty, 1.0, low), np.where(empty, 1.0, high)
        if not isinstance(self.domain, str):
            return balanced_poles(low, high, self.n_components)
        ends = ranges if self.per_column else _overall(*ranges)
        shares = Shares.of(X, *(np.where(empty, 1.0, end) for end in ends))
        return row_poles(shares, low, high, self.n_components)

    def _choose_interval(self, low: Array, high: Array) -> float:
        if self.sample_interval is not None:
            return float(self.sample_interval)
        # The one interval serves the widest domain.
        low, high = _overall(low, high)
        return best_interval(self.n_components, float(low[0]), float(high[0]))

    # ---- the map and its error ---------------------------------------------------------------

    def _core_map(self) -> _histrs.AdditiveMap:
        if self.method_ == "chebyshev":
            return _histrs.AdditiveMap.chebyshev(self.n_components_)
        if self.method_ == "periodic":
            return _histrs.AdditiveMap.periodic(self.n_components_, self.sample_interval_)
        return _histrs.AdditiveMap.rational(self.poles_)

    def _ranges(self, X: Matrix) -> tuple[Array, Array]:
        low, high = _histrs.column_ranges(to_core(X), count_threads(self.n_jobs))
        largest = high.max(initial=0.0)
        if largest > np.finfo(X.dtype).max / 2:
            raise ValueError(
                f"X has values up to {largest:.3g}, whose sums overflow; divide X by a scale."
            )
        return low, high

    def _error_bound(self, low: Array, high: Array) -> Array:
        if self.method_ == "chebyshev":
            return chebyshev_bound(self.n_components_, low, high)
        if self.method_ == "periodic":
            return periodic_bound(self.n_components_, self.sample_interval_, low, high)
        return rational_bound(self.poles_, low, high)

    def _warn_outside(self, X: Matrix) -> None:
        """Warn when values outside the domain make a difference to the kernel of their rows."""
        low, high = self._ranges(X)
        known = self.domain_.reshape(2, -1)
        if self.domain_.ndim == 1:
            low, high = _overall(low, high)
        # Columns of zeros are in every domain.
        if not np.any((high > 0) & ((low < known[0]) | (high > known[1]))):
            return
        tolerated = max(_TOLERATED, _NOTICED * self._error_inside)
        if relative_error(self._core_map(), X, count_threads(self.n_jobs), known) <= tolerated:
            return
        # The same words for every chunk of a stream: Python shows them once.
        ends = f" {known[0, 0]:.3g} to {known[1, 0]:.3g}" if self.domain_.ndim == 1 else "s"
        warn(
            f"X has values outside the domain{ends} of the map. The kernel of some rows with "
            f"themselves is wrong by more than {tolerated:.2g} of its value: fit on data that "
            "covers X, or set domain."
        )

    def __sklearn_tags__(self) -> Tags:
        """Return what scikit-learn may expect of the map."""
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _overall(low: Array, high: Array) -> tuple[Array, Array]:
    """Return the smallest positive and the largest value of all columns, 0 where there is none."""
    positive = low[high > 0]
    return np.array([positive.min(initial=np.inf) if len(positive) else 0.0]), np.array(
        [high.max(initial=0.0)]
    )
