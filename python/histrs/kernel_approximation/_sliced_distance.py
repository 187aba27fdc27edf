"""Projections whose minima make the energy-distance kernel."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar, Literal, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.distance import pdist
from scipy.special import gammaln
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin, _fit_context
from sklearn.utils import Tags
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.validation import check_is_fitted

from histrs._checks.scale import may_overflow
from histrs._checks.validation import (
    HISTOGRAM_CHECKS,
    canonical,
    check_finite,
    check_random_state,
    unchanged_on_error,
    validate_data,
)
from histrs._estimator import BaseEstimator, documented
from histrs._typing import Array
from histrs.kernel_approximation._out import apart_from, checked_out

DirectionsName: TypeAlias = Literal["orthogonal", "gaussian", "structured"]

# Standard deviations of a projection between its smallest training value and 0.
_MARGIN = 0.5
# Squares of larger projections overflow.
_LARGEST = 1e150
# Rows whose distances the error is measured on.
_ERROR_ROWS = 500
# Rows whose projections are in memory at once, beside those that are returned.
_BLOCK = 8192


@documented()
class SlicedDistanceMap(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    r"""Non-negative random projections that turn the intersection kernel into one of distances.

    With directions :math:`w_p` uniform on the unit sphere and
    :math:`t_p(x) = (w_p^T x - l_p)_+`, where :math:`l_p` lies a little below the training rows,

    .. math:: \frac1P \sum_p \min(t_p(x), t_p(x')) = \frac{a(x) + a(x')}{2}
              - \frac{c_d}{2} |x - x'| + O(P^{-1/2}), \qquad
              c_d = \frac{\Gamma(d/2)}{\sqrt\pi\,\Gamma((d+1)/2)},

    with :math:`a` the mean of the projections: the energy-distance kernel, Brownian motion over
    :math:`R^d` ([1]_). All columns interact in it, and for every number of projections it is an
    intersection kernel, so positive semi-definite, with products in linear time. Every estimator
    of histograms takes the projections.

    Parameters
    ----------
    n_projections : int, default=512
        Number of directions `P`.
    directions : {"orthogonal", "gaussian", "structured"}, default="orthogonal"
        Directions are drawn in orthogonal blocks, which vary less [2]_, or independently, or as
        rows of products of Walsh-Hadamard matrices and random signs. The last are uniform on the
        sphere only in the limit of many columns.
    metric : array-like of shape (n_features, n_features), default=None
        Distances are :math:`|M (x - x')|` with this matrix `M`; None takes the Euclidean one.
    columns_weight : float, default=0.0
        Above 0, the columns themselves stand behind the projections, so weighted, for what is
        additive.
    random_state : int, RandomState instance or None, default=None
        Draws the directions.

    Attributes
    ----------
    directions_ : ndarray of shape (n_features, n_projections)
        The directions, `M` included.
    offsets_ : ndarray of shape (n_features_out,)
        The subtracted :math:`l_p`.
    kernel_error_ : float
        Root mean square error of the distances between training rows (of 500 where there are
        more) that the projections stand for, relative to the mean distance.
    {n_features_in_}
    {feature_names_in_}

    See Also
    --------
    histrs.metrics.energy_distance_kernel : The limit of many projections.

    References
    ----------
    .. [1] J. Hertrich, "Fast kernel summation in high dimensions via slicing and Fourier
       transforms", SIAM Journal on Mathematics of Data Science, 2024.
    .. [2] J. Hertrich, T. Jahn and M. Quellmalz, "Fast summation of radial kernels via QMC
       slicing", 2024.

    Examples
    --------
    >>> import numpy as np
    >>> from histrs.kernel_approximation import SlicedDistanceMap
    >>> X = np.random.default_rng(0).normal(size=(100, 5))
    >>> sliced = SlicedDistanceMap(n_projections=1000, random_state=0).fit(X)
    >>> T = sliced.transform(X)
    >>> T.shape, bool(T.min() >= 0.0), bool(sliced.kernel_error_ < 0.05)
    ((100, 1000), True, True)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_projections": [Interval(Integral, 1, 1 << 20, closed="both")],
        "directions": [StrOptions({"orthogonal", "gaussian", "structured"})],
        "metric": ["array-like", None],
        "columns_weight": [Interval(Real, 0, None, closed="left")],
    }

    def __init__(
        self,
        n_projections: int = 512,
        *,
        directions: DirectionsName = "orthogonal",
        metric: ArrayLike | None = None,
        columns_weight: float = 0.0,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_projections = n_projections
        self.directions = directions
        self.metric = metric
        self.columns_weight = columns_weight
        self.random_state = random_state

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: ArrayLike, y: object = None) -> Self:
        """Draw directions, and find where the projections of training rows begin.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows, of any sign, finite.
        y : None
            Not used; there for pipelines.

        {self}

        Raises
        ------
        ValueError
            If an entry is NaN or infinite, or `metric` is not a square matrix of finite numbers
            that fits.
        """
        with unchanged_on_error(self):
            X = self._checked(X, reset=True)
            random = check_random_state(self.random_state)
            W = draw_directions(X.shape[1], int(self.n_projections), self.directions, random)
            if self.metric is not None:
                W = _checked_metric(self.metric, X.shape[1]).T @ W
            self.directions_, self._weight = W, float(self.columns_weight)
            self.offsets_ = self._offsets(X)
            self.kernel_error_ = self._error(X, random)
        return self

    def transform(self, X: ArrayLike, out: NDArray[Any] | None = None) -> NDArray[Any]:
        """Project rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.
        out : ndarray of shape (n_samples, n_features_out), default=None
            Where to write the projections, of the dtype of `X`.

        Returns
        -------
        T : ndarray of shape (n_samples, n_features_out)
            Non-negative projections, and with `columns_weight` the columns behind them; `out` where
            it was given.

        Raises
        ------
        ValueError
            If an entry is NaN or infinite, `out` has another shape or dtype, or the precision of
            `X` does not hold what was learned.
        """
        check_is_fitted(self)
        X = self._checked(X, reset=False)
        shape = (X.shape[0], self._n_features_out)
        if out is None:
            out = memory = np.empty(shape, X.dtype)
        else:
            memory = checked_out(out, shape, X.dtype, "projections")
            X = apart_from(memory, X)
        with may_overflow():
            offsets_ = self.offsets_.astype(X.dtype)
        if not np.isfinite(offsets_).all():
            raise ValueError(
                f"The projections of the training rows exceed the range of {X.dtype}: give float64."
            )
        for start in range(0, shape[0], _BLOCK):
            rows = slice(start, start + _BLOCK)
            T = self._raw(X[rows])
            T -= offsets_
            np.maximum(T, 0.0, out=memory[rows])
        return out

    def __sklearn_tags__(self) -> Tags:
        """Return what scikit-learn may expect of the map."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    @property
    def _n_features_out(self) -> int:
        return len(self.offsets_)

    def _checked(self, X: Any, *, reset: bool) -> Any:
        X = canonical(validate_data(self, X, reset=reset, **HISTOGRAM_CHECKS))
        check_finite(X, "X")
        return X

    def _raw(self, X: Any) -> NDArray[Any]:
        """Return projections, and weighted columns, before anything is subtracted."""
        # What overflows is told by what it leads to.
        with np.errstate(over="ignore", invalid="ignore"):
            T = np.asarray(safe_sparse_dot(X, self.directions_.astype(X.dtype)))
            if self._weight > 0.0:
                T = np.hstack([T, X.dtype.type(self._weight) * _dense(X)])
            largest = np.max(np.abs(T), initial=0.0)
        limit = min(_LARGEST, 1e-6 * float(np.finfo(T.dtype).max))
        if not largest <= limit:
            raise ValueError(
                f"A projection is {largest:.3g}, and sums of projections above {limit:.3g} "
                "overflow: scale X, metric or columns_weight down."
            )
        return T

    def _offsets(self, X: Any) -> Array:
        """Return what `offsets` would of all projections, which need not be there at once."""
        n_rows = X.shape[0]
        first = self._raw(X[:_BLOCK])
        if n_rows <= _BLOCK:
            return offsets(first)
        # About the mean of some rows, sums of squares do not cancel.
        origin = first.mean(axis=0, dtype=np.float64)
        low = np.full(len(origin), np.inf)
        total, squares = np.zeros_like(low), np.zeros_like(low)
        for start in range(0, n_rows, _BLOCK):
            T = self._raw(X[start : start + _BLOCK]) - origin
            low = np.minimum(low, T.min(axis=0))
            total += T.sum(axis=0)
            squares += np.sum(T * T, axis=0)
        spread = np.sqrt(np.maximum(squares / n_rows - (total / n_rows) ** 2, 0.0))
        below: Array = origin + low - _MARGIN * spread
        return below

    def _error(self, X: Any, random: np.random.RandomState) -> float:
        rows = np.arange(X.shape[0])
        if len(rows) > _ERROR_ROWS:
            rows = np.sort(random.choice(rows, _ERROR_ROWS, replace=False))
        Z = _dense(X[rows])
        if self.metric is not None:
            Z = Z @ _checked_metric(self.metric, X.shape[1]).T
        Z = np.asarray(Z, dtype=np.float64)
        P = self.directions_.shape[1]
        T = np.asarray(self._raw(X[rows])[:, :P], dtype=np.float64)
        # In a unit in which squares neither overflow nor vanish; a power of 2 rounds nothing.
        exponent = -np.frexp(np.max(np.abs(Z), initial=0.0))[1]
        exact = pdist(np.ldexp(Z, exponent))
        estimate = pdist(np.ldexp(T, exponent), "cityblock")
        estimate /= P * mean_projection(X.shape[1])
        mean = float(np.mean(exact)) if len(exact) > 0 else 0.0
        return float(np.sqrt(np.mean((estimate - exact) ** 2))) / mean if mean > 0.0 else 0.0


def _dense(X: Any) -> NDArray[Any]:
    dense: NDArray[Any] = X.toarray() if hasattr(X, "toarray") else X
    return dense


def mean_projection(d: int) -> float:
    """Return `c_d`, the mean length of a unit vector's projection on a random direction."""
    return float(np.exp(gammaln(d / 2) - gammaln((d + 1) / 2)) / np.sqrt(np.pi))


