"""What classifiers on learned prototypes share: where they start, and how sharp they look."""

from numbers import Real
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.random import RandomState
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval, StrOptions

from histrs.prototypes._base import Places, Training
from histrs.prototypes._random_mutation import hill_climb
from histrs.prototypes._sample import class_sample

Gamma: TypeAlias = float | Literal["scale", "cv", "optuna"]
Init: TypeAlias = Literal["subset", "rmhc"]

# Exchanges of the hill climb that training starts from.
_EXCHANGES = 500

GAMMA_CONSTRAINTS = [
    Interval(Real, 0, None, closed="neither"),
    StrOptions({"scale", "cv", "optuna"}),
]


def draw_start(training: Training, compression: float, init: Init, random: RandomState) -> Places:
    """Return places of the samples that learned prototypes start from."""
    sample = class_sample(training.labels, training.classes, compression, random)
    return hill_climb(training, sample, _EXCHANGES, random) if init == "rmhc" else sample


def scale_gamma(distances: NDArray[Any]) -> float:
    """Return the sharpness at which samples are one unit from where they belong, on average."""
    mean = float(np.mean(distances, dtype=np.float64))
    return 1.0 if mean <= 0.0 else mean**-0.5
