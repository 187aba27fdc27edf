"""Classes as targets of regression, and from scores to classes and their probabilities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from histrs._calibration import Readout, as_rows, fit_calibration, likely_inverse_temperature
from histrs._typing import Array

# Rows that probabilities are learned from: one number, or one for each pair of classes.
TEMPERATURE_ROWS, SOFTMAX_ROWS = 2000, 5000


@dataclass(frozen=True)
class SignedTargets:
    """Targets of classes: 1 for the class of a row, -1 for others; of two, for the second alone."""

    classes: NDArray[Any]

    def __call__(self, labels: ArrayLike) -> Array:
        labels = np.asarray(labels)
        if labels.ndim != 1:
            raise ValueError(f"Y has shape {labels.shape}: expected a class for each row.")
        unknown = np.flatnonzero(~np.isin(labels, self.classes))
        if len(unknown):
            raise ValueError(
                f"Y[{unknown[0]}] = {labels.tolist()[unknown[0]]!r} is not one of the "
                f"{len(self.classes)} classes; give all of them."
            )
        signs = np.where(labels[:, None] == self.classes, 1.0, -1.0)
        return signs[:, 1:] if len(self.classes) == 2 else signs


class IndicatorTargets:
    """Targets of labels of which a row may have several: 1 for those that it has, -1 for others."""

    def __call__(self, indicator: ArrayLike) -> Array:
        return np.where(np.asarray(indicator) > 0, 1.0, -1.0)


class LeftOut(NamedTuple):
    """Scores of rows by models of all others, their signed targets and their weights.

    `copies` is how many rows each stands for.
    """

    scores: Array
    targets: Array
    weights: Array
    copies: Array

    @property
    def indices(self) -> NDArray[np.intp]:
        """The indices of the classes of the rows."""
        binary = self.targets.shape[1] == 1
        return (self.targets[:, 0] > 0).astype(np.intp) if binary else self.targets.argmax(axis=1)

    def labels(self) -> list[LeftOut]:
        """Return the same of each label alone."""
        columns = range(self.targets.shape[1])
        return [
            self._replace(scores=self.scores[:, [k]], targets=self.targets[:, [k]]) for k in columns
        ]


def inverse_temperature_of(left_out: LeftOut) -> float:
    """Return what scores are multiplied with so that their softmax is most likely right.

    Of two classes there is one score, against 0 for the first.
    """
    scores = left_out.scores
    scores = np.hstack([np.zeros_like(scores), scores]) if scores.shape[1] == 1 else scores
    distances = scores.max(axis=1, keepdims=True) - scores
    return likely_inverse_temperature(
        distances, left_out.indices, left_out.weights, left_out.copies
    )


def softmax_of(left_out: LeftOut) -> Readout:
    """Return the map from scores to logits that is most likely right."""
    weights = as_rows(left_out.weights, left_out.copies)
    return fit_calibration(left_out.scores, left_out.indices, weights=weights)


def logistic_of(left_out: LeftOut) -> Readout:
    """Return the map from scores to logits of labels, with a slope and an offset for each."""
    readouts = [softmax_of(label) for label in left_out.labels()]
    slopes = [float(readout.matrix[0, 0]) for readout in readouts]
    return Readout(np.diag(slopes), np.array([float(readout.offset[0]) for readout in readouts]))


class HighestScores:
    """The highest scores of each class, gathered in chunks, in memory of their number alone."""

    def __init__(self, rank: int) -> None:
        self._rank = rank
        self._highest: Array | None = None
        # Rows that each stands for, where it is not one.
        self._copies: Array | None = None

    def update(self, scores: Array, copies: Array | None = None) -> None:
        """Add scores of shape (n_rows, n_classes), and how many rows each row stands for."""
        if copies is not None or self._copies is not None:
            self._update_counted(scores, np.ones(len(scores)) if copies is None else copies)
            return
        if self._highest is not None:
            scores = np.vstack([self._highest, scores])
        if len(scores) > self._rank:
            scores = np.partition(scores, -self._rank, axis=0)[-self._rank :]
        self._highest = scores.copy()

    def _update_counted(self, scores: Array, copies: Array) -> None:
        counts = np.broadcast_to(copies[:, None], scores.shape)
        if self._highest is not None:
            before = np.ones_like(self._highest) if self._copies is None else self._copies
            scores, counts = np.vstack([self._highest, scores]), np.vstack([before, counts])
        order = np.argsort(-scores, axis=0, kind="stable")
        scores, counts = (np.take_along_axis(part, order, axis=0) for part in (scores, counts))
        kept = 1 + np.max(np.sum(np.cumsum(counts, axis=0) < self._rank, axis=0), initial=0)
        self._highest, self._copies = scores[:kept].copy(), counts[:kept].copy()

    def lowest(self) -> Array:
        """Return the score of each class that `rank - 1` others exceed."""
        highest = np.zeros((0, 1)) if self._highest is None else self._highest
        ranks = np.cumsum(np.ones_like(highest) if self._copies is None else self._copies, axis=0)
        n_rows = ranks[-1, 0] if len(ranks) else 0
        if n_rows < self._rank:
            raise ValueError(
                f"calibration_rank = {self._rank}, but there are {n_rows:.12g} rows to calibrate "
                "on; give a lower rank or more rows."
            )
        if self._copies is None:
            return np.asarray(highest.min(axis=0))
        indices = np.sum(ranks < self._rank, axis=0)
        return np.asarray(np.take_along_axis(highest, indices[None], axis=0)[0])
