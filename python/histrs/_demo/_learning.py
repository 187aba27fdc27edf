"""Hyper-parameters learned from the training images alone, and what that gains."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from histrs._demo._data import Digits
from histrs._demo._models import Parameters
from histrs._demo._scores import Quality, assess
from histrs.gaussian_process import IntersectionGPClassifier

# What `fit` searches for, and from where the search starts.
WAYS: Mapping[str, Mapping[str, Any]] = {
    "given": {"optimizer": None},
    "learned": {},
    "+ exponent": {"feature_transform": "power", "amplitude": 1e-3},
}


@dataclass(frozen=True)
class Learning:
    """A Gaussian process whose hyper-parameters no validation image was asked about."""

    way: str
    features: str
    parameters: Parameters
    log_marginal_likelihood: float
    n_evaluations: int
    """Of the likelihood, by the search."""
    fit_seconds: float
    quality: Quality
    """On the test images."""


def learn(digits: Digits) -> list[Learning]:
    """Fit the Gaussian process to all training images in every way."""
    return [_learn(way, name, digits) for name in digits.features for way in WAYS]


def _learn(way: str, features: str, digits: Digits) -> Learning:
    X, y = digits.features[features], digits.labels
    # The model of the other tables, in which nothing but the hyper-parameters differs.
    paper: dict[str, Any] = {"feature_weights": None, "calibration": None}
    model = IntersectionGPClassifier(n_jobs=1, **paper, **WAYS[way])
    start = time.perf_counter()
    model.fit(X[digits.train], y[digits.train])
    seconds = time.perf_counter() - start
    parameters = {"noise": float(model.noise_), "amplitude": float(model.amplitude_)}
    if model.feature_transform == "power":
        parameters["exponent"] = model.exponent_
    return Learning(
        way=way,
        features=features,
        parameters=parameters,
        log_marginal_likelihood=float(model.log_marginal_likelihood()),
        n_evaluations=_evaluations(model),
        fit_seconds=seconds,
        quality=assess(model.predict_proba(X[digits.test]), y[digits.test]),
    )


def _evaluations(model: IntersectionGPClassifier) -> int:
    if model.optimizer is None:
        return 0
    return len(model.optimization_history_["log_marginal_likelihood"])
