"""How a detector learns: codes of cells, then roots, then parts, from ever harder negatives."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import _fit_context, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import check_is_fitted

from histrs._checks.validation import check_random_state, count_threads, unchanged_on_error
from histrs._estimator import BaseEstimator
from histrs._progress import StepProgress
from histrs._typing import Array
from histrs._warnings import warn
from histrs.detection._examples import (
    Budget,
    Image,
    Settings,
    aspect_groups,
    described_cells,
    mirrored,
    root_sizes,
    without_weights,
)
from histrs.detection._hog import N_FEATURES
from histrs.detection._images import Boxes, Images, check_boxes, check_images
from histrs.detection._training import Training
from histrs.quantization import ProductQuantizer

# Cells that codebooks are learned from.
_CELLS = 40_000


class DetectorLearning(BaseEstimator):
    """Learns the components of a detector from images and boxes."""

    n_components: int
    n_parts: int
    quantizer: ProductQuantizer | FrozenEstimator | Literal["default"] | None
    cell_size: int
    part_shape: tuple[int, int]
    levels_per_octave: int
    C: float
    n_root_rounds: int
    n_part_rounds: int
    max_negatives: int
    mirror: bool
    tol: float
    max_iter: int
    random_state: int | np.random.RandomState | None
    n_jobs: int | None
    verbose: int
    roots_: list[NDArray[np.float32]]
    parts_: list[NDArray[np.float32]]
    anchors_: NDArray[np.int64]
    deformations_: Array
    intercepts_: Array

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, images: Images, boxes: Sequence[ArrayLike]) -> Self:
        """Learn from images and the boxes of the objects in them; on an error nothing changes.

        Parameters
        ----------
        images : list of arrays of shape (rows, columns), (rows, columns, 3) or (rows, columns, 4)
            Images of any sizes: uint8, or floats in [0, 1]. What is transparent is laid over white.
        boxes : list of array-likes of shape (n_objects, 4)
            For each image its boxes `(xmin, ymin, xmax, ymax)`, in pixels from the upper left
            corner; what reaches over the border is cut off, and an image without objects has none.

        Returns
        -------
        self : PartDetector
            The fitted detector.

        Raises
        ------
        ValueError
            If an image, a box or a parameter is not what it must be, or there are fewer boxes than
            components; the message names the first.
        """
        pixels = check_images(images)
        own = check_boxes(boxes, pixels)
        part_shape = self._check_part_shape()
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
                [without_weights(size, settings.tail) for size in sizes],
                settings,
                Budget(self.C, self.max_negatives, self.tol, self.max_iter),
            )
            of_images = np.split(groups, np.cumsum([len(each) for each in own])[:-1])
            n_rounds = 1 + self.n_root_rounds + (self.n_part_rounds if self.n_parts else 0)
            with StepProgress("PartDetector", self.verbose, n_rounds) as progress:
                training.progress = progress
                self._train(training, pixels, own, of_images, rng, part_shape)
            self._take(training)
        if len(self.roots_) < self.n_components:
            warn(
                f"{self.n_components - len(self.roots_)} of {self.n_components} components were "
                "left out, as no object was nearest to them, or no location was a negative of "
                "theirs; lower n_components, or give more images."
            )
        if training.gap > self.tol:
            warn(
                f"the certified gap is {training.gap:.2g} of the objective after {self.max_iter} "
                f"cutting planes, more than tol = {self.tol}; raise max_iter or tol, or lower C.",
                ConvergenceWarning,
            )
        return self

    def _check_part_shape(self) -> tuple[int, int]:
        shape: tuple[Any, ...] = tuple(self.part_shape)
        if len(shape) != 2 or not all(isinstance(n, (int, np.integer)) and n >= 1 for n in shape):
            raise ValueError(
                f"part_shape = {self.part_shape!r}: it is two positive numbers of cells, (rows, "
                "columns)."
            )
        return int(shape[0]), int(shape[1])

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
                    f"quantizer = {self.quantizer!r}: a fitted one is a ProductQuantizer of the "
                    f"{N_FEATURES} features of a cell."
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
        part_shape: tuple[int, int],
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
            training.add_parts(self.n_parts, part_shape)
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
