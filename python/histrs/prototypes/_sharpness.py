"""The sharpness that classifies best what is left out of training."""

import warnings
from collections.abc import Callable
from numbers import Integral
from typing import Any

import numpy as np
from numpy.random import RandomState
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedKFold, cross_val_score

from histrs.prototypes._base import PrototypeClassifier, Training

# What is tried in turn, in units of the scale.
_FACTORS = (0.5, 1.0, 2.0, 4.0, 8.0)
# Where Optuna searches, in the same units, and how often it tries.
_LOWEST, _HIGHEST = 0.25, 16.0
_TRIALS = 20
_FOLDS = 3


def searched_gamma(
    estimator: PrototypeClassifier, training: Training, scale: float, random: RandomState
) -> float:
    """Return the multiple of the scale with the best accuracy on rows left out of training.

    Parameters
    ----------
    estimator : PrototypeClassifier
        Cloned; takes rows as `training` holds them. Its `gamma` is "cv" or "optuna".
    training : Training
        The data.
    scale : float
        The sharpness around which is searched.
    random : RandomState
        Cuts the folds, and draws a start for them that is the same for each sharpness.
    """
    parameters = estimator.get_params()
    search = _by_optuna if parameters["gamma"] == "optuna" else _in_turn
    n_folds = _count_folds(training, parameters)
    folds = StratifiedKFold(n_folds, shuffle=True, random_state=random)
    splits = list(folds.split(training.labels, training.labels))
    seed = random.randint(np.iinfo(np.int32).max)

    def accuracy(factor: float) -> float:
        model = clone(estimator)
        model.set_params(gamma=factor * scale, random_state=seed, verbose=0)
        with warnings.catch_warnings():
            # The model that is kept speaks for itself.
            warnings.simplefilter("ignore", ConvergenceWarning)
            scores = cross_val_score(
                model, training.X, training.labels, cv=splits, error_score="raise"
            )
        return float(scores.mean())

    return scale * search(accuracy, seed)


def _in_turn(accuracy: Callable[[float], float], seed: int) -> float:
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


def _count_folds(training: Training, parameters: dict[str, Any]) -> int:
    compression = parameters["compression"]
    sizes = np.bincount(training.labels)
    smallest = int(np.argmin(sizes))
    needed = compression if isinstance(compression, Integral) else 1
    folds = min(_FOLDS, int(sizes[smallest]))
    left = sizes[smallest] - -(-sizes[smallest] // max(folds, 1))
    if folds < 2 or left < needed:
        raise ValueError(
            f'gamma = "{parameters["gamma"]}" leaves rows of each class out of training, and class '
            f"{training.classes[smallest]} has {sizes[smallest]} of {len(training.labels)} rows "
            f'for {needed} prototypes; give gamma, gamma = "scale", or more rows.'
        )
    return folds
