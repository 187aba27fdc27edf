"""Principal components of data that need not fit in memory."""

from __future__ import annotations

from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin, _fit_context
from sklearn.utils import Tags
from sklearn.utils._param_validation import Interval, RealNotInt
from sklearn.utils.validation import check_is_fitted

from histrs._checks.rows import in_row_blocks
from histrs._checks.scale import check_computed, may_overflow
from histrs._checks.sparse import is_sparse
from histrs._checks.validation import check_array, unchanged_on_error, validate_data
from histrs._estimator import BaseEstimator, documented
from histrs._typing import Array, Matrix
from histrs._weights import weighs_nothing
from histrs.streaming._docs import PASSES, STREAMS
from histrs.streaming._moments import Moments
from histrs.streaming._principal import check_n_components, principal_directions, with_signs
from histrs.streaming._readers import given
from histrs.streaming._row_space import row_space
from histrs.streaming._rows import ROW_CHECKS, names_in, set_n_features
from histrs.streaming._source import RowSource
from histrs.streaming._weights import weights_of

# Of what the precision of `X` cannot hold.
_CURE = "scale X down, or give float64"


@documented(STREAMS, PASSES)
class StreamingPCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    r"""Principal components from moments, in one pass and `O(D^2)` memory.

    Algorithm 2 of [1]_: the directions are the eigenvectors of

    .. math:: H = Z^T Z - m m^T / n = U \Lambda U^T

    with the largest eigenvalues. `Moments` gathers `H`, in chunks, processes or over days; the
    decomposition takes `O(D^3)`. They are exact, as in `PCA(svd_solver="covariance_eigh")`, where
    `IncrementalPCA` approximates.

    Parameters
    ----------
    n_components : int or float, default=None
        Number of components, at most the number of features. None keeps one for each feature, or
        for each row if these are fewer; a row of weight 2 counts as two. A number between 0 and 1
        keeps the fewest that have more than this fraction of the total variance of the current
        rows.
    whiten : bool, default=False
        Whether transformed rows are divided by the standard deviations of the components, so that
        those of training have variances of 1. Components without variance, up to rounding, stay.
    n_jobs : int or None, default=None
        Threads of BLAS in `fit`; None leaves them as they are. Their number may change the last
        bits.
    verbose : int, default=0
        1 shows the progress of `fit`, with tqdm where it is installed.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The directions, as rows. After `partial_fit` they are computed on first use, so chunks cost
        no decompositions.
    explained_variance_ : ndarray of shape (n_components,)
        Variances of the components.
    explained_variance_ratio_ : ndarray of shape (n_components,)
        The same as fractions of the total variance.
    mean_ : ndarray of shape (n_features,)
        Mean of the rows.
    moments_ : Moments
        The moments of the rows.
    n_components_ : int
        Number of components.
    n_samples_seen_ : int or float
        Number of rows; one of more weight than 1 counts as that many.
    {n_features_in_}
    {feature_names_in_}

    See Also
    --------
    Moments.of : Moments of files and of iterables, with checkpoints, for `fit_moments`.

    References
    ----------
    .. [1] F. Li, G. Lebanon and C. Sminchisescu, "Chebyshev approximations to the histogram
       chi-square kernel", CVPR 2012.

    Examples
    --------
    >>> import numpy as np
    >>> from histrs.streaming import StreamingPCA
    >>> X = np.random.default_rng(0).random((5000, 6)) * [9, 4, 1, 1, 1, 1]
    >>> pca = StreamingPCA(n_components=2)
    >>> for start in range(0, 5000, 1024):
    ...     pca = pca.partial_fit(X[start : start + 1024])
    >>> pca.transform(X).shape
    (5000, 2)
    >>> pca.explained_variance_.round(1)
    array([6.8, 1.3])
    """

    _moments: Moments | None
    # What moments are made of when they are asked for.
    _source: RowSource | None
    _decomposition: tuple[Array, Array] | None

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_components": [
            Interval(Integral, 1, None, closed="left"),
            Interval(RealNotInt, 0, 1, closed="neither"),
            None,
        ]
    }

    def __init__(
        self,
        n_components: float | None = None,
        *,
        whiten: bool = False,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.whiten = whiten
        self.n_jobs = n_jobs
        self.verbose = verbose

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(
        self, X: ArrayLike | Matrix, y: object = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Learn the components of all rows; on an error nothing changes.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            At least two finite rows. A dask array is reduced where it lies.
        y : None
            Not used; there for pipelines.
        {sample_weight}

        {self}

        Raises
        ------
        ValueError
            If `n_components` is larger than the number of features, or `X` is not as above.
        """
        with unchanged_on_error(self):
            # The moments are not made of rows that are not finite, and name the first.
            rows, _, weights = given(self, X, weights=sample_weight, ensure_all_finite=False)
            self._checked_n_components(rows.shape[1])
            source = RowSource(rows, weights=weights, n_jobs=self.n_jobs, verbose=self.verbose)
            source.names.known = names_in(self)
            if not self._learn_few(source):
                self._set_moments(Moments._gathered(source))
                self._decompose()
        return self

    def _learn_few(self, source: RowSource) -> bool:
        """Learn from an array of fewer rows than features, in their space; say whether it is so."""
        reduced = row_space(source)
        if reduced is None:
            return False
        coordinates, space = reduced
        moments = Moments._gathered(coordinates)
        if self._n_directions(moments.n_rows, space.n_features) > moments.n_features:
            return False
        self._set_moments(moments, space.n_features)
        self._decompose()
        values, directions = self._decomposed()
        self._decomposition = values, with_signs(space.expanded(directions.T).T)
        weights = np.ones(source.rows.shape[0]) if source.weights is None else source.weights
        self.mean_ = np.asarray((weights / weights.sum()) @ source.rows)
        # Moments take the square of the features; only what comes after may ask for them.
        self._moments, self._source = None, source.copied()
        return True

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(
        self, X: ArrayLike | Matrix, y: object = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Add rows to those seen so far; on an error nothing changes.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Finite rows.
        y : None
            Not used; there for pipelines.
        {sample_weight}

        Returns
        -------
        self : StreamingPCA
            The model.

        Raises
        ------
        ValueError
            If `n_components` is larger than the number of features, or `X` is not as above.
        """
        if weighs_nothing(sample_weight, X):
            return self
        first = not self.__sklearn_is_fitted__()
        with unchanged_on_error(self):
            X = validate_data(self, X, reset=first, ensure_all_finite=False, **ROW_CHECKS)
            self._checked_n_components(X.shape[1])
            names = names_in(self)
            moments = Moments(X.shape[1], feature_names=names) if first else self.moments_
            weights = weights_of(sample_weight, X.shape[0])
            self._set_moments(moments.update(X, sample_weight=weights))
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    def fit_moments(self, moments: Moments) -> Self:
        """Learn from moments, of rows with targets and without.

        Parameters
        ----------
        moments : Moments
            Moments of at least two rows.

        Returns
        -------
        self : StreamingPCA
            The fitted model. It shares the moments: a later `partial_fit` adds to them.

        Raises
        ------
        ValueError
            If `n_components` is larger than the number of features, or there are fewer rows.
        """
        self._checked_n_components(moments.n_features)
        with unchanged_on_error(self):
            set_n_features(self, moments.n_features, moments.feature_names)
            self._set_moments(moments)
            self._decompose()
        return self

    def transform(self, X: ArrayLike | Matrix) -> NDArray[Any]:
        """Project rows on the components.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Finite rows.

        Returns
        -------
        T : ndarray of shape (n_samples, n_components)
            ``(X - mean_) @ components_.T``, with `whiten` over the standard deviations; float32
            when `X` is.

        Raises
        ------
        ValueError
            If projections overflow (the message names the row).
        """
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, **ROW_CHECKS)
        # How many components there are may take the decomposition, which is kept.
        with unchanged_on_error(self):
            components = self.components_ / self._sizes()[:, None]
            with may_overflow():
                if is_sparse(X):
                    rows = X @ components.T - self.mean_ @ components.T
                    projected = np.asarray(rows, dtype=X.dtype)
                else:
                    # Centred first: the difference of projections cancels where means are large.
                    mean, axes = self.mean_.astype(X.dtype), components.T.astype(X.dtype)
                    projected = in_row_blocks(X, lambda rows: (rows - mean) @ axes)
            check_computed(projected, "The projections", _CURE)
        return projected

    def inverse_transform(self, X: ArrayLike) -> NDArray[Any]:
        """Return the rows that transformed rows stand for.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_components)
            Finite rows, as `transform` returns them.

        Returns
        -------
        rows : ndarray of shape (n_samples, n_features)
            ``X @ components_ + mean_``, with `whiten` times the standard deviations: the nearest
            to the rows that were transformed; float32 when `X` is.

        Raises
        ------
        ValueError
            If there are not as many columns as components, or rows overflow (the message names the
            first).
        """
        check_is_fitted(self)
        T = check_array(X, dtype=[np.float64, np.float32])
        with unchanged_on_error(self):
            if T.shape[1] != self.n_components_:
                raise ValueError(
                    f"X has {T.shape[1]} columns, but StreamingPCA has {self.n_components_} "
                    "components: give rows that transform returned."
                )
            directions = self.components_ * self._sizes()[:, None]
            with may_overflow():
                rows = np.asarray(T @ directions.astype(T.dtype) + self.mean_.astype(T.dtype))
            check_computed(rows, "The features", _CURE)
        return rows

    def _sizes(self) -> Array:
        """Return what transformed columns are divided by."""
        if not self.whiten:
            return np.ones(self.n_components_)
        sizes = np.sqrt(self.explained_variance_)
        # Of what has no variance, rounding is left.
        gone = sizes <= np.sqrt(np.finfo(np.float64).eps) * np.max(sizes, initial=0.0)
        sizes[gone] = 1.0
        return sizes

    def __sklearn_tags__(self) -> Tags:
        """Return what scikit-learn may expect of the model."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    @property
    def components_(self) -> Array:
        """The directions, as rows."""
        return self._decomposed()[1].T

    @property
    def explained_variance_(self) -> Array:
        """Variances of the components."""
        values, n, n_rows = self._decomposed()[0], self._weight_seen, self.n_samples_seen_
        return values / (n_rows - 1 if n == n_rows else n * (1 - 1 / n_rows))

    @property
    def explained_variance_ratio_(self) -> Array:
        """Variances of the components as fractions of the total variance."""
        values, total = self._decomposed()[0], self._total
        return np.asarray(values / total if total > 0 else np.zeros_like(values))

    @property
    def n_components_(self) -> int:
        """Number of components."""
        return len(self._decomposed()[0])

    def _checked_n_components(self, n_features: int) -> int:
        """Return how many components may be computed: of a fraction of the variance, all."""
        wanted = self.n_components
        return check_n_components(None if wanted is None or wanted < 1 else int(wanted), n_features)

    def _n_directions(self, n_rows: float, n_features: int) -> int:
        """Return how many components are computed: of as many as there are, no more than rows."""
        most = self._checked_n_components(n_features)
        given = self.n_components is not None and self.n_components >= 1
        return most if given else min(most, int(n_rows))

    @property
    def _n_features_out(self) -> int:
        return self.n_components_

    @property
    def moments_(self) -> Moments:
        """What is known of the rows; made when first asked for where there are few rows."""
        check_is_fitted(self)
        if self._moments is None:
            assert self._source is not None
            self._moments, self._source = Moments._gathered(self._source), None
        return self._moments

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_moments")

    def _set_moments(self, moments: Moments, n_features: int | None = None) -> None:
        """Take moments of the features, or of rows in a space of their own and so many features."""
        sums = moments._all_rows()
        self._moments, self._source = moments, None
        self.n_samples_seen_, self._weight_seen = moments.n_rows, moments.n
        self._n_wanted = self._n_directions(moments.n_rows, n_features or moments.n_features)
        self.mean_ = sums.mean.copy()
        self._total = float(np.trace(sums.scatter))
        self._decomposition = None

    def _decomposed(self) -> tuple[Array, Array]:
        check_is_fitted(self)
        if self._decomposition is None:
            self._decompose()
        assert self._decomposition is not None
        return self._decomposition

    def _decompose(self) -> None:
        if self.moments_.n_rows < 2:
            raise ValueError(
                f"n_samples = {self.moments_.n_rows}: principal components need two rows or more."
            )
        scatter = self.moments_._all_rows().scatter
        values, directions = principal_directions(scatter, self._n_wanted)
        if self.n_components is not None and self.n_components < 1:
            sums = np.cumsum(values)
            # Of rows that are all equal, one component is as good as any.
            n = 1 + int(np.sum(sums[:-1] <= self.n_components * sums[-1])) if sums[-1] > 0 else 1
            values, directions = values[:n], directions[:, :n]
        self._decomposition = values, directions
