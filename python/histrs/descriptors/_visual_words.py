"""Histograms of the visual words in sets of local features."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin, _fit_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.utils import Tags
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from histrs import _histrs
from histrs._checks.scale import may_overflow
from histrs._checks.validation import check_random_state, count_threads, unchanged_on_error
from histrs._estimator import BaseEstimator, documented
from histrs._typing import Array
from histrs._warnings import warn
from histrs.descriptors._docs import LOCAL_FEATURES
from histrs.descriptors._local_features import Float, Grid, LocalFeatures, Sets, grids_of

# When k-means stops, as in scikit-learn: passes, and how far words move in one, squared, relative
# to the mean variance of the columns.
_MAX_ITER, _TOL = 300, 1e-4


@documented(LOCAL_FEATURES)
class BagOfVisualWords(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    r"""A histogram for a set of local features: the number of features nearest to each word.

    The words :math:`c_1, \ldots, c_K` are the centres of k-means on the local features of all
    images [1]_. A local feature `x` counts for the nearest word. With "soft" assignment, it counts
    for all of them in fractions [2]_

    .. math:: \frac{\exp(-|x - c_k|^2 / 2 \sigma^2)}{\sum_j \exp(-|x - c_j|^2 / 2 \sigma^2)}.

    With cells of a `pyramid`, every cell has a histogram of its own [3]_.

    Parameters
    ----------
    n_words : int, default=100
        Number of words `K`.
    assignment : {"hard", "soft"}, default="hard"
        Whether a local feature counts for one word or for all.
    bandwidth : float, default=None
        The :math:`\sigma` of soft assignment. None takes the root mean square distance of the
        training features from their nearest words.
    norm : {"l1", "l2"} or None, default="l1"
        Norm that divides the histogram of an image, all cells together; None leaves counts.
    pyramid : sequence of int or (int, int), default=(1,)
        Grids over the image, `(rows, columns)` or one number for both; `(1, 2, 4)` is the
        pyramid of [3]_.
    level_weights : array-like of shape (n_levels,), default=None
        Factors of the counts of each level before `norm`; None is 1. For `(1, 2, 4)` and the
        intersection kernel, [3]_ has `(1/4, 1/4, 1/2)`.
    {positions}
    max_samples : int, default=100000
        Local features drawn for k-means.
    random_state : int, RandomState instance or None, default=None
        For the sample and k-means.
    verbose : int, default=0
        Above 0, the number of iterations of k-means and the inertia are printed.

    Attributes
    ----------
    words_ : ndarray of shape (n_words, n_described)
        The words.
    bandwidth_ : float
        The :math:`\sigma` of soft assignment, also where assignment is hard.
    {n_features_in_}
    {feature_names_in_}

    See Also
    --------
    FisherVector : Keeps more of the features, in longer vectors.
    histrs.svm.IntersectionSVC : A classifier of histograms.

    Notes
    -----
    `X` has the forms of `FisherVector`. An image, or cell, without local features has a histogram
    of zeros. Hard assignment takes the first of equally near words.

    k-means is that of `sklearn.cluster.KMeans` with `n_init=1` and k-means++ [4]_. A word without
    features moves to the feature that is furthest from its word. Inner products of bytes, with a
    bound of their errors, decide most comparisons. Passes skip features whose nearest word cannot
    have changed [5]_. Neither changes the result.

    References
    ----------
    .. [1] G. Csurka, C. Dance, L. Fan, J. Willamowski and C. Bray, "Visual categorization with bags
       of keypoints", ECCV workshop on statistical learning in computer vision, 2004.
    .. [2] J. van Gemert, C. Veenman, A. Smeulders and J.-M. Geusebroek, "Visual word ambiguity",
       IEEE Transactions on Pattern Analysis and Machine Intelligence, 2010.
    .. [3] S. Lazebnik, C. Schmid and J. Ponce, "Beyond bags of features: spatial pyramid matching
       for recognizing natural scene categories", CVPR 2006.
    .. [4] D. Arthur and S. Vassilvitskii, "k-means++: the advantages of careful seeding",
       SODA 2007.
    .. [5] G. Hamerly, "Making k-means even faster", SDM 2010.

    Examples
    --------
    >>> import numpy as np
    >>> from histrs.descriptors import BagOfVisualWords
    >>> rng = np.random.default_rng(0)
    >>> images = [rng.normal(size=(n, 3)) for n in (20, 35, 50)]
    >>> words = BagOfVisualWords(n_words=8, norm=None, random_state=0)
    >>> words.fit_transform(images).sum(axis=1)
    array([20., 35., 50.])
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_words": [Interval(Integral, 1, None, closed="left")],
        "assignment": [StrOptions({"hard", "soft"})],
        "bandwidth": [Interval(Real, 0, None, closed="neither"), None],
        "norm": [StrOptions({"l1", "l2"}), None],
        "pyramid": ["array-like"],
        "level_weights": ["array-like", None],
        "positions": ["boolean"],
        "max_samples": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        n_words: int = 100,
        *,
        assignment: Literal["hard", "soft"] = "hard",
        bandwidth: float | None = None,
        norm: Literal["l1", "l2"] | None = "l1",
        pyramid: Sequence[Grid] = (1,),
        level_weights: ArrayLike | None = None,
        positions: bool = False,
        max_samples: int = 100_000,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_words = n_words
        self.assignment = assignment
        self.bandwidth = bandwidth
        self.norm = norm
        self.pyramid = pyramid
        self.level_weights = level_weights
        self.positions = positions
        self.max_samples = max_samples
        self.random_state = random_state
        self.verbose = verbose

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Sets, y: object = None) -> Self:
        """Find the words; on an error nothing changes.

        Parameters
        ----------
        X : list of n_images arrays of shape (n_local, n_features)
            Local features.
        y : None
            Not used; there for pipelines.

        {self}

        Raises
        ------
        ValueError
            If local features differ in number of columns, are not finite, lie outside the image
            or are fewer than words; the message names the first.
        """
        with unchanged_on_error(self):
            self._cell_weights()
            local = LocalFeatures.of(self, X, positions=self.positions, reset=True)
            random = check_random_state(self.random_state)
            sample = local.sample(self.max_samples, random)
            self.words_, inertia = self._learn(sample, random)
            self.bandwidth_ = self._choose_bandwidth(inertia / len(sample))
        return self

    def transform(self, X: Sets) -> Float:
        """Count the words of every image.

        Parameters
        ----------
        X : list of n_images arrays of shape (n_local, n_features)
            Local features.

        Returns
        -------
        histograms : ndarray of shape (n_images, n_cells * n_words)
            By cells, level after level and row by row; non-negative. Float32 when the features
            are.
        """
        check_is_fitted(self)
        weights = self._cell_weights()
        grids = grids_of(self.pyramid, positions=self.positions)
        local = LocalFeatures.of(self, X, positions=self.positions, reset=False)
        if self.assignment == "hard":
            cells = local.encode(grids, self._nearest, self._count, len(self.words_))
        else:
            cells = local.encode(grids, self._parts, _sum, len(self.words_))
        histograms = (cells * weights[:, None]).reshape(len(cells), -1)
        if self.norm is not None:
            order = 1 if self.norm == "l1" else 2
            length = np.linalg.norm(histograms, ord=order, axis=1, keepdims=True)
            histograms /= np.where(length > 0, length, 1.0)
        return histograms.astype(local.features.dtype, copy=False)

    def _learn(self, sample: Float, random: np.random.RandomState) -> tuple[Float, float]:
        """Return the centres of k-means, and the sum of squared distances from them."""
        n_words = int(self.n_words)
        if len(sample) < n_words:
            raise ValueError(
                f"n_samples={len(sample)} local features should be >= n_words={n_words}: lower "
                "n_words, or give more images."
            )
        seed = int(random.randint(2**31 - 1))
        words, labels, inertia, n_iter = _histrs.k_means(
            np.ascontiguousarray(sample), n_words, seed, _MAX_ITER, _TOL, count_threads(None)
        )
        if self.verbose:
            print(f"BagOfVisualWords: {n_iter} iterations of k-means, inertia {inertia:.6g}")
        n_distinct = len(np.unique(labels))
        if n_distinct < n_words:
            warn(
                f"Only {n_distinct} of {n_words} words are nearest to a local feature, because too "
                "many features are equal; lower n_words.",
                ConvergenceWarning,
            )
        return words, inertia

    def _nearest(self, features: Float) -> NDArray[np.int32]:
        """Return the number of the nearest word of every feature, the first of equal ones."""
        dtype = np.result_type(features, self.words_)
        features, words = (
            np.ascontiguousarray(rows, dtype=dtype) for rows in (features, self.words_)
        )
        return _histrs.nearest_centers(features, words, count_threads(None))

    def _parts(self, features: Float) -> Float:
        """Return the part of every word in every feature."""
        # In double precision, which holds the squares of what single precision does.
        features, words = (rows.astype(np.float64, copy=False) for rows in (features, self.words_))
        distances = euclidean_distances(features, words, squared=True)
        distances -= distances.min(axis=1, keepdims=True)
        with may_overflow():  # of which the exponential is 0
            parts = np.exp(-0.5 * (np.sqrt(distances) / self.bandwidth_) ** 2)
        return np.asarray(parts / parts.sum(axis=1, keepdims=True))

    def _count(self, nearest: NDArray[Any], members: NDArray[np.intp]) -> Float:
        return np.bincount(nearest[members], minlength=len(self.words_)).astype(np.float64)

    def _choose_bandwidth(self, mean_square: float) -> float:
        if self.bandwidth is not None:
            return float(self.bandwidth)
        # Where every feature is a word, any width will do that keeps words apart.
        return float(np.sqrt(mean_square)) or float(np.finfo(np.float64).eps)

    def _cell_weights(self) -> Array:
        """Return the weight of every cell."""
        grids = grids_of(self.pyramid, positions=self.positions)
        cells = [rows * columns for rows, columns in grids]
        if self.level_weights is None:
            return np.ones(sum(cells))
        weights = np.asarray(self.level_weights, dtype=np.float64)
        if weights.shape != (len(cells),) or not np.all((weights >= 0) & np.isfinite(weights)):
            raise ValueError(
                f"level_weights = {self.level_weights!r}: give a finite, non-negative number for "
                f"each of the {len(cells)} levels of the pyramid."
            )
        return np.repeat(weights, cells)

    @property
    def _n_features_out(self) -> int:
        return len(self._cell_weights()) * len(self.words_)

    def __sklearn_tags__(self) -> Tags:
        """Return what scikit-learn may expect of the transformer."""
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _sum(parts: Float, members: NDArray[np.intp]) -> Float:
    return np.asarray(parts[members].sum(axis=0))
