"""Everything that the demo measures, in order."""

import os
import platform
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import log_loss
from sklearn.model_selection import ParameterGrid
from threadpoolctl import threadpool_limits

from histrs import __version__, _histrs
from histrs._demo import _costs, _data
from histrs._demo._costs import Cost, Task, TrainTest, measure_costs
from histrs._demo._data import Array, Digits
from histrs._demo._learning import Learning, learn
from histrs._demo._models import (
    GP,
    GP_CG,
    GP_CHOLESKY,
    GRIDS,
    LINEAR,
    PLAIN,
    TOL,
    CholeskyGP,
    Parameters,
    make_model,
)
from histrs._demo._scores import Quality, assess

N_UNCERTAIN = 10


@dataclass(frozen=True)
class Candidate:
    """Hyper-parameters and what they are worth on the validation images."""

    parameters: Parameters
    validation_log_loss: float


@dataclass(frozen=True)
class Contender:
    """A kind of model on one set of features, with its best hyper-parameters."""

    model: str
    features: str
    candidates: list[Candidate]
    best: Candidate
    is_chosen: bool
    """Whether these features served this kind of model best on the validation images."""
    quality: Quality
    """On the test images, fitted to all training images."""
    probabilities: Array


@dataclass(frozen=True)
class Agreement:
    """How far the estimator is from the factorised matrix."""

    tol: float
    n_iter: int
    residual: float
    score_difference: float
    """Largest difference of a score of a test image."""
    score_bound: float
    """What the residual permits."""
    std_difference: float
    """Largest difference of a predictive standard deviation of the most uncertain images."""


@dataclass(frozen=True)
class UncertainImage:
    """A test image of which the Gaussian process is not sure."""

    row: int
    """Its row in the data set."""
    image: Array
    label: int
    probabilities: Array
    std: float

    @property
    def ranking(self) -> list[int]:
        """The classes, the most probable first."""
        order: list[int] = np.argsort(-self.probabilities, kind="stable").tolist()
        return order


@dataclass(frozen=True)
class Experiment:
    """What was found."""

    seed: int
    n_fit: int
    n_validation: int
    n_test: int
    contenders: list[Contender]
    learning: list[Learning]
    agreement: Agreement
    costs: list[Cost]
    n_runs: int
    """Of which the times are medians."""
    uncertain: list[UncertainImage]
    samples: list[Array]
    """A training image of each class."""
    median_std: float
    """Of all test images."""
    n_only_gp_right: int
    """Test images that the Gaussian process classifies correctly and the linear model does not."""
    n_only_linear_right: int
    environment: str

    def chosen(self, model: str) -> Contender:
        """Return the contender of that kind with the features chosen for it."""
        return next(c for c in self.contenders if c.model == model and c.is_chosen)


def run_experiment(seed: int, report: Callable[[str], None]) -> Experiment:
    """Run the demo, saying by `report` what it is about to do."""
    with threadpool_limits(1):
        digits = _data.load(seed)
        report("Choosing hyper-parameters on the validation images")
        contenders = [c for model in GRIDS for c in _contenders(model, digits)]
        gp = next(c for c in contenders if c.model == GP and c.is_chosen)
        linear = next(c for c in contenders if c.model == LINEAR and c.is_chosen)

        X, y = digits.features[gp.features][digits.train], digits.labels[digits.train]
        X_test, y_test = digits.features[gp.features][digits.test], digits.labels[digits.test]
        entropy = -np.sum(gp.probabilities * np.log(np.maximum(gp.probabilities, 1e-300)), axis=1)
        order = np.argsort(-entropy, kind="stable")
        hardest = order[:N_UNCERTAIN]

        report("Learning hyper-parameters from the training images")
        learning = learn(digits)

        report("Comparing conjugate gradients with the factorised matrix")
        plain = CholeskyGP(**gp.best.parameters).fit(X, y)
        agreement = _agreement(plain, gp.best.parameters, X, y, X_test, hardest)
        std = plain.std(X_test)

        report("Measuring memory and times")
        costs = measure_costs(
            _tasks(contenders, gp, len(digits.test)),
            TrainTest(
                X={name: X[digits.train] for name, X in digits.features.items()},
                y=y,
                X_test={name: X[digits.test[order]] for name, X in digits.features.items()},
            ),
        )

    gp_right, linear_right = (c.probabilities.argmax(axis=1) == y_test for c in (gp, linear))
    return Experiment(
        seed=seed,
        n_fit=len(digits.fit),
        n_validation=len(digits.validation),
        n_test=len(digits.test),
        contenders=contenders,
        learning=learning,
        agreement=agreement,
        costs=costs,
        n_runs=_costs.REPEATS,
        uncertain=[
            UncertainImage(
                row=int(digits.test[k]),
                image=digits.images[digits.test[k]],
                label=int(y_test[k]),
                probabilities=gp.probabilities[k],
                std=float(std[k]),
            )
            for k in hardest
        ],
        samples=[
            digits.images[digits.train[np.argmax(y == label)]] for label in np.unique(digits.labels)
        ],
        median_std=float(np.median(std)),
        n_only_gp_right=int(np.sum(gp_right & ~linear_right)),
        n_only_linear_right=int(np.sum(linear_right & ~gp_right)),
        environment=_environment(),
    )


