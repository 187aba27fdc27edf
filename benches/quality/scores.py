"""What a prediction is worth: loss, calibration, and how much of the density is right."""

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from benches.quality.answers import LEVELS, Answer

Array = NDArray[np.float64]
Scores = dict[str, float]
# The least probability that a class gets: one that is impossible would cost infinitely much.
_LEAST = 1e-15
_N_BINS = 10
# Intervals that are judged, by the columns of `LEVELS`.
INTERVALS = {"cover 95": (0, 6), "cover 50": (2, 4)}


def score_classes(answer: Answer, codes: NDArray[np.intp]) -> Scores:
    """Return log loss, accuracy and expected calibration error."""
    assert answer.P is not None
    P = np.clip(answer.P / answer.P.sum(axis=1, keepdims=True), _LEAST, 1.0)
    chosen = P[np.arange(len(P)), codes]
    return {
        "log loss": float(-np.mean(np.log(chosen))),
        "accuracy": float(np.mean(P.argmax(axis=1) == codes)),
        "calibration": calibration_error(P, codes),
    }


def calibration_error(P: Array, codes: NDArray[np.intp]) -> float:
    """Return the expected calibration error of the most probable class, in bins of equal count."""
    confidence, right = P.max(axis=1), P.argmax(axis=1) == codes
    order = np.argsort(confidence, kind="stable")
    bins = np.array_split(order, _N_BINS)
    gaps = [abs(np.sum(right[rows] - confidence[rows])) for rows in bins]
    return float(np.sum(gaps) / len(P))


def score_numbers(answer: Answer, y: Array, spread: float) -> Scores:
    """Return the scores of what is answered, in units of the spread of the target.

    Root mean square error; the negative log density; the continuous ranked probability score, of
    the same quantiles for all models. Also the fraction of rows in central intervals, in all and by
    quarters of the prediction and of the width.
    """
    found: Scores = {}
    if answer.mean is not None:
        found["RMSE"] = float(np.sqrt(np.mean((answer.mean - y) ** 2)) / spread)
    quantiles = answer.quantiles
    if answer.std is not None and answer.mean is not None:
        std = np.maximum(answer.std, 1e-9 * spread)
        z = (y - answer.mean) / std
        found["NLPD"] = float(np.mean(0.5 * z**2 + np.log(std / spread)) + 0.5 * np.log(2 * np.pi))
        if quantiles is None:
            quantiles = answer.mean[:, None] + std[:, None] * ndtri(np.array(LEVELS))
    if answer.score_density is not None:
        found["NLPD"] = -answer.score_density(y) - float(np.log(spread))
    if quantiles is not None:
        found["CRPS"] = float(np.mean(_quantile_crps(quantiles, y)) / spread)
        found |= _coverage(quantiles, y)
    return found


def _quantile_crps(quantiles: Array, y: Array) -> Array:
    """Return twice the pinball loss, integrated over levels by the trapezium rule."""
    levels = np.array(LEVELS)
    gap = y[:, None] - quantiles
    pinball = np.where(gap >= 0, levels * gap, (levels - 1) * gap)
    # Up to levels 0 and 1, the outer ones go on.
    widths = np.diff(np.concatenate([[0.0], 0.5 * (levels[1:] + levels[:-1]), [1.0]]))
    return 2 * pinball @ widths


def _coverage(quantiles: Array, y: Array) -> Scores:
    centre, width = quantiles[:, 3], quantiles[:, 6] - quantiles[:, 0]
    found: Scores = {}
    for name, (low, high) in INTERVALS.items():
        inside = (quantiles[:, low] <= y) & (y <= quantiles[:, high])
        found[name] = float(np.mean(inside))
        for what, by in (("mean", centre), ("std", width)):
            quarters = np.array_split(np.argsort(by, kind="stable"), 4)
            for i, rows in enumerate(quarters, start=1):
                found[f"{name}, {what} {i}"] = float(np.mean(inside[rows]))
    return found