def offsets(T: NDArray[Any]) -> Array:
    """Return what to subtract from each projection, from those of the training rows."""
    T = np.asarray(T, dtype=np.float64)
    lows: Array = T.min(axis=0) - _MARGIN * T.std(axis=0)
    return lows


def draw_directions(
    d: int, n_directions: int, kind: DirectionsName, random: np.random.RandomState
) -> Array:
    """Return unit vectors as the columns of a matrix of shape (d, n_directions)."""
    if kind == "gaussian":
        W = random.standard_normal((d, n_directions))
        unit: Array = W / np.linalg.norm(W, axis=0)
        return unit
    draw = _orthogonal_block if kind == "orthogonal" else _structured_block
    blocks: list[Array] = []
    n_drawn = 0
    while n_drawn < n_directions:
        blocks.append(draw(d, random))
        n_drawn += blocks[-1].shape[1]
    return np.hstack(blocks)[:, :n_directions]


def _orthogonal_block(d: int, random: np.random.RandomState) -> Array:
    q, r = np.linalg.qr(random.standard_normal((d, d)))
    # With the signs of r's diagonal, q is uniformly distributed.
    block: Array = q * np.sign(np.diag(r))
    return block


def _structured_block(d: int, random: np.random.RandomState) -> Array:
    """Return the first rows of `H D_3 H D_2 H D_1`, at length 1."""
    from scipy.linalg import hadamard

    size = 1 << max(int(np.ceil(np.log2(max(d, 1)))), 0)
    H = hadamard(size) / np.sqrt(size)
    block = np.eye(size)
    for _ in range(3):
        block = H @ (random.choice([-1.0, 1.0], size)[:, None] * block)
    rows = block[:, :d]
    length = np.linalg.norm(rows, axis=1)
    # Of few columns, a row may have nothing in those that are there.
    seen = length > 1e-6
    unit: Array = (rows[seen] / length[seen, None]).T
    return unit


def _checked_metric(metric: ArrayLike, d: int) -> Array:
    matrix = np.asarray(metric, dtype=np.float64)
    if matrix.shape != (d, d) or not np.all(np.isfinite(matrix)):
        raise ValueError(
            f"metric has shape {matrix.shape}, and X has {d} columns: give a matrix of {d} x {d} "
            "finite numbers."
        )
    return matrix
