"""Histograms of oriented gradients."""

from __future__ import annotations

from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import TransformerMixin, _fit_context
from sklearn.utils import Tags
from sklearn.utils._param_validation import Interval

from histrs import _histrs
from histrs._checks.validation import count_threads
from histrs._estimator import BaseEstimator
from histrs.detection._images import Images, check_image, check_images

N_FEATURES = 31


class HOGFeatures(TransformerMixin, BaseEstimator):
    r"""Histograms of oriented gradients: 31 numbers for each cell of an image.

    A cell has `cell_size` by `cell_size` pixels. It sums the lengths of the gradients around its
    centre: :math:`h_o` for each of 18 directions, and :math:`u_o = h_o + h_{o+9}` for each of nine
    directions without a sign. A pixel counts for the four nearest cells, by bilinear weights. Four
    blocks of two by two cells contain the cell. The energy of block `k` is :math:`\sum_o u_o^2`,
    summed over its cells. With the factors :math:`n_k = (\mathrm{energy}_k + 10^{-4})^{-1/2}`, the
    features are [1]_ [2]_

    ==========  =====================================================  ======
    columns     formula                                                number
    ==========  =====================================================  ======
    0 to 17     :math:`\frac12 \sum_k \min(h_o n_k, 0.2)`              18
    18 to 26    :math:`\frac12 \sum_k \min(u_o n_k, 0.2)`              9
    27 to 30    :math:`\frac1{\sqrt{18}} \sum_o \min(h_o n_k, 0.2)`    4
    ==========  =====================================================  ======

    Parameters
    ----------
    cell_size : int, default=8
        Pixels of a side of a cell.
    n_jobs : int or None, default=None
        Threads; None means every core. The result does not depend on it.

    See Also
    --------
    PartDetector : Finds objects by these features.

    Notes
    -----
    An image has one cell for each `cell_size` pixels of its sides, rounded, and at least one. At a
    border, gradients are one-sided differences. A block that reaches over the border has the
    border's cells twice. In colour, a pixel has the longest gradient of its channels.

    References
    ----------
    .. [1] N. Dalal and B. Triggs, "Histograms of oriented gradients for human detection", CVPR
       2005.
    .. [2] P. Felzenszwalb, R. Girshick, D. McAllester and D. Ramanan, "Object detection with
       discriminatively trained part-based models", PAMI 32(9), 2010.

    Examples
    --------
    >>> import numpy as np
    >>> from histrs.detection import HOGFeatures
    >>> image = np.tile(np.linspace(0, 1, 48), (32, 1))
    >>> HOGFeatures().transform([image]).shape
    (1, 744)
    >>> (cells,) = HOGFeatures().cells([image])
    >>> cells.shape
    (4, 6, 31)
    >>> int(cells[1, 1, :18].argmax())
    0
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "cell_size": [Interval(Integral, 1, None, closed="left")]
    }

    def __init__(self, cell_size: int = 8, *, n_jobs: int | None = None) -> None:
        self.cell_size = cell_size
        self.n_jobs = n_jobs

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Images, y: object = None) -> Self:
        """Look at images; there is nothing to learn.

        Parameters
        ----------
        X : list of arrays of shape (rows, columns), (rows, columns, 3) or (rows, columns, 4)
            Images.
        y : None
            Not used.

        Returns
        -------
        self : HOGFeatures
            The transformer.
        """
        check_images(X)
        return self

    def transform(self, X: Images) -> NDArray[np.float32]:
        """Describe images of one size by rows, which every estimator takes.

        Parameters
        ----------
        X : list of arrays of shape (rows, columns), (rows, columns, 3) or (rows, columns, 4)
            Images with the same number of cells: uint8, or floats in [0, 1].

        Returns
        -------
        features : ndarray of shape (n_images, n_rows * n_columns * 31)
            The features of the cells of each image, one cell after the other.

        Raises
        ------
        ValueError
            If an image has other cells than the first.
        """
        cells = self.cells(X)
        for i, part in enumerate(cells):
            if part.shape != cells[0].shape:
                raise ValueError(
                    f"images[{i}] has {part.shape[0]} x {part.shape[1]} cells, and images[0] "
                    f"{cells[0].shape[0]} x {cells[0].shape[1]}: make images of one size, or call "
                    "cells."
                )
        return np.stack([part.ravel() for part in cells])

    def cells(self, X: Images) -> list[NDArray[np.float32]]:
        """Describe the cells of images of any sizes.

        Parameters
        ----------
        X : list of arrays of shape (rows, columns), (rows, columns, 3) or (rows, columns, 4)
            Images of any sizes: uint8, or floats in [0, 1]. Transparent pixels are laid over white.

        Returns
        -------
        features : list of ndarrays of shape (n_rows, n_columns, 31)
            The features of the cells of each image.
        """
        self._validate_params()
        return [self.pyramid(image, [1.0])[0] for image in check_images(X)]

    def pyramid(self, image: ArrayLike, scales: ArrayLike) -> list[NDArray[np.float32]]:
        """Describe an image at many scales.

        Parameters
        ----------
        image : array-like of shape (rows, columns), (rows, columns, 3) or (rows, columns, 4)
            The image.
        scales : array-like of shape (n_levels,)
            Positive scales; the image is made so many times as large, above 1 too. Below, pixels
            are averaged.

        Returns
        -------
        levels : list of ndarrays of shape (n_rows, n_columns, 31)
            The features of the cells at each scale.
        """
        self._validate_params()
        pixels = check_image(image, "image")
        sizes = np.atleast_1d(np.asarray(scales, dtype=np.float64))
        if sizes.size == 0:
            raise ValueError("scales is empty: give at least one positive scale.")
        cells, shapes = _histrs.hog_pyramid(
            pixels, self.cell_size, sizes, 0, count_threads(self.n_jobs)
        )
        edges = np.cumsum([rows * columns for rows, columns in shapes])[:-1]
        return [
            part.reshape(*shape, N_FEATURES)
            for part, shape in zip(np.split(cells, edges), shapes, strict=True)
        ]

    def __sklearn_tags__(self) -> Tags:
        """Return what scikit-learn may expect of the estimator."""
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.three_d_array = True
        tags.requires_fit = False
        return tags