def _contenders(model: str, digits: Digits) -> list[Contender]:
    """Return the model on every set of features, each with hyper-parameters from the grid."""
    y = digits.labels
    searched = {}
    for name, X in digits.features.items():
        candidates = []
        for parameters in ParameterGrid(dict(GRIDS[model])):
            fitted = make_model(model, parameters).fit(X[digits.fit], y[digits.fit])
            loss = log_loss(y[digits.validation], fitted.predict_proba(X[digits.validation]))
            candidates.append(Candidate(parameters, float(loss)))
        searched[name] = candidates
    best = {name: min(found, key=_loss) for name, found in searched.items()}
    chosen = min(best, key=lambda name: best[name].validation_log_loss)
    contenders = []
    for name, X in digits.features.items():
        fitted = make_model(model, best[name].parameters).fit(X[digits.train], y[digits.train])
        probabilities = fitted.predict_proba(X[digits.test])
        contenders.append(
            Contender(
                model=model,
                features=name,
                candidates=searched[name],
                best=best[name],
                is_chosen=name == chosen,
                quality=assess(probabilities, y[digits.test]),
                probabilities=probabilities,
            )
        )
    return contenders


def _loss(candidate: Candidate) -> float:
    return candidate.validation_log_loss


def _agreement(
    plain: CholeskyGP, parameters: Parameters, X: Array, y: Any, X_test: Array, hardest: Any
) -> Agreement:
    model = make_model(GP_CG, parameters).fit(X, y)
    difference = np.max(np.abs(model.decision_function(X_test) - plain.decision_function(X_test)))
    _, std = model.predict(X_test[hardest], return_std=True)
    return Agreement(
        tol=TOL,
        n_iter=int(model.n_iter_.max()),
        residual=float(model.residual_.max()),
        score_difference=float(difference),
        score_bound=float(model.residual_.max()) * plain.largest_effect(X_test),
        std_difference=float(np.max(np.abs(std - plain.std(X_test[hardest])))),
    )


def _tasks(contenders: list[Contender], gp: Contender, n_test: int) -> list[Task]:
    """Return what to measure: one Gaussian process computed in three ways, and linear models."""
    # Every exact variance by conjugate gradients is a solve, so a few rows must do there.
    n_rows = {GP_CG: N_UNCERTAIN, GP_CHOLESKY: n_test, PLAIN: n_test}
    return [
        *(Task(name, gp.features, gp.best.parameters, n) for name, n in n_rows.items()),
        *(
            Task(LINEAR, c.features, c.best.parameters, n_test)
            for c in contenders
            if c.model == LINEAR
        ),
    ]


def _environment() -> str:
    libraries = ", ".join(f"{name} {version(name)}" for name in ("numpy", "scipy", "scikit-learn"))
    return (
        f"histrs {__version__} ({_histrs.instruction_set()}), Python {platform.python_version()}, "
        f"{libraries}; {_processor()}, {os.cpu_count()} cores, {platform.system()}"
    )


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
