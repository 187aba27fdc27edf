"""Probabilities of the classes of a ridge regression on signed targets, from rows left out."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from histrs._calibration import Readout, as_rows, fit_calibration, likely_inverse_temperature
from histrs._typing import Array

# Rows that probabilities are learned from: one number, or one for each pair of classes.
TEMPERATURE_ROWS, SOFTMAX_ROWS = 2000, 5000


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
