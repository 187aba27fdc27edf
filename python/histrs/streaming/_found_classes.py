"""Moments with targets of classes that are found as rows are read."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from histrs._weights import classes_of
from histrs.streaming._moments import Moments
from histrs.streaming._rows import n_columns
from histrs.streaming._source import RowSource, in_chunk


def moments_of_classes(source: RowSource) -> tuple[NDArray[Any], Moments]:
    """Return the classes of all rows, and moments with the targets that `SignedTargets` makes.

    A class that comes late had the target -1 in all rows before, which adds nothing to sums about
    the mean. So one pass is enough.
    """
    moments: Moments | None = None
    found: NDArray[Any] | None = None
    for number, (Z, labels, weights) in enumerate(source.chunks("moments")):
        with in_chunk(number, source):
            moments = moments or Moments(n_columns(Z))
            targets = None
            if labels is not None:
                labels = np.asarray(labels)
                if labels.ndim != 1:
                    raise ValueError(f"Y has shape {labels.shape}: expected a class for each row.")
                here = classes_of(labels)
                found = here[:0] if found is None else found
                new = here[~np.isin(here, found)]
                found = np.concatenate([found, new])
                moments._choose_targets(np.append(np.arange(moments.n_targets), -np.ones(len(new))))
                targets = np.where(labels[:, None] == found, 1.0, -1.0)
            moments._add(Z, targets, weights)
            moments.feature_names = source.feature_names
    if moments is None or found is None:
        raise ValueError("there are no rows with classes: give Y, or chunks (Z, Y).")
    classes, places = np.unique(found, return_index=True)
    moments._choose_targets(places[1:] if len(places) == 2 else places)
    return classes, moments
