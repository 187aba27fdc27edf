"""Random features of the exponential chi-square kernel."""

from __future__ import annotations

from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin, _fit_context, clone
from sklearn.utils import Tags
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from histrs import _histrs
from histrs._checks.scale import may_overflow
from histrs._checks.validation import (
    HISTOGRAM_CHECKS,
    canonical,
    check_random_state,
    count_threads,
    to_core,
    unchanged_on_error,
    validate_data,
)
from histrs._estimator import BaseEstimator, documented
from histrs._progress import StepProgress
from histrs._threads import leavable
from histrs._typing import Array, Matrix
from histrs.kernel_approximation._additive_chi2 import AdditiveChi2Map
from histrs.kernel_approximation._out import apart_from, checked_out
from histrs.kernel_approximation._scale_search import leave_one_out_error, signed_targets
from histrs.metrics import chi2_distances

ProjectionName: TypeAlias = Literal["structured", "gaussian", "orthogonal"]

# Rows whose distances the scale is chosen by, and rows mapped at once for the variance.
_DISTANCE_ROWS = 1000
_VARIANCE_ROWS = 512
# The multiples of "scale" that "auto" tries.
_MULTIPLES = np.array([1 / 16, 1 / 8, 1 / 4, 1 / 2, 1, 2, 4])


