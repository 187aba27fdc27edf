"""What is measured: the tables, the models with their defaults, and the scores."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn import datasets
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from threadpoolctl import threadpool_limits

from histrs.gaussian_process import (
    IntersectionGPClassifier,
    IntersectionGPRegressor,
    TabularGPClassifier,
    TabularGPRegressor,
)

Array: TypeAlias = NDArray[np.float64]
N_SPLITS = 3
N_UNCERTAIN = 10
TABULAR, ADDITIVE, BOOSTING = "TabularGP", "IntersectionGP", "HistGradientBoosting"
FOREST, LINEAR = "random forest", "linear"
OURS = (TABULAR, ADDITIVE)


def _non_negative(model: Any) -> Any:
    return make_pipeline(MinMaxScaler(clip=True), model)


CLASSIFIERS: dict[str, Callable[[], Any]] = {
    TABULAR: lambda: TabularGPClassifier(random_state=0),
    ADDITIVE: lambda: _non_negative(IntersectionGPClassifier(random_state=0)),
    BOOSTING: lambda: HistGradientBoostingClassifier(random_state=0),
    FOREST: lambda: RandomForestClassifier(random_state=0, n_jobs=1),
    LINEAR: lambda: make_pipeline(StandardScaler(), LogisticRegression(max_iter=5000)),
}
REGRESSORS: dict[str, Callable[[], Any]] = {
    TABULAR: lambda: TabularGPRegressor(random_state=0),
    ADDITIVE: lambda: _non_negative(IntersectionGPRegressor(random_state=0)),
    BOOSTING: lambda: HistGradientBoostingRegressor(random_state=0),
    FOREST: lambda: RandomForestRegressor(random_state=0, n_jobs=1),
    LINEAR: lambda: make_pipeline(StandardScaler(), Ridge()),
}


@dataclass(frozen=True)
class Table:
    """A table of data, and how every model did on it: one value of each score for each split."""

    name: str
    about: str
    n_rows: int
    n_columns: int
    scores: dict[str, dict[str, list[float]]] = field(default_factory=dict)

    def mean(self, model: str, score: str) -> float | None:
        """Return the mean over the splits; None where the model has no such score."""
        values = self.scores[model].get(score)
        return None if values is None else float(np.mean(values))

    def best(self, score: str, among: Iterable[str] | None = None) -> str:
        """Return the model whose mean is smallest, of all or of some."""
        models = self.scores if among is None else among
        return min(models, key=lambda model: self.mean(model, score) or 0.0)


@dataclass(frozen=True)
class Image:
    """A test image that the model is least certain of."""

    row: int
    pixels: Array
    label: int
    probabilities: Array

    @property
    def ranking(self) -> list[int]:
        """The classes, the most probable first."""
        return [int(c) for c in np.argsort(-self.probabilities, kind="stable")]


@dataclass(frozen=True)
class Curve:
    """What one column of a table adds to the prediction, with its standard deviation."""

    name: str
    x: Array
    mean: Array
    std: Array


@dataclass(frozen=True)
class Results:
    """All that the page shows."""

    seed: int
    classification: list[Table]
    regression: list[Table]
    confidence: dict[str, tuple[Array, NDArray[np.bool_]]]
    """Of the digits, by model: the largest probability of each prediction, and which were right."""
    uncertain: list[Image]
    importances: Array
    curves: list[Curve]
    seconds: float


def class_tables() -> dict[str, tuple[str, Array, NDArray[np.intp]]]:
    """Return the tables with classes."""
    return {
        "digits": ("images of 8 x 8 pixels, ten classes", *datasets.load_digits(return_X_y=True)),
        "breast cancer": (
            "cell nuclei, two classes",
            *datasets.load_breast_cancer(return_X_y=True),
        ),
        "wine": ("chemical analyses, three classes", *datasets.load_wine(return_X_y=True)),
        "iris": ("flowers, three classes", *datasets.load_iris(return_X_y=True)),
    }


def number_tables(seed: int) -> dict[str, tuple[str, Array, Array]]:
    """Return the tables with numbers to predict; the last two are made, their truth is known."""
    wine = datasets.load_wine().data
    rng = np.random.default_rng(seed)
    steps = rng.random((600, 10))
    jump = (steps[:, 0] > 0.5) & (steps[:, 1] > 0.3)
    return {
        "diabetes": ("progression after a year", *datasets.load_diabetes(return_X_y=True)),
        "wine, alcohol": ("alcohol from the other analyses", wine[:, 1:], wine[:, 0]),
        "Friedman 1": (
            "simulated: a smooth function with an interaction",
            *datasets.make_friedman1(600, noise=1.0, random_state=seed),
        ),
        "thresholds": (
            "simulated: a jump at thresholds of two columns",
            steps,
            jump + 0.1 * rng.standard_normal(600),
        ),
    }


def run(seed: int, report: Callable[[str], None], n_splits: int = N_SPLITS) -> Results:
    """Measure everything, saying by `report` what is about to be measured."""
    # One thread for everyone: comparable times, whatever else the machine does.
    with threadpool_limits(1):
        return _run(seed, report, n_splits)


def _run(seed: int, report: Callable[[str], None], n_splits: int) -> Results:
    start = time.perf_counter()
    answers: dict[str, list[tuple[Array, NDArray[np.bool_]]]] = {name: [] for name in CLASSIFIERS}
    uncertain: list[Image] = []
    classification = []
    for name, (about, X, y) in class_tables().items():
        report(name)
        table = Table(name, about, *X.shape)
        for k in range(n_splits):
            rows = np.arange(len(X))
            A, B = train_test_split(rows, test_size=0.25, random_state=seed + k, stratify=y)
            for model, make in CLASSIFIERS.items():
                scores, P = classify(make(), X[A], y[A], X[B], y[B])
                _add(table, model, scores)
                if name == "digits":
                    answers[model].append((P.max(axis=1), P.argmax(axis=1) == y[B]))
                    if model == TABULAR and k == 0:
                        uncertain = least_certain(X, y, B, P)
        classification.append(table)
    regression = []
    tables = number_tables(seed)
    for name, (about, X, y) in tables.items():
        report(name)
        table = Table(name, about, *X.shape)
        for k in range(n_splits):
            parts = train_test_split(X, y, test_size=0.25, random_state=seed + k)
            A, B, a, b = parts
            for model, make in REGRESSORS.items():
                _add(table, model, predict_numbers(make(), A, a, B, b, seed))
        regression.append(table)
    report("what was learned")
    friedman = TabularGPRegressor(random_state=0).fit(*tables["Friedman 1"][1:])
    return Results(
        seed=seed,
        classification=classification,
        regression=regression,
        confidence={
            model: tuple(np.concatenate(part) for part in zip(*found, strict=True))
            for model, found in answers.items()
        },
        uncertain=uncertain,
        importances=friedman.feature_importances_,
        curves=shape_curves(),
        seconds=time.perf_counter() - start,
    )


def _add(table: Table, model: str, scores: dict[str, float]) -> None:
    of_model = table.scores.setdefault(model, {})
    for name, value in scores.items():
        of_model.setdefault(name, []).append(value)


def classify(
    model: Any, A: Array, a: NDArray[np.intp], B: Array, b: NDArray[np.intp]
) -> tuple[dict[str, float], Array]:
    """Return the scores of a classifier, and its probabilities."""
    start = time.perf_counter()
    model.fit(A, a)
    fitted = time.perf_counter()
    P = model.predict_proba(B)
    end = time.perf_counter()
    confidence, right = P.max(axis=1), P.argmax(axis=1) == b
    bins = reliability_bins(confidence, right)
    return {
        "error": float(1.0 - np.mean(right)),
        "log loss": float(log_loss(b, np.clip(P, 1e-15, 1.0), labels=range(P.shape[1]))),
        "calibration error": sum(n * abs(p - q) for n, p, q in bins) / len(b),
        "fit": fitted - start,
        "predict": end - fitted,
    }, P


def reliability_bins(confidence: Array, right: NDArray[np.bool_]) -> list[tuple[int, float, float]]:
    """Return for each tenth of the confidence: how many, their mean confidence, the share right."""
    tenth = np.minimum((10 * confidence).astype(int), 9)
    return [
        (
            int(np.sum(tenth == k)),
            float(confidence[tenth == k].mean()),
            float(right[tenth == k].mean()),
        )
        for k in np.unique(tenth)
    ]


def predict_numbers(
    model: Any, A: Array, a: Array, B: Array, b: Array, seed: int
) -> dict[str, float]:
    """Return the scores of a regressor, with 95% intervals of Gaussian processes and boosting.

    Boosting takes two more fits for them, to the quantiles; all three count in its time.
    """
    start = time.perf_counter()
    model.fit(A, a)
    others = []
    if isinstance(model, HistGradientBoostingRegressor):
        others = [
            HistGradientBoostingRegressor(loss="quantile", quantile=q, random_state=seed).fit(A, a)
            for q in (0.025, 0.975)
        ]
    fitted = time.perf_counter()
    interval = None
    last = model[-1] if hasattr(model, "steps") else model
    if isinstance(last, TabularGPRegressor):
        mean, ends = model.predict(B, return_quantiles=[0.025, 0.975])
        interval = ends.T
    elif isinstance(last, IntersectionGPRegressor):
        mean, std = model.predict(B, return_std=True)
        interval = mean - 1.96 * std, mean + 1.96 * std
    else:
        mean = model.predict(B)
        if others:
            interval = others[0].predict(B), others[1].predict(B)
    end = time.perf_counter()
    unit = np.std(a)
    scores = {"RMSE": float(np.sqrt(np.mean((mean - b) ** 2)) / unit)}
    if interval is not None:
        lower, upper = interval
        scores["coverage"] = float(np.mean((lower <= b) & (b <= upper)))
        scores["width"] = float(np.mean(upper - lower) / unit)
    return {**scores, "fit": fitted - start, "predict": end - fitted}


def least_certain(X: Array, y: NDArray[np.intp], rows: NDArray[np.intp], P: Array) -> list[Image]:
    """Return the images whose probabilities have the largest entropy."""
    entropy = -np.sum(P * np.log(np.maximum(P, 1e-300)), axis=1)
    order = np.argsort(-entropy, kind="stable")[:N_UNCERTAIN]
    return [
        Image(int(rows[i]), X[rows[i]].reshape(8, 8), int(y[rows[i]]), P[i]) for i in order.tolist()
    ]


def shape_curves(n_curves: int = 3, n_points: int = 33) -> list[Curve]:
    """Return the functions of the columns that matter most to the progression of diabetes."""
    diabetes = datasets.load_diabetes(scaled=False)
    X, y = diabetes.data, diabetes.target
    scaler = MinMaxScaler(clip=True)
    model = IntersectionGPRegressor(random_state=0).fit(scaler.fit_transform(X), y)
    functions = model.shape_functions()
    spread = [
        np.std(np.interp(Z, f.knots, f.values))
        for f, Z in zip(functions, scaler.transform(X).T, strict=True)
    ]
    largest = np.argsort(spread)[::-1][:n_curves]
    found = model.shape_functions(largest, max_knots=n_points, return_std=True)
    return [
        Curve(
            diabetes.feature_names[d],
            f.knots * scaler.data_range_[d] + scaler.data_min_[d],
            f.values,
            f.std,
        )
        for d, f in zip(largest.tolist(), found, strict=True)
    ]
