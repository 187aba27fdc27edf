"""The detector as an estimator."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import _fit_context, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.frozen import FrozenEstimator
from sklearn.utils import Tags
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from histrs._checks.validation import check_random_state, count_threads, unchanged_on_error
from histrs._estimator import BaseEstimator, documented
from histrs._progress import StepProgress
from histrs._typing import Array
from histrs._warnings import warn
from histrs.detection._evaluation import average_precision, non_maximum_suppression
from histrs.detection._examples import (
    Image,
    Model,
    Settings,
    aspect_groups,
    described_cells,
    look,
    mirrored,
    root_sizes,
    without_weights,
)
from histrs.detection._hog import N_FEATURES
from histrs.detection._images import Boxes, Images, check_boxes, check_images
from histrs.detection._model import Component, Placements, part_boxes
from histrs.detection._training import MAX_PLANES, TOL, Training
from histrs.quantization import ProductQuantizer

# Scores that count for average precision: beyond the margin of the negatives.
_LOWEST = -1.0
# Placements of an image, the best ones, among which the ones to keep are chosen.
_MOST = 2000
# Cells that codebooks are learned from.
_CELLS = 40_000


@documented()
class PartDetector(BaseEstimator):
    r"""Detector of objects in images: a root filter and movable parts, learned on codes.

    An image becomes grids of cells, each described by the 31 numbers of :class:`HOGFeatures`. A
    :class:`~histrs.quantization.ProductQuantizer` replaces these by a few bytes ([1]_, section
    5.2). A filter scores a location `p` by look-ups,

    .. math:: \sum_{t} \sum_m T_{t m}[\mathrm{code}_m(p + t)].

    A component is a root, and parts at twice its resolution. Displacements `d` of parts cost
    :math:`b \cdot d + a \cdot d^2` [2]_. Components are groups of boxes by their ratio of width to
    height.

    Each round finds the best location of each object, and negatives above the margin. Cutting
    planes then solve

    .. math:: \min_w \frac12 |w|^2 + C \sum_i \max(0, 1 - y_i (w \cdot \phi_i + b)),

    for every component, in the inner product of the codewords.

    Parameters
    ----------
    n_components : int, default=1
        Number of components.
    n_parts : int, default=8
        Number of parts of a component, of 6 by 6 cells of half the size; 0 is a root alone.
    quantizer : ProductQuantizer, "default" or None, default="default"
        Makes codes of cells. A copy is fitted; a `sklearn.frozen.FrozenEstimator` keeps a fitted
        one. "default" has seven blocks of 128 codewords. None learns on features.
    cell_size : int, default=8
        Pixels of a side of a cell.
    levels_per_octave : int, default=6
        Number of sizes per factor of two.
    C : float, default=0.03
        Weight of a loss; raise it for few images.
    n_root_rounds : int, default=1
        Rounds with roots alone.
    n_part_rounds : int, default=2
        Rounds with parts.
    mirror : bool, default=True
        Whether to learn from mirror images.
    threshold : float, default=0.0
        Least score in `predict`.
    overlap : float, default=0.4
        Largest intersection over union of two predicted boxes.
    random_state : int, RandomState instance or None, default=None
        Draws cells and negatives.
    n_jobs : int or None, default=None
        Threads; None means every core. The result does not depend on it.
    verbose : int, default=0
        Above 0, a progress bar.

    Attributes
    ----------
    quantizer_ : ProductQuantizer or None
        The fitted quantizer.
    roots_ : list of ndarrays of shape (n_rows, n_columns, n_blocks, n_codes)
        Scores of codes in the cells of each root. Without a quantizer the last two lengths are 1
        and 31.
    parts_ : list of ndarrays of shape (n_parts, n_rows, n_columns, n_blocks, n_codes)
        The same for the parts.
    anchors_ : ndarray of shape (n_components, n_parts, 2)
        Locations of the parts, in cells of half the size from the root's corner.
    deformations_ : ndarray of shape (n_components, n_parts, 4)
        Costs of displacements: linear and quadratic, down and then across.
    intercepts_ : ndarray of shape (n_components,)
        Intercepts of the scores.
    n_negatives_ : ndarray of shape (n_components,)
        Hard negatives at the end.
    n_bytes_ : int
        Memory of the hard negatives.

    See Also
    --------
    average_precision : The measure of `score`.

    References
    ----------
    .. [1] A. Vedaldi and A. Zisserman, "Sparse kernel approximations for efficient classification
       and detection", CVPR 2012.
    .. [2] P. Felzenszwalb, R. Girshick, D. McAllester and D. Ramanan, "Object detection with
       discriminatively trained part-based models", PAMI 32(9), 2010.

    Examples
    --------
    >>> import numpy as np
    >>> from histrs.detection import PartDetector
    >>> from histrs.quantization import ProductQuantizer
    >>> rng = np.random.default_rng(0)
    >>> images, boxes = [], []
    >>> stripes = np.indices((40, 40)).sum(axis=0) // 10 % 2
    >>> for _ in range(12):
    ...     image = rng.random((96, 128)) * 0.2
    ...     x, y = rng.integers(8, [80, 48])
    ...     image[y : y + 40, x : x + 40] += 0.6 * stripes
    ...     images.append(image)
    ...     boxes.append([[x, y, x + 40, y + 40]])
    >>> codes = ProductQuantizer(2, 32, random_state=0)
    >>> detector = PartDetector(1, 0, codes, C=0.1, random_state=0).fit(images[:8], boxes[:8])
    >>> detector.score(images[8:], boxes[8:])
    1.0
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "n_parts": [Interval(Integral, 0, None, closed="left")],
        "quantizer": [ProductQuantizer, FrozenEstimator, StrOptions({"default"}), None],
        "cell_size": [Interval(Integral, 2, None, closed="left")],
        "levels_per_octave": [Interval(Integral, 1, None, closed="left")],
        "C": [Interval(Real, 0, None, closed="neither")],
        "n_root_rounds": [Interval(Integral, 0, None, closed="left")],
        "n_part_rounds": [Interval(Integral, 1, None, closed="left")],
        "mirror": ["boolean"],
        "threshold": [Interval(Real, None, None, closed="neither")],
        "overlap": [Interval(Real, 0, 1, closed="both")],
    }

    roots_: list[NDArray[np.float32]]
    parts_: list[NDArray[np.float32]]
    anchors_: NDArray[np.int64]
    deformations_: Array
    intercepts_: Array

    def __init__(
        self,
        n_components: int = 1,
        n_parts: int = 8,
        quantizer: ProductQuantizer | FrozenEstimator | Literal["default"] | None = "default",
        *,
        cell_size: int = 8,
        levels_per_octave: int = 6,
        C: float = 0.03,
        n_root_rounds: int = 1,
        n_part_rounds: int = 2,
        mirror: bool = True,
        threshold: float = 0.0,
        overlap: float = 0.4,
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.n_parts = n_parts
        self.quantizer = quantizer
        self.cell_size = cell_size
        self.levels_per_octave = levels_per_octave
        self.C = C
        self.n_root_rounds = n_root_rounds
        self.n_part_rounds = n_part_rounds
        self.mirror = mirror
        self.threshold = threshold
        self.overlap = overlap
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, images: Images, boxes: Sequence[ArrayLike]) -> Self:
        """Learn from images and the boxes of the objects in them; on an error nothing changes.

        Parameters
        ----------
        images : list of arrays of shape (rows, columns), (rows, columns, 3) or (rows, columns, 4)
            Images of any sizes: uint8, or floats in [0, 1]. Transparent pixels are laid over white.
        boxes : list of array-likes of shape (n_objects, 4)
            For each image its boxes `(xmin, ymin, xmax, ymax)`, in pixels from the upper left
            corner; what reaches over the border is cut off, and an image without objects has none.

        {self}

        Raises
        ------
        ValueError
            If an image, a box or a parameter is not what it must be, or there are fewer boxes than
            components; the message names the first.
        """
        pixels = check_images(images)
        own = check_boxes(boxes, pixels)
        all_boxes = np.concatenate(own)
        if len(all_boxes) < self.n_components:
            raise ValueError(
                f"boxes has {len(all_boxes)} boxes for n_components = {self.n_components}: a "
                "component is learned from at least one object; give images with objects and "
                "their boxes."
            )
        with unchanged_on_error(self):
            rng = check_random_state(self.random_state)
            self.quantizer_ = None
            self._learned = self.cell_size, self.levels_per_octave
            self.quantizer_ = self._fit_quantizer(pixels, rng)
            settings = self._settings()
            groups = aspect_groups(all_boxes, self.n_components)
            sizes = root_sizes(all_boxes, groups, self.cell_size)
            training = Training(
                [without_weights(size, settings.tail) for size in sizes], settings, float(self.C)
            )
            of_images = np.split(groups, np.cumsum([len(each) for each in own])[:-1])
            n_rounds = 1 + self.n_root_rounds + (self.n_part_rounds if self.n_parts else 0)
            with StepProgress("PartDetector", self.verbose, n_rounds) as progress:
                training.progress = progress
                self._train(training, pixels, own, of_images, rng)
            self._take(training)
        if len(self.roots_) < self.n_components:
            warn(
                f"{self.n_components - len(self.roots_)} of {self.n_components} components were "
                "left out, because they had no objects or no negatives; lower n_components, or "
                "give more images."
            )
        if training.gap > TOL:
            warn(
                f"the certified gap is {training.gap:.2g} of the objective after {MAX_PLANES} "
                f"cutting planes, more than {TOL}; lower C.",
                ConvergenceWarning,
            )
        return self

    def _fit_quantizer(
        self, images: list[Image], rng: np.random.RandomState
    ) -> ProductQuantizer | None:
        if self.quantizer is None:
            return None
        if isinstance(self.quantizer, FrozenEstimator):
            quantizer = self.quantizer.estimator
            check_is_fitted(quantizer)
            if (
                not isinstance(quantizer, ProductQuantizer)
                or quantizer.n_features_in_ != N_FEATURES
            ):
                raise ValueError(
                    f"quantizer = {self.quantizer!r}: give a ProductQuantizer that was fitted to "
                    f"the {N_FEATURES} features of cells."
                )
            return quantizer
        cells = described_cells(images, self._settings(), _CELLS, rng)
        if not len(cells):
            raise ValueError(
                "images are all too small to learn codes of cells from: one needs at least "
                f"{1.5 * self.cell_size:g} pixels a side; lower cell_size, or enlarge the images."
            )
        if self.quantizer == "default":
            seed = int(rng.randint(np.iinfo(np.int32).max))
            quantizer = ProductQuantizer(7, 128, random_state=seed, n_jobs=self.n_jobs)
        else:
            quantizer = clone(self.quantizer)
        fitted: ProductQuantizer = quantizer.fit(cells)
        return fitted

    def _train(
        self,
        training: Training,
        images: list[Image],
        boxes: list[Boxes],
        groups: list[NDArray[np.intp]],
        rng: np.random.RandomState,
    ) -> None:
        def labelled_images() -> Iterable[tuple[Image, Boxes]]:
            return mirrored(images, boxes) if self.mirror else zip(images, boxes, strict=True)

        seen = [own for own in groups for _ in range(1 + bool(self.mirror))]
        training.begin(labelled_images(), seen, rng)
        if not training.components:
            raise ValueError(
                "no box is near a location that a root can have: objects are smaller than "
                f"{4 * self.cell_size**2} pixels, or cut off; lower cell_size, or enlarge the "
                "images."
            )
        training.learn()
        for _ in range(self.n_root_rounds):
            training.mine(labelled_images())
            training.learn()
        if self.n_parts:
            training.add_parts(self.n_parts)
            for number in range(self.n_part_rounds):
                training.mine(labelled_images())
                if number == 0 and (short := training.short()):
                    # Good roots leave none beyond the margin; parts learn from the best locations.
                    training.mine(labelled_images(), short)
                training.learn()
        training.drop_unlearned()
        if not training.components:
            raise ValueError(
                "no location in the images is away from the objects, so that there are no "
                "negatives to learn from; give images with more around the objects, or without "
                "objects."
            )

    def _take(self, training: Training) -> None:
        components = training.components
        self.roots_ = [component.root for component in components]
        self.parts_ = [component.parts for component in components]
        self.anchors_ = np.stack([component.anchors for component in components])
        self.deformations_ = np.stack([component.deformations for component in components])
        self.intercepts_ = np.array([component.bias for component in components])
        self.n_negatives_ = np.array([len(own) for own in training.negatives])
        self.n_bytes_ = sum(own.n_bytes for own in training.negatives)

    def _settings(self) -> Settings:
        cell_size, levels_per_octave = self._learned
        n_threads = count_threads(self.n_jobs)
        return Settings(cell_size, levels_per_octave, self.quantizer_, n_threads)

    def predict(self, images: Images) -> tuple[list[Boxes], list[NDArray[np.float32]]]:
        """Find the objects in images.

        Parameters
        ----------
        images : list of arrays of shape (rows, columns), (rows, columns, 3) or (rows, columns, 4)
            Images as in `fit`.

        Returns
        -------
        boxes : list of ndarrays of shape (n_found, 4)
            For each image boxes `(xmin, ymin, xmax, ymax)`, the best first, cut off at its borders.
        scores : list of ndarrays of shape (n_found,)
            Their scores, at least `threshold`.
        """
        found = self._find(images, float(self.threshold))
        return [own.boxes for own in found], [own.scores for own in found]

    def predict_parts(self, images: Images) -> list[Boxes]:
        """Find where the parts of the objects are.

        Parameters
        ----------
        images : list of arrays of shape (rows, columns), (rows, columns, 3) or (rows, columns, 4)
            Images as in `fit`.

        Returns
        -------
        parts : list of ndarrays of shape (n_found, n_parts, 4)
            The boxes of the parts of each object that `predict` finds, in its order; they may reach
            over the border.
        """
        found = self._find(images, float(self.threshold))
        components, scales = self._components(), self._scale_of
        return [part_boxes(own.numbers, components, scales, self._learned[0]) for own in found]

    def score(self, images: Images, boxes: Sequence[ArrayLike]) -> float:
        """Return the average precision by the rule of the PASCAL challenge.

        All that scores above -1, the margin of the negatives, counts, whatever `threshold` is.

        Parameters
        ----------
        images : list of arrays of shape (rows, columns), (rows, columns, 3) or (rows, columns, 4)
            Images as in `fit`.
        boxes : list of array-likes of shape (n_objects, 4)
            The objects in each, as in `fit`.

        Returns
        -------
        precision : float
            Between 0 and 1; see `average_precision`.
        """
        truth = check_boxes(boxes, check_images(images))
        found = self._find(images, _LOWEST)
        return average_precision([own.boxes for own in found], [own.scores for own in found], truth)

    def _find(self, images: Images, threshold: float) -> list[Placements]:
        check_is_fitted(self)
        pixels = check_images(images)
        model = Model(self._components(), self._settings())
        return [self._find_in(image, model, threshold) for image in pixels]

    def _find_in(self, image: Image, model: Model, threshold: float) -> Placements:
        _, found = look(image, model, threshold)
        found = found.some(np.argsort(-found.scores, kind="stable")[:_MOST])
        found = found.cut_off(image.shape)
        kept = non_maximum_suppression(found.boxes, found.scores, overlap=self.overlap)
        return found.some(kept)

    def _components(self) -> list[Component]:
        arrays = zip(
            self.roots_,
            self.intercepts_.tolist(),
            self.parts_,
            self.anchors_,
            self.deformations_,
            strict=True,
        )
        return [Component(*each) for each in arrays]

    def _scale_of(self, level: NDArray[Any]) -> Array:
        """Return the scales of levels of roots."""
        octave = self._learned[1] if self.anchors_.shape[1] else 0
        return np.asarray(2.0 ** (-(level - octave) / self._learned[1]))

    def __sklearn_tags__(self) -> Tags:
        """Return what scikit-learn may expect of the estimator."""
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.three_d_array = True
        tags.target_tags.required = True
        return tags
