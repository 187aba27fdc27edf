"""How a ridge on targets of classes is learned and calibrated."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from histrs.streaming._calibration import HighestScores
from histrs.streaming._class_targets import IndicatorTargets, SignedTargets
from histrs.streaming._probabilities import (
    SOFTMAX_ROWS,
    TEMPERATURE_ROWS,
    inverse_temperature_of,
    logistic_of,
    softmax_of,
)
from histrs.streaming._ridge_on_components import RidgeOnComponents
from histrs.streaming._rows import checked
from histrs.streaming._source import RowSource, in_chunk
from histrs.streaming._weights import ClassWeights, counted_weights


class RidgeOfClasses(RidgeOnComponents):
    """A ridge on targets of classes or labels, whose scores are calibrated on rows left out."""

    calibrate: Any
    calibration_rank: int | None
    class_weight: Any
    classes_: NDArray[Any]
    coef_: NDArray[Any]
    inverse_temperature_: Any
    _has_labels: bool
    """Whether a row may have several labels."""

    def _needs_rows(self) -> str:
        if self.class_weight == "balanced":
            return 'class_weight = "balanced"'
        return super()._needs_rows() if self.calibrate in ("auto", None) else "calibrate"

    def _forget(self) -> None:
        super()._forget()
        self.__dict__.pop("inverse_temperature_", None)

    def _set_classes(self, classes: NDArray[Any]) -> None:
        if len(classes) < 2:
            raise ValueError(
                f"The number of classes has to be greater than one; got {len(classes)} class."
            )
        self.classes_, self._has_labels = classes, False

    def _set_labels(self, n_labels: int) -> None:
        for name in ("class_weight", "calibrate"):
            given = getattr(self, name)
            if given is not None and given not in ("auto", "softmax"):
                raise ValueError(
                    f"{name} = {given!r} is of one class per row, and y has {n_labels} labels: "
                    f"leave {name} as it is by default."
                )
        self.classes_, self._has_labels = np.arange(n_labels), True

    def _class_weights(self, labels: Any, weights: Any) -> ClassWeights | None:
        return ClassWeights.of(self.class_weight, self.classes_, labels, weights)

    def _learn_source(self, source: RowSource) -> None:
        encode = IndicatorTargets() if self._has_labels else SignedTargets(self.classes_)
        if self.class_weight == "balanced":
            named = any(isinstance(part, str) for part in (source.targets, source.weights))
            if source.targets is None or named:
                raise ValueError(
                    'class_weight = "balanced" needs all labels and weights: give Y, and '
                    "sample_weight if there is any, as arrays, or class_weight as a dict."
                )
            encode(source.targets)
        weigh = self._class_weights(source.targets, source.weights)
        # Before coordinates of rows are made: their origin is a row that has a weight.
        super()._learn_source(replace(source, encode=encode, weigh=weigh))

    def _learn_rows(self, source: RowSource, n_features: int | None) -> None:
        calibrate = self.calibrate
        if calibrate == "auto":
            calibrate = "softmax" if source.is_at_hand() else None
        elif calibrate is not None:
            source.check_rereadable("calibrate")
        path = self._fit_source(source, n_features)
        learned = self.intercept_
        if calibrate == "equal-rate":
            self._calibrate(source, path.n_rows)
        if calibrate == "softmax":
            some = source.thinned(path.n_rows, SOFTMAX_ROWS)
            left_out = path.left_out(some.chunks("probabilities"), self.alpha_)
            readout = logistic_of(left_out) if self._has_labels else softmax_of(left_out)
            self.coef_ = readout.matrix.T @ self.coef_
            self.intercept_ = learned @ readout.matrix + readout.offset
            self.inverse_temperature_ = 1.0
        elif source.is_at_hand():
            some = source.thinned(path.n_rows, TEMPERATURE_ROWS)
            left_out = path.left_out(some.chunks("probabilities"), self.alpha_)
            shifted = left_out._replace(scores=left_out.scores + (self.intercept_ - learned))
            self.inverse_temperature_ = (
                np.array([inverse_temperature_of(label) for label in shifted.labels()])
                if self._has_labels
                else inverse_temperature_of(shifted)
            )

    def _calibrate(self, source: RowSource, n_rows: float) -> None:
        """Shift scores, with their mean kept, until those of one rank are the same."""
        n_classes = len(self.classes_)
        highest = HighestScores(self.calibration_rank or max(1, int(n_rows // n_classes)))
        for number, (Z, _, sample_weight) in enumerate(source.chunks("calibration")):
            with in_chunk(number, source):
                scores = np.asarray(checked(Z) @ self.coef_.T + self.intercept_)
                scores = np.hstack([-scores, scores]) if n_classes == 2 else scores
                weights = counted_weights(sample_weight, len(scores))
                highest.update(scores, None if weights is None else weights.copies)
        self.score_thresholds_ = lowest = highest.lowest()
        shift = (lowest[1:] - lowest[:1]) / 2 if n_classes == 2 else lowest - lowest.mean()
        self.intercept_ = self.intercept_ - shift
