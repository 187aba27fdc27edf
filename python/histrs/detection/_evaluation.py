"""How good detections are, and which of several that overlap are kept."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from histrs._checks.numbers import numbers_checked
from histrs._checks.sparse import refuse_sparse
from histrs._checks.validation import real_array
from histrs.detection._images import Boxes, as_boxes


def overlaps(boxes: Boxes, others: Boxes) -> Boxes:
    """Return the area of the intersection over that of the union, of all pairs."""
    low = np.maximum(boxes[:, None, :2], others[None, :, :2])
    high = np.minimum(boxes[:, None, 2:], others[None, :, 2:])
    shared = np.prod(np.maximum(high - low, 0), axis=2)
    areas, other_areas = (np.prod(b[:, 2:] - b[:, :2], axis=1) for b in (boxes, others))
    union: Boxes = areas[:, None] + other_areas - shared
    return np.asarray(shared / union)


@numbers_checked
def non_maximum_suppression(
    boxes: ArrayLike, scores: ArrayLike, *, overlap: float = 0.5
) -> NDArray[np.intp]:
    """Return which boxes are kept: none overlaps a kept one of a higher score.

    Parameters
    ----------
    boxes : array-like of shape (n, 4)
        Boxes `(xmin, ymin, xmax, ymax)`.
    scores : array-like of shape (n,)
        Their scores.
    overlap : float, default=0.5
        The largest ratio of the areas of intersection and union of two boxes that are kept.

    Returns
    -------
    kept : ndarray of shape (n_kept,)
        Numbers of boxes, the highest score first; of equal scores the first box.

    Examples
    --------
    >>> from histrs.detection import non_maximum_suppression
    >>> boxes = [[0, 0, 10, 10], [1, 0, 11, 10], [20, 0, 30, 10]]
    >>> non_maximum_suppression(boxes, [0.5, 0.9, 0.1])
    array([1, 2])
    """
    boxes = as_boxes(boxes, "boxes")
    scores = _check_scores(scores, len(boxes), "scores")
    if not 0 <= overlap <= 1:
        raise ValueError(f"overlap = {overlap}: must be in [0, 1].")
    rest = np.argsort(-scores, kind="stable")
    kept = []
    while len(rest):
        best, rest = rest[0], rest[1:]
        kept.append(best)
        if len(rest):
            rest = rest[overlaps(boxes[best : best + 1], boxes[rest])[0] <= overlap]
    return np.array(kept, dtype=np.intp)


@numbers_checked
def average_precision(
    boxes: Sequence[ArrayLike],
    scores: Sequence[ArrayLike],
    true_boxes: Sequence[ArrayLike],
    *,
    overlap: float = 0.5,
) -> float:
    """Return the average precision of detections by the rule of the PASCAL challenge.

    Detections of all images are taken in the order of their scores. One is right if the true box
    that it overlaps most is not yet found, and the intersection is more than `overlap` of the
    union. The result is the area under precision against recall, each precision raised to the
    largest at the same or a higher recall [1]_.

    Parameters
    ----------
    boxes : sequence of n_images array-likes of shape (n_detections, 4)
        Detections `(xmin, ymin, xmax, ymax)`.
    scores : sequence of n_images array-likes of shape (n_detections,)
        Their scores.
    true_boxes : sequence of n_images array-likes of shape (n_objects, 4)
        The objects.
    overlap : float, default=0.5
        Overlap above which a detection is right.

    Returns
    -------
    precision : float
        Between 0 and 1.

    References
    ----------
    .. [1] M. Everingham, L. Van Gool, C. Williams, J. Winn and A. Zisserman, "The PASCAL visual
       object classes (VOC) challenge", IJCV 88(2), 2010; the area as from 2010 on.

    Examples
    --------
    >>> from histrs.detection import average_precision
    >>> found = [[[0, 0, 10, 10], [50, 50, 60, 60]], [[0, 0, 10, 10]]]
    >>> truth = [[[0, 0, 10, 11]], [[0, 0, 10, 10]]]
    >>> round(average_precision(found, [[0.9, 0.8], [0.7]], truth), 3)
    0.833
    """
    for argument, name in ((boxes, "boxes"), (scores, "scores"), (true_boxes, "true_boxes")):
        refuse_sparse(argument, name)
    if not len(boxes) == len(scores) == len(true_boxes):
        raise ValueError(
            f"boxes, scores and true_boxes are of {len(boxes)}, {len(scores)} and "
            f"{len(true_boxes)} images: give one entry for each image."
        )
    if not 0 <= overlap < 1:
        raise ValueError(f"overlap = {overlap}: must be in [0, 1).")
    truth = [as_boxes(own, f"true_boxes[{i}]") for i, own in enumerate(true_boxes)]
    n_objects = sum(map(len, truth))
    if n_objects == 0:
        raise ValueError("true_boxes has no box: average precision needs at least one object.")
    images, best, objects, all_scores = [], [], [], []
    for i, own in enumerate(boxes):
        found = as_boxes(own, f"boxes[{i}]")
        all_scores.append(_check_scores(scores[i], len(found), f"scores[{i}]"))
        images.append(np.full(len(found), i))
        shared = overlaps(found, truth[i]) if len(truth[i]) else np.zeros((len(found), 1))
        best.append(shared.max(axis=1, initial=0.0))
        objects.append(shared.argmax(axis=1))
    order = np.argsort(-np.concatenate(all_scores), kind="stable")
    image, share, object_ = (np.concatenate(x)[order] for x in (images, best, objects))
    taken = [np.zeros(len(own), dtype=bool) for own in truth]
    right = np.zeros(len(order), dtype=bool)
    for k in np.flatnonzero(share > overlap):
        right[k] = not taken[image[k]][object_[k]]
        taken[image[k]][object_[k]] = True
    precision = np.cumsum(right) / np.arange(1, len(right) + 1)
    envelope = np.maximum.accumulate(precision[::-1])[::-1]
    return float(envelope[right].sum() / n_objects)


def _check_scores(scores: ArrayLike, n: int, name: str) -> Boxes:
    array = real_array(scores, name).reshape(-1) if n == 0 else real_array(scores, name)
    if array.shape != (n,):
        raise ValueError(f"{name} has shape {array.shape}: give one score for each of {n} boxes.")
    if np.isnan(array).any():
        raise ValueError(
            f"{name}[{np.flatnonzero(np.isnan(array))[0]}] = nan: give a number for each box."
        )
    return array