@documented()
class ExpChi2Sampler(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    r"""Random Fourier features of the exponential chi-square kernel.

    Inner products of the features approximate

    .. math:: k(x, y) = \exp(-\gamma \chi^2(x, y)),
              \qquad \chi^2(x, y) = \sum_d \frac{(x(d) - y(d))^2}{x(d) + y(d)}.

    Algorithm 1 of [1]_: an `AdditiveChi2Map` `c` makes the distance Euclidean,
    :math:`|c(x) - c(y)|^2 \approx \chi^2(x, y)`. Cosines and sines of random projections of `c(x)`
    estimate the Gaussian kernel of this distance,

    .. math:: z(x) = \sqrt{2/D}\,[\cos(\Omega c(x)), \sin(\Omega c(x))],
              \qquad \Omega_{ij} \sim N(0, 2\gamma),

    with `D/2` rows in :math:`\Omega`. (The algorithm leaves out :math:`\sqrt{2/D}`, and takes
    cosines with random phases, which cost twice as much and vary more.) The errors of sines and
    cosines are at most 5e-15, or 1e-6 in single precision.

    Parameters
    ----------
    n_components : int, default=100
        Number of features `D`: a cosine and a sine for each projection. If it is odd, the last
        projection has one feature, its cosine less its sine.
    gamma : {"scale", "median", "auto"} or float, default="scale"
        Inverse scale of the distance. "scale" is 1 over twice the mean distance of training rows.
        "median" is 1 over the median distance of at most 1,000 rows, drawn at random. "auto" tries
        multiples of "scale", from 1/16 to 4, in kernel ridge regression of `y` on at most 1,000
        rows, and takes the smallest leave-one-out error. A `y` of strings, or of integers with few
        distinct values, is taken for class labels.
    base_map : AdditiveChi2Map, default=None
        The map `c`; it is cloned and fitted. None takes `AdditiveChi2Map(n_components=5)`.
    projection : {"structured", "gaussian", "orthogonal"}, default="structured"
        "structured" is :math:`H D_3 H D_2 H D_1` with diagonal matrices :math:`D_i` of random signs
        and Walsh-Hadamard transforms `H` [2]_, in blocks of the size of `c(x)` padded to a power of
        two. Its estimate of the kernel varies less than that of "gaussian", a matrix of independent
        entries. "orthogonal" makes the rows of a Gaussian matrix orthogonal, in blocks. For sparse
        rows with few non-zeros, `transform` multiplies by the matrix of the structured projection
        instead. The first such call makes this matrix.
    random_state : int, RandomState instance or None, default=None
        Draws the projection, and the rows for "median" and "auto".
    n_jobs : int, default=None
        Number of threads; None and -1 mean one per core. The features are the same for any number.
    verbose : int, default=0
        Above 0, the search of `gamma="auto"` shows a progress bar (tqdm where installed, lines on
        stderr where not).

    Attributes
    ----------
    n_components_, projection_kind_ : int, str
        The number of features and the kind of `projection_`.
    gamma_ : float
        The inverse scale.
    base_map_ : AdditiveChi2Map
        The fitted map.
    projection_ : ndarray
        The signs, of shape (2 + n_blocks, n) and type int8, or the matrix of shape
        (n_mapped_features, n_projections) whose entries have variance 1.
    {n_features_in_}
    {feature_names_in_}

    See Also
    --------
    histrs.metrics.exp_chi2_kernel : The kernel itself.
    AdditiveChi2Map : Features of the additive kernel, with a certified error.

    References
    ----------
    .. [1] F. Li, G. Lebanon and C. Sminchisescu, "Chebyshev approximations to the histogram
       chi-square kernel", CVPR 2012.
    .. [2] F. Yu, A. Suresh, K. Choromanski, D. Holtmann-Rice and S. Kumar, "Orthogonal random
       features", NIPS 2016.

    Examples
    --------
    >>> import numpy as np
    >>> from histrs.kernel_approximation import ExpChi2Sampler
    >>> from histrs.metrics import exp_chi2_kernel
    >>> X = np.random.default_rng(0).dirichlet(np.ones(20), size=100)
    >>> sampler = ExpChi2Sampler(n_components=2000, gamma=1.0, random_state=0)
    >>> Z = sampler.fit_transform(X)
    >>> Z.shape
    (100, 2000)
    >>> bool(np.abs(Z @ Z.T - exp_chi2_kernel(X, gamma=1.0)).max() < 0.15)
    True
    """

    _inputs: ClassVar[dict[str, bool]] = {"sparse": True, "positive_only": True}
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_components": [Interval(Integral, 1, 2**31 - 1, closed="both")],
        "gamma": [
            StrOptions({"scale", "median", "auto"}),
            Interval(Real, 0, None, closed="neither"),
        ],
        "base_map": [AdditiveChi2Map, None],
        "projection": [StrOptions({"structured", "gaussian", "orthogonal"})],
    }

    def __init__(
        self,
        n_components: int = 100,
        *,
        gamma: Literal["scale", "median", "auto"] | float = "scale",
        base_map: AdditiveChi2Map | None = None,
        projection: ProjectionName = "structured",
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.gamma = gamma
        self.base_map = base_map
        self.projection = projection
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: ArrayLike | Matrix, y: ArrayLike | None = None) -> Self:
        """Fit the map, choose the scale, draw the projection; on an error nothing changes.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Histograms: non-negative, finite.
        y : array-like of shape (n_samples,) or (n_samples, n_targets), default=None
            Classes or numbers to predict; used, and needed, with `gamma="auto"`.

        {self}

        Raises
        ------
        ValueError
            If an entry is negative, NaN or infinite (the message names it), or `y` is needed and
            not there.
        """
        random = check_random_state(self.random_state)
        with unchanged_on_error(self):
            X = canonical(validate_data(self, X, **HISTOGRAM_CHECKS))
            self.n_components_, self.projection_kind_ = self.n_components, self.projection
            base = AdditiveChi2Map(n_components=5) if self.base_map is None else self.base_map
            self.base_map_ = clone(base).set_params(n_jobs=self.n_jobs).fit(X)
            self.gamma_ = self._choose_gamma(X, y, random)
            self.projection_ = self._draw_projection(random)
            self._core = self._of_core()
        return self

    def transform(self, X: ArrayLike | Matrix, out: NDArray[Any] | None = None) -> NDArray[Any]:
        """Map rows to their random features.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Histograms: non-negative, finite.
        out : ndarray of shape (n_samples, n_components), default=None
            Where to write the features, of the dtype of `X`, with contiguous rows. To allocate a
            new array may take longer than to compute the features.

        Returns
        -------
        Z : ndarray of shape (n_samples, n_components)
            The cosines of all projections, then their sines; float32 when `X` is. `out` where it
            was given.

        Warns
        -----
        UserWarning
            If values are outside the domain of the map, as `AdditiveChi2Map.transform` warns.

        Raises
        ------
        ValueError
            If an entry is negative, NaN or infinite (the message names it), or `out` is not as
            above.
        """
        X = self._checked(X)
        memory = None
        if out is not None:
            shape = X.shape[0], self.n_components_
            memory = checked_out(out, shape, X.dtype, "features", c_contiguous=True)
            X = apart_from(memory, X)
        self.base_map_._warn_outside(X)
        if self.n_components_ % 2 == 0:
            Z = self._core.transform(to_core(X), count_threads(self.n_jobs), memory)
            return Z if out is None else out
        Z = self._core.transform(to_core(X), count_threads(self.n_jobs), None)
        # `cos(v) - sin(v) = sqrt(2) cos(v + pi/4)`. The product of two has the mean of
        # `cos(v - w) - sin(v + w)`, and the sine is as often positive as negative.
        Z[:, self._n_projections - 1] -= Z[:, -1]
        if out is None or memory is None:
            return np.ascontiguousarray(Z[:, :-1])
        memory[:] = Z[:, :-1]
        return out

    def _checked(self, X: ArrayLike | Matrix) -> Matrix:
        check_is_fitted(self)
        return canonical(validate_data(self, X, reset=False, **HISTOGRAM_CHECKS))

    def _linear_scores(self, X: Matrix, coef: Array, intercept: Array) -> NDArray[Any]:
        """Return `transform(X) @ coef.T + intercept` of features of which few exist at a time."""
        self.base_map_._warn_outside(X)
        if self.n_components_ % 2 == 1:
            # The last feature is the cosine of a projection less its sine, which has no other.
            coef = np.hstack([coef, -coef[:, [self._n_projections - 1]]])
        coef = np.ascontiguousarray(coef, dtype=np.float64)
        intercept = np.ascontiguousarray(intercept, dtype=np.float64)
        return self._core.scores(to_core(X), coef, intercept, count_threads(self.n_jobs))

    def __sklearn_tags__(self) -> Tags:
        """Return what scikit-learn may expect of the sampler."""
        tags = super().__sklearn_tags__()
        tags.target_tags.required = self.gamma == "auto"
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    @property
    def _n_features_out(self) -> int:
        return self.n_components_

    @property
    def _n_projections(self) -> int:
        return (self.n_components_ + 1) // 2

    def _of_core(self) -> _histrs.ExpChi2Features:
        """Return the object of the core, which keeps the matrix that sparse rows need."""
        base = self.base_map_._core_map()
        if self.projection_kind_ == "structured":
            return _histrs.ExpChi2Features.structured(
                base, self.n_features_in_, self.projection_, self._n_projections, self.gamma_
            )
        return _histrs.ExpChi2Features.dense(
            base, self.n_features_in_, self.projection_, self.gamma_
        )

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without this object."""
        return {k: v for k, v in super().__getstate__().items() if k != "_core"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Set the state, and make that object."""
        super().__setstate__(state)
        if "projection_" in state:
            self._core = self._of_core()

    # ---- the scale ---------------------------------------------------------------------------

    def _choose_gamma(self, X: Matrix, y: ArrayLike | None, random: np.random.RandomState) -> float:
        if not isinstance(self.gamma, str):
            return float(self.gamma)
        if self.gamma == "median":
            distance = self._median(X, random)
        else:
            # The mean squared distance of two draws is twice their variance.
            distance = 4.0 * self._total_variance(X)
        # All rows are equal: any scale does.
        scale = 1.0 if distance <= 0 else 1.0 / distance
        if not 0.0 < scale * _MULTIPLES[0] <= scale * _MULTIPLES[-1] < np.inf:
            raise ValueError(
                f"The chi-square distances of X are about {distance:.3g}, and gamma, one over "
                "that, leaves the range of double precision: scale X, or give gamma."
            )
        return scale if self.gamma != "auto" else self._search_gamma(X, y, scale, random)

    def _search_gamma(
        self, X: Matrix, y: ArrayLike | None, scale: float, random: np.random.RandomState
    ) -> float:
        """Return the multiple of a scale with the least error of rows left out."""
        if y is None:
            raise ValueError('gamma = "auto" needs y: call fit(X, y), or choose "scale".')
        rows = self._some_rows(X, random)
        targets = signed_targets(y, X.shape[0], rows)
        distances = chi2_distances(X[rows], n_jobs=self.n_jobs)
        candidates = scale * _MULTIPLES
        errors = np.full(len(candidates), np.inf)
        with StepProgress("ExpChi2Sampler", self.verbose, len(candidates)) as progress:
            for i, gamma in enumerate(candidates):
                errors[i] = leave_one_out_error(np.exp(-gamma * distances), targets)
                progress(f"gamma {gamma:.3g}, error left out {errors[i]:.3g}")
        return float(candidates[np.argmin(errors)])

    def _total_variance(self, X: Matrix) -> float:
        """Return the variance of the mapped data, summed over its features."""
        n = X.shape[0]
        total: Any = 0.0
        squares = 0.0
        with may_overflow():
            for start in range(0, n, _VARIANCE_ROWS):
                features: Any = self.base_map_.transform(X[start : start + _VARIANCE_ROWS])
                total = total + np.asarray(features.sum(axis=0, dtype=np.float64)).ravel()
                values = features if isinstance(features, np.ndarray) else features.data
                squares += float(np.sum(np.square(values, dtype=np.float64)))
            return float(squares / n - np.sum(np.square(total / n)))

    def _median(self, X: Matrix, random: np.random.RandomState) -> float:
        """Return the median distance of different rows, of some of them."""
        distances = chi2_distances(X[self._some_rows(X, random)], n_jobs=self.n_jobs)
        pairs = distances[np.triu_indices_from(distances, k=1)]
        return float(np.median(pairs)) if len(pairs) else 0.0

    def _some_rows(self, X: Matrix, random: np.random.RandomState) -> Any:
        n = X.shape[0]
        if n <= _DISTANCE_ROWS:
            return slice(None)
        return np.sort(random.choice(n, _DISTANCE_ROWS, replace=False))

    # ---- the projection ----------------------------------------------------------------------

    def _draw_projection(self, random: np.random.RandomState) -> NDArray[Any]:
        n_projections = self._n_projections
        if self.projection == "structured":
            core = self.base_map_._core_map()
            size = _histrs.ExpChi2Features.structured_size(core, self.n_features_in_)
            rounds = 2 + -(-n_projections // size)
            bits = random.randint(0, 2, size=(rounds, size), dtype=np.int8)
            return np.asarray(2 * bits - 1, dtype=np.int8)
        size = self.n_features_in_ * self.base_map_.n_components
        if self.projection == "gaussian":
            return random.standard_normal((size, n_projections))
        return _orthogonal(size, n_projections, random)


def _orthogonal(size: int, n_columns: int, random: np.random.RandomState) -> Array:
    """Return Gaussian columns made orthogonal in blocks, with the lengths that they had."""
    blocks = []
    for start in range(0, n_columns, size):
        gaussian = random.standard_normal((size, size))
        q, r = leavable(partial(np.linalg.qr, gaussian))
        # With the signs of r's diagonal, q is uniformly distributed.
        directions = (q * np.sign(np.diag(r)))[:, : n_columns - start]
        lengths = np.sqrt(random.chisquare(size, size=directions.shape[1]))
        blocks.append(directions * lengths)
    return np.hstack(blocks)
