"""Histograms of the visual words in sets of local features."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import (
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    _fit_context,
)
from sklearn.cluster import KMeans
from sklearn.metrics import pairwise_distances_argmin
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.utils import Tags
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from histrs import _histrs
from histrs._estimator import BaseEstimator
from histrs._scale import may_overflow
from histrs._validation import check_random_state, count_threads, to_core, unchanged_on_error
from histrs.descriptors._local_features import Float, Grid, LocalFeatures, Sets, grids_of

# Squares of larger numbers overflow in single precision.
_LARGEST = 1e15
# Words that codes of 8 and of 16 bits number.
_FEW_CODES, _MOST_CODES = 2**8, 2**16


class BagOfVisualWords(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    r"""A histogram for a set of local features: how many are nearest to each of some words.

    The words :math:`c_1, \ldots, c_K` are the centres of k-means on the local features of all
    images [1]_. A local feature `x` counts for the nearest word, or, with "soft" assignment,
    for all of them in parts [2]_

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
        What the histogram of an image, all cells together, is divided by; None leaves counts.
    pyramid : sequence of int or (int, int), default=(1,)
        Grids over the image, `(rows, columns)` or one number for both; `(1, 2, 4)` is the
        pyramid of [3]_.
    level_weights : array-like of shape (n_levels,), default=None
        What the counts of each level are multiplied by before `norm`; None is 1. Those of [3]_,
        for the intersection kernel, are `(1/4, 1/4, 1/2)` for `(1, 2, 4)`.
    positions : bool, default=False
        Whether the first two columns of the local features are their places, down and right, in
        [0, 1]. They are not described, and only `pyramid` needs them.
    max_samples : int, default=100000
        Local features, drawn at random, that k-means sees.
    random_state : int, RandomState instance or None, default=None
        For the sample and k-means.
    verbose : int, default=0
        Above 0, the k-means of scikit-learn prints its iterations.

    Attributes
    ----------
    words_ : ndarray of shape (n_words, n_described)
        The words.
    bandwidth_ : float
        The :math:`\sigma` of soft assignment, also where assignment is hard.
    n_features_in_ : int
        Number of columns of the local features.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the columns, when `X` had string column names.

    See Also
    --------
    FisherVector : Keeps more of the features, in longer vectors.
    histrs.svm.IntersectionSVC : A classifier of histograms.

    Notes
    -----
    The forms of `X` are those of `FisherVector`. An image, or cell, without local features has a
    histogram of zeros. Hard assignment measures distances in the precision of the features; of
    words that are equally near it takes the first.

    References
    ----------
    .. [1] G. Csurka, C. Dance, L. Fan, J. Willamowski and C. Bray, "Visual categorization with bags
       of keypoints", ECCV workshop on statistical learning in computer vision, 2004.
    .. [2] J. van Gemert, C. Veenman, A. Smeulders and J.-M. Geusebroek, "Visual word ambiguity",
       IEEE Transactions on Pattern Analysis and Machine Intelligence, 2010.
    .. [3] S. Lazebnik, C. Schmid and J. Ponce, "Beyond bags of features: spatial pyramid matching
       for recognizing natural scene categories", CVPR 2006.

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
        "random_state": ["random_state"],
        "verbose": ["verbose"],
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

        Returns
        -------
        self : BagOfVisualWords
            The fitted transformer.

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
            if sample.dtype == np.float32 and np.max(np.abs(sample), initial=0.0) > _LARGEST:
                sample = sample.astype(np.float64)
            means = KMeans(
                int(self.n_words), n_init=1, verbose=int(self.verbose), random_state=random
            ).fit(sample)
            self.words_ = means.cluster_centers_.astype(local.features.dtype, copy=False)
            self.bandwidth_ = self._choose_bandwidth(float(means.inertia_) / len(sample))
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

    def _nearest(self, features: Float) -> NDArray[Any]:
        """Return the number of the nearest word of every feature, the first of equal ones."""
        dtype = np.result_type(features, self.words_)
        features, words = (rows.astype(dtype, copy=False) for rows in (features, self.words_))
        if len(words) > _MOST_CODES:
            nearest: NDArray[Any] = pairwise_distances_argmin(features, words)
            return nearest
        offsets = np.array([0, words.shape[1]], dtype=np.int64)
        is_wide = len(words) > _FEW_CODES
        codes = _histrs.quantization_encode(
            to_core(features), words[None], offsets, "euclidean", is_wide, count_threads(None)
        )
        return codes[:, 0]

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

    def _cell_weights(self) -> NDArray[np.float64]:
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
