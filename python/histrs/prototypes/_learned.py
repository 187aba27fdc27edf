"""What classifiers on learned prototypes share: where they start, and how sharp they look."""

from __future__ import annotations

from numbers import Real
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.random import RandomState
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from histrs._checks.validation import canonical
from histrs._repeats import distinct_rows
from histrs._typing import Array, Matrix
from histrs._weights import (
    ClassWeight,
    RowWeights,
    check_weights,
    checked_labels,
    times_class_weights,
)
from histrs.prototypes._base import Indices, PrototypeClassifier, Training
from histrs.prototypes._random_mutation import hill_climb
from histrs.prototypes._sample import class_sample

Gamma: TypeAlias = float | Literal["scale", "cv", "optuna"]
Init: TypeAlias = Literal["subset", "rmhc"]

# Exchanges of the hill climb that training starts from.
_EXCHANGES = 500

# With more, the square of gamma overflows in the loss.
GAMMA_CONSTRAINTS = [Interval(Real, 0, 1e50, closed="right"), StrOptions({"scale", "cv", "optuna"})]


def draw_start(training: Training, compression: float, init: Init, random: RandomState) -> Indices:
    """Return indices of the samples that learned prototypes start from."""
    sample = class_sample(training.labels, training.classes, compression, random)
    return hill_climb(training, sample, _EXCHANGES, random) if init == "rmhc" else sample


def scale_gamma(distances: NDArray[Any], weights: Array | None, rounding: float = 0.0) -> float:
    """Return the `gamma` at which samples are one unit from where they belong, on average.

    It is 1 where that is no more than `rounding`.
    """
    mean = float(np.average(distances.astype(np.float64, copy=False), weights=weights))
    return 1.0 if mean <= rounding else mean**-0.5


class LearnedPrototypes(PrototypeClassifier):
    """Predicts the class that the stochastic neighbourhood makes most probable."""

    class_weight: ClassWeight
    gamma_: float

    def _row_weights(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None) -> RowWeights:
        """Return which samples have a weight, one of equal ones, with that of their classes."""
        labels = checked_labels(y)
        given = check_weights(sample_weight, labels)
        given = times_class_weights(given, self.class_weight, *given.rows(labels))
        X, labels = given.rows(X, labels)
        codes = np.unique(labels, return_inverse=True)[1]
        distinct = distinct_rows(canonical(X), codes, given.weights, given.copies)
        if distinct.kept is None:
            return given
        kept = distinct.kept if given.kept is None else given.kept[distinct.kept]
        return RowWeights(kept, distinct.weights)

    def _class_scores(self, X: ArrayLike | Matrix) -> NDArray[Any]:
        r"""Return :math:`\log \sum_{j: y_j = c} e^{-\gamma^2 D_{ij}}`."""
        check_is_fitted(self)
        distances, indices = self._kneighbors(X, len(self.prototype_labels_))
        scores = self._scores_of(distances, self.prototype_labels_[indices])
        return scores.astype(distances.dtype)

    def _scores_of(self, distances: NDArray[Any], labels: NDArray[Any]) -> NDArray[Any]:
        logits = -(self.gamma_**2) * distances.astype(np.float64)
        scores = [
            logsumexp(np.where(labels == label, logits, -np.inf), axis=1) for label in self.classes_
        ]
        return np.stack(scores, axis=1)
