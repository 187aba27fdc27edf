"""Fisher vectors of sets of local features."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin, _fit_context
from sklearn.mixture import GaussianMixture
from sklearn.utils import Tags
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from histrs._checks.scale import check_computed, exponent_of, may_overflow
from histrs._checks.validation import check_random_state, unchanged_on_error
from histrs._estimator import BaseEstimator, documented
from histrs.descriptors._docs import LOCAL_FEATURES
from histrs.descriptors._local_features import Float, Grid, LocalFeatures, Sets, grids_of


@documented(LOCAL_FEATURES)
class FisherVector(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    r"""One vector for a set of local features: how they depart from a mixture of Gaussians.

    A mixture of `n_components` Gaussians with diagonal covariances is fitted to the local
    features of all images. With :math:`\gamma_t(k)` the probability that feature :math:`x_t` of
    an image, one of `T`, belongs to component `k`, its vector has the entries

    .. math::

       \frac{1}{T \sqrt{w_k}} \sum_t \gamma_t(k) \frac{x_t - \mu_k}{\sigma_k}
       \quad\text{and}\quad
       \frac{1}{T \sqrt{2 w_k}} \sum_t \gamma_t(k)
       \left[ \frac{(x_t - \mu_k)^2}{\sigma_k^2} - 1 \right]

    for every component and column: the gradient of the log-likelihood by means and standard
    deviations, scaled by the Fisher information [1]_. Then every entry `z` becomes
    :math:`\mathrm{sign}(z) |z|^{power}`, and the vector is divided by its norm [2]_.

    Parameters
    ----------
    n_components : int, default=16
        Gaussians `K` of the mixture.
    power : float, default=0.5
        Exponent of the power normalisation, in (0, 1]; 1 means none.
    norm : {"l2"} or None, default="l2"
        Whether the vector of a cell has norm 1.
    pyramid : sequence of int or (int, int), default=(1,)
        Grids over the image, `(rows, columns)` or one number for both: every cell has a vector
        of its own, and they are joined. `(1, (3, 1))` is the whole image and three stripes.
    {positions}
    max_samples : int, default=100000
        Local features, drawn at random, that the mixture is fitted to.
    max_iter : int, default=100
        Iterations of the mixture, which warns when they do not suffice.
    random_state : int, RandomState instance or None, default=None
        For the sample and the mixture's start.
    verbose : int, default=0
        Above 0, the mixture of scikit-learn prints its iterations.

    Attributes
    ----------
    mean_, scale_ : ndarray of shape (n_described,)
        Means and standard deviations of the columns that are described, 1 for a constant one.
    mixture_ : GaussianMixture
        Scikit-learn's mixture of the features minus `mean_` over `scale_`, which makes the vectors
        independent of the columns' units.
    n_iter_ : int
        Iterations of the mixture.
    {n_features_in_}
    {feature_names_in_}

    See Also
    --------
    BagOfVisualWords : Counts instead, which are histograms.

    Notes
    -----
    `X` is a list with an array of shape `(n_local, n_features)` for every image, or a stack of
    shape `(n_images, n_local, n_features)`. Rows of a plain matrix are images of one local feature.
    A stack is refused if it looks like images: 8 rows and columns or more, neither more than twice
    the other. The same arrays are accepted as a list. scikit-learn's splitters and pipelines pass
    lists on as they are. From one long array with the number of the image of each row, in ascending
    order, make a list by ``np.split(features, np.flatnonzero(np.diff(image)) + 1)``. An image, or
    cell, without local features has a vector of zeros.

    References
    ----------
    .. [1] F. Perronnin and C. Dance, "Fisher kernels on visual vocabularies for image
       categorization", CVPR 2007.
    .. [2] F. Perronnin, J. Sánchez and T. Mensink, "Improving the Fisher kernel for large-scale
       image classification", ECCV 2010.

    Examples
    --------
    >>> import numpy as np
    >>> from histrs.descriptors import FisherVector
    >>> rng = np.random.default_rng(0)
    >>> images = [rng.normal(size=(n, 3)) for n in (20, 35, 50)]
    >>> FisherVector(n_components=4, random_state=0).fit_transform(images).shape
    (3, 24)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "power": [Interval(Real, 0, 1, closed="right")],
        "norm": [StrOptions({"l2"}), None],
        "pyramid": ["array-like"],
        "positions": ["boolean"],
        "max_samples": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        n_components: int = 16,
        *,
        power: float = 0.5,
        norm: Literal["l2"] | None = "l2",
        pyramid: Sequence[Grid] = (1,),
        positions: bool = False,
        max_samples: int = 100_000,
        max_iter: int = 100,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.power = power
        self.norm = norm
        self.pyramid = pyramid
        self.positions = positions
        self.max_samples = max_samples
        self.max_iter = max_iter
        self.random_state = random_state
        self.verbose = verbose

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Sets, y: object = None) -> Self:
        """Fit the mixture to local features of all images; on an error nothing changes.

        Parameters
        ----------
        X : list of n_images arrays of shape (n_local, n_features)
            Local features, also in the other forms of the notes.
        y : None
            Not used; there for pipelines.

        {self}

        Raises
        ------
        ValueError
            If local features differ in number of columns, are not finite, lie outside the image
            or are fewer than components; the message names the first.
        """
        with unchanged_on_error(self):
            grids_of(self.pyramid, positions=self.positions)
            local = LocalFeatures.of(self, X, positions=self.positions, reset=True)
            random = check_random_state(self.random_state)
            mixture = GaussianMixture(
                int(self.n_components),
                covariance_type="diag",
                max_iter=self.max_iter,
                verbose=int(self.verbose),
                random_state=random.randint(2**31 - 1),
            )
            sample = local.sample(self.max_samples, random).astype(np.float64, copy=False)
            self.mean_, scale = sample.mean(axis=0), sample.std(axis=0)
            self.scale_ = np.where(scale > 0, scale, 1.0)
            self.mixture_ = mixture.fit(self._standardize(sample))
            self.n_iter_ = self.mixture_.n_iter_
        return self

    def transform(self, X: Sets) -> Float:
        """Encode every image.

        Parameters
        ----------
        X : list of n_images arrays of shape (n_local, n_features)
            Local features, also in the other forms of the notes.

        Returns
        -------
        vectors : ndarray of shape (n_images, n_cells * 2 * n_components * n_described)
            By cells, level after level and row by row; within a cell the means of the first
            component, of the second, and so on, and then the standard deviations. `n_described` is
            the number of columns without positions. Float32 when the features are.

        Raises
        ------
        ValueError
            If the vector of an image overflows (the message names the image).
        """
        check_is_fitted(self)
        grids = grids_of(self.pyramid, positions=self.positions)
        local = LocalFeatures.of(self, X, positions=self.positions, reset=False)
        with may_overflow():
            cells = local.encode(grids, self._responsibilities, self._gradient, self._width)
            vectors = cells.reshape(len(cells), -1)
            vectors = vectors.astype(local.features.dtype, copy=False)
        check_computed(vectors, "The gradients")
        return vectors

    def _standardize(self, features: Float) -> Float:
        return np.asarray((features - self.mean_) / self.scale_)

    def _responsibilities(self, features: Float) -> tuple[Float, Float]:
        features = self._standardize(features)
        return features, self.mixture_.predict_proba(features)

    def _gradient(self, prepared: tuple[Float, Float], members: NDArray[np.intp]) -> Float:
        """Return the vector of some features, normalised."""
        features, responsibilities = prepared
        x, gamma = features[members], responsibilities[members]
        weights, means = self.mixture_.weights_[:, None], self.mixture_.means_
        variances = self.mixture_.covariances_
        counts = gamma.sum(axis=0)[:, None]
        sums, squares = gamma.T @ x, gamma.T @ x**2
        first = (sums - counts * means) / np.sqrt(variances)
        second = (squares - 2 * means * sums + counts * means**2) / variances - counts
        scale = len(x) * np.sqrt(weights)
        z = np.concatenate([(first / scale).ravel(), (second / (scale * np.sqrt(2))).ravel()])
        if self.power != 1:
            z = np.sign(z) * np.abs(z) ** self.power
        if self.norm != "l2":
            return z
        # Its squares may be beyond the range.
        z = np.ldexp(z, -exponent_of(z))
        length = float(np.linalg.norm(z))
        return np.asarray(z / length if length > 0 else z)

    @property
    def _width(self) -> int:
        return 2 * int(self.mixture_.means_.size)

    @property
    def _n_features_out(self) -> int:
        grids = grids_of(self.pyramid, positions=self.positions)
        return self._width * sum(rows * columns for rows, columns in grids)

    def __sklearn_tags__(self) -> Tags:
        """Return what scikit-learn may expect of the transformer."""
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
