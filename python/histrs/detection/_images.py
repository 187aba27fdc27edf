"""Images and boxes as arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from histrs._checks.sparse import refuse_sparse
from histrs._checks.validation import real_array
from histrs._typing import Array

Images: TypeAlias = Sequence[ArrayLike] | NDArray[Any]
Boxes: TypeAlias = Array

_SHAPES = "(rows, columns), (rows, columns, 3) or (rows, columns, 4)"
_CHANNELS = (1, 3, 4)


def check_images(images: Images) -> list[NDArray[np.float32]]:
    """Return images as arrays of shape (rows, columns, 1 or 3) in [0, 1]."""
    refuse_sparse(images, "images")
    shape = images.shape if isinstance(images, np.ndarray) and images.dtype != object else ()
    if len(shape) == 2 or (len(shape) == 3 and shape[2] in _CHANNELS):
        raise ValueError(f"images has shape {shape}, like one image: give a list, [image].")
    if isinstance(images, (str, bytes)) or not hasattr(images, "__len__"):
        raise ValueError(f"images is {type(images).__name__}: give a list of arrays.")
    if len(images) == 0:
        raise ValueError("images is empty: give at least one image.")
    return [check_image(image, f"images[{i}]") for i, image in enumerate(images)]


def check_image(image: ArrayLike, name: str) -> NDArray[np.float32]:
    """Return an image as an array of shape (rows, columns, 1 or 3) in [0, 1].

    Colours that are transparent are laid over white.
    """
    refuse_sparse(image, name)
    try:
        pixels = np.asarray(image)
    except ValueError as error:
        raise ValueError(f"{name} is not an array of pixels: {error}") from error
    pixels = pixels[..., None] if pixels.ndim == 2 else pixels
    if pixels.ndim != 3 or pixels.shape[2] not in _CHANNELS:
        raise ValueError(f"{name} has shape {np.shape(image)}: an image has shape {_SHAPES}.")
    if pixels.size == 0:
        raise ValueError(f"{name} has shape {np.shape(image)}: it has no pixels.")
    if pixels.dtype == np.uint8:
        pixels = pixels.astype(np.float32) / np.float32(255)
    elif pixels.dtype.kind == "f":
        _check_range(pixels, name)
        pixels = pixels.astype(np.float32)
    else:
        raise ValueError(
            f"{name} has dtype {pixels.dtype}: pixels are uint8, or floats in [0, 1]; convert by "
            "image.astype(np.uint8), or divide by the largest value there can be."
        )
    if pixels.shape[2] == 4:
        share = pixels[..., 3:]
        pixels = share * pixels[..., :3] + (1 - share)
    return np.ascontiguousarray(pixels)


def _check_range(pixels: NDArray[Any], name: str) -> None:
    good = (pixels >= 0) & (pixels <= 1)
    if good.all():
        return
    row, column, channel = np.argwhere(~good)[0]
    value = pixels[row, column, channel]
    if not np.isfinite(value):
        raise ValueError(f"{name}[{row}, {column}] = {value}: Input contains NaN or infinity.")
    raise ValueError(
        f"{name}[{row}, {column}] = {value}: pixels of dtype {pixels.dtype} are in [0, 1]; divide "
        "by 255 if they go up to that."
    )


def check_boxes(boxes: Any, images: list[NDArray[np.float32]]) -> list[Boxes]:
    """Return the boxes of each image, cut off at its borders."""
    refuse_sparse(boxes, "boxes")
    if not hasattr(boxes, "__len__") or len(boxes) != len(images):
        found = len(boxes) if hasattr(boxes, "__len__") else type(boxes).__name__
        raise ValueError(
            f"boxes has {found} entries for {len(images)} images: give one array of shape (n, 4) "
            "for each image, np.empty((0, 4)) for one without objects."
        )
    return [
        _check_boxes_of_one(own, image.shape[:2], f"boxes[{i}]")
        for i, (own, image) in enumerate(zip(boxes, images, strict=True))
    ]


def as_boxes(boxes: Any, name: str) -> Boxes:
    """Return boxes as an array of shape (n, 4), each with a positive area."""
    array = real_array(boxes, name)
    if array.size == 0:
        return np.empty((0, 4))
    if array.ndim != 2 or array.shape[1] != 4:
        raise ValueError(
            f"{name} has shape {array.shape}: boxes have shape (n, 4), (xmin, ymin, xmax, ymax)."
        )
    if not np.isfinite(array).all():
        row, column = np.argwhere(~np.isfinite(array))[0]
        raise ValueError(
            f"{name}[{row}, {column}] = {array[row, column]}: Input contains NaN or infinity."
        )
    bad = np.flatnonzero((array[:, 2:] <= array[:, :2]).any(axis=1))
    if len(bad):
        raise ValueError(
            f"{name}[{bad[0]}] = {array[bad[0]].tolist()}: a box is (xmin, ymin, xmax, ymax) with "
            "xmin < xmax and ymin < ymax."
        )
    return array


def _check_boxes_of_one(boxes: Any, shape: tuple[int, ...], name: str) -> Boxes:
    array = as_boxes(boxes, name)
    rows, columns = shape
    outside = (array[:, 0] >= columns) | (array[:, 1] >= rows) | (array[:, 2:] <= 0).any(axis=1)
    if outside.any():
        first = int(np.flatnonzero(outside)[0])
        raise ValueError(
            f"{name}[{first}] = {array[first].tolist()} lies outside of its image of {columns} x "
            f"{rows} pixels."
        )
    # Those that reach over a border are cut off there.
    return np.clip(array, 0, [columns, rows, columns, rows])
