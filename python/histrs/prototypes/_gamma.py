"""The inverse temperature that classifies best what is left out of training."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from numbers import Integral
from typing import Any

import numpy as np
from numpy.random import RandomState
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedKFold

from histrs._calibration import likely_inverse_temperature
from histrs.prototypes._base import PrototypeClassifier, Training
from histrs.prototypes._learned import LearnedPrototypes

# What is tried in turn, in units of the scale.
_FACTORS = (0.5, 1.0, 2.0, 4.0, 8.0)
# Where Optuna searches, in the same units, and how often it tries.
_LOWEST, _HIGHEST = 0.25, 16.0
_TRIALS = 20
_FOLDS = 3
# Of more rows, one fold tells how sharp probabilities are.
_MANY_ROWS = 300


def searched_gamma(
    estimator: PrototypeClassifier, training: Training, scale: float, random: RandomState
) -> float:
    """Return the multiple of the scale with the best accuracy on rows left out of training.

    Clones of the estimator, whose `gamma` is "cv" or "optuna", take rows as `training` holds them.
    Folds have the same start for each inverse temperature.
    """
    parameters = estimator.get_params()
    search = _by_optuna if parameters["gamma"] == "optuna" else _on_grid
    n_folds = _count_folds(training, parameters)
    folds = StratifiedKFold(n_folds, shuffle=True, random_state=random)
    splits = list(folds.split(training.labels, training.labels))
    seed = random.randint(np.iinfo(np.int32).max)

    def accuracy(factor: float) -> float:
        model = clone(estimator)
        # Weights of classes are in those of the rows.
        model.set_params(gamma=factor * scale, random_state=seed, verbose=0, class_weight=None)
        if "calibration" in parameters:
            # Which changes no prediction.
            model.set_params(calibration=None)
        with warnings.catch_warnings():
            # The model that is kept speaks for itself.
            warnings.simplefilter("ignore", ConvergenceWarning)
            scores = [
                clone(model).fit(**training.some(kept)).score(**training.some(held))
                for kept, held in splits
            ]
        return float(np.mean(scores))

    return scale * search(accuracy, seed)


def held_out_inverse_temperature(
    estimator: LearnedPrototypes, training: Training, random: RandomState
) -> float:
    """Return the factor of scores of classes at which labels that training leaves out are likely.

    Of few rows each third is left out in turn, of many one third. Where a class has too few rows to
    leave one out, the factor is 1. The estimator, whose `gamma` is a number, is cloned.
    """
    parameters = estimator.get_params()
    n_folds = _possible_folds(training, parameters["compression"])
    if n_folds < 2:
        return 1.0
    folds = StratifiedKFold(n_folds, shuffle=True, random_state=random)
    model = clone(estimator).set_params(
        random_state=random.randint(np.iinfo(np.int32).max),
        calibration=None,
        verbose=0,
        # Which are in those of the rows.
        class_weight=None,
    )
    weights = np.ones(len(training.labels)) if training.weights is None else training.weights
    scores, left_out = list[NDArray[Any]](), list[NDArray[np.intp]]()
    for kept, held in folds.split(training.labels, training.labels):
        with warnings.catch_warnings():
            # The model that is kept speaks for itself.
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(**training.some(kept))
        scores.append(model._class_scores(training.X[held]))
        left_out.append(held)
        if len(training.labels) > _MANY_ROWS:
            break
    distances, rows = -np.concatenate(scores), np.concatenate(left_out)
    # Distances to classes: what is common to a row's says nothing.
    distances -= distances.min(axis=1, keepdims=True)
    return likely_inverse_temperature(distances, training.labels[rows], weights[rows])


def _on_grid(accuracy: Callable[[float], float], seed: int) -> float:
    return _FACTORS[int(np.argmax([accuracy(factor) for factor in _FACTORS]))]


def _by_optuna(accuracy: Callable[[float], float], seed: int) -> float:
    optuna = _import_optuna()
    # Trials are not reported one by one; the setting is the process's.
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        study = optuna.create_study(
            direction="maximize", sampler=optuna.samplers.TPESampler(seed=seed)
        )
        study.enqueue_trial({"factor": 1.0})
        study.optimize(
            lambda trial: accuracy(trial.suggest_float("factor", _LOWEST, _HIGHEST, log=True)),
            n_trials=_TRIALS,
        )
    finally:
        optuna.logging.set_verbosity(verbosity)
    return float(study.best_params["factor"])


def _import_optuna() -> Any:
    try:
        import optuna
    except ImportError as error:
        raise ImportError(
            'gamma = "optuna" needs Optuna, which is not installed: pip install "histrs[tune]"'
        ) from error
    return optuna


def _possible_folds(training: Training, compression: Any) -> int:
    """Return how many folds leave each class as many rows as it needs; 0 for none."""
    smallest = int(np.bincount(training.labels).min())
    needed = int(compression) if isinstance(compression, Integral) else 1
    folds = min(_FOLDS, smallest)
    left = smallest - -(-smallest // max(folds, 1))
    return 0 if folds < 2 or left < needed else folds


def _count_folds(training: Training, parameters: dict[str, Any]) -> int:
    compression = parameters["compression"]
    sizes = np.bincount(training.labels)
    smallest = int(np.argmin(sizes))
    needed = compression if isinstance(compression, Integral) else 1
    folds = _possible_folds(training, compression)
    if folds < 2:
        raise ValueError(
            f'gamma = "{parameters["gamma"]}" leaves rows of each class out of training, and class '
            f"{training.classes[smallest]} has {sizes[smallest]} of {len(training.labels)} rows "
            f'for {needed} prototypes; give gamma, gamma = "scale", or more rows.'
        )
    return folds
