"""What classifiers on learned prototypes share: where they start, and how sharp they look."""

import warnings
from numbers import Integral
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.random import RandomState
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedKFold, cross_val_score

from histrs.prototypes._base import Places, PrototypeClassifier, Training
from histrs.prototypes._random_mutation import hill_climb
from histrs.prototypes._sample import class_sample

Gamma: TypeAlias = float | Literal["scale", "cv"]
Init: TypeAlias = Literal["subset", "rmhc"]

# Exchanges of the hill climb that training starts from.
_EXCHANGES = 500
# What cross-validation tries, in units of the scale.
_FACTORS = (0.5, 1.0, 2.0, 4.0, 8.0)
_FOLDS = 3


def draw_start(training: Training, compression: float, init: Init, random: RandomState) -> Places:
    """Return places of the samples that learned prototypes start from."""
    sample = class_sample(training.labels, training.classes, compression, random)
    return hill_climb(training, sample, _EXCHANGES, random) if init == "rmhc" else sample


def scale_gamma(distances: NDArray[Any]) -> float:
    """Return the sharpness at which samples are one unit from where they belong, on average."""
    mean = float(np.mean(distances, dtype=np.float64))
    return 1.0 if mean <= 0.0 else mean**-0.5


def cross_validated_gamma(
    estimator: PrototypeClassifier,
    training: Training,
    scale: float,
    compression: Any,
    random: RandomState,
) -> float:
    """Return the multiple of the scale with the best accuracy on rows left out of training.

    Parameters
    ----------
    estimator : PrototypeClassifier
        Cloned; takes rows as `training` holds them.
    training : Training
        The data.
    scale : float
        The sharpness around which is searched.
    compression : float
        Of the estimator.
    random : RandomState
        Cuts the folds, and draws a start for them that is the same for each sharpness.
    """
    folds = StratifiedKFold(_count_folds(training, compression), shuffle=True, random_state=random)
    splits = list(folds.split(training.labels, training.labels))
    seed = random.randint(np.iinfo(np.int32).max)

    def accuracy(gamma: float) -> float:
        model = clone(estimator).set_params(gamma=gamma, random_state=seed, verbose=0)
        with warnings.catch_warnings():
            # The model that is kept speaks for itself.
            warnings.simplefilter("ignore", ConvergenceWarning)
            scores = cross_val_score(
                model, training.X, training.labels, cv=splits, error_score="raise"
            )
        return float(scores.mean())

    gammas = [factor * scale for factor in _FACTORS]
    return gammas[int(np.argmax([accuracy(gamma) for gamma in gammas]))]


def _count_folds(training: Training, compression: Any) -> int:
    sizes = np.bincount(training.labels)
    smallest = int(np.argmin(sizes))
    needed = compression if isinstance(compression, Integral) else 1
    folds = min(_FOLDS, int(sizes[smallest]))
    left = sizes[smallest] - -(-sizes[smallest] // max(folds, 1))
    if folds < 2 or left < needed:
        raise ValueError(
            f'gamma = "cv" leaves rows of each class out of training, and class '
            f"{training.classes[smallest]} has {sizes[smallest]} of {len(training.labels)} rows "
            f'for {needed} prototypes; give gamma, gamma = "scale", or more rows.'
        )
    return folds
