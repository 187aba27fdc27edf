"""Many rows of many classes: the classifier for tables, beside a tuned support vector machine."""

from collections.abc import Callable
from functools import cache, partial
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.metrics import accuracy_score, log_loss
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.svm import SVC

from benches._data import FASHION_MNIST, LETTERS, data_folder, fashion_images, letter_table
from benches._harness import Check, Figure, Measured, Side, Target, Trial, row
from histrs.gaussian_process import SlicedGPClassifier

OURS, PEER = "SlicedGPClassifier", "scikit-learn's SVC, tuned"
# Rows that C and gamma are chosen by.
_TUNING_ROWS = 4000


class Table(NamedTuple):
    """Rows and labels, to fit and to predict."""

    X: NDArray[np.float64]
    X_test: NDArray[np.float64]
    y: NDArray[Any]
    y_test: NDArray[Any]
    source: str


def _letters(quick: bool) -> Table:
    if quick:
        return _digits()
    table = letter_table()
    if table is None:
        raise FileNotFoundError(f"no pmlb/letter.tsv.gz in {data_folder()}: set HISTRS_DATA")
    X, y = table[:, :-1], table[:, -1].astype(np.int64)
    parts = train_test_split(X, y, test_size=4000, random_state=0, stratify=y)
    return Table(*parts, source=LETTERS)


def _garments(quick: bool) -> Table:
    if quick:
        return _digits()
    train, test = fashion_images("train"), fashion_images("t10k")
    if train is None or test is None:
        raise FileNotFoundError(f"no Fashion-MNIST in {data_folder()}: set HISTRS_DATA")
    X, X_test = (pixels.astype(np.float64) for pixels, _ in (train, test))
    return Table(X, X_test, train[1], test[1], FASHION_MNIST)


def _digits() -> Table:
    X, y = load_digits(return_X_y=True)
    return Table(*train_test_split(X, y, random_state=0), source="scikit-learn's digits")


def _tuned(table: Table) -> SVC:
    """Return a machine with the C and gamma that a grid search on some rows likes best."""
    some = np.random.default_rng(0).permutation(len(table.X))[:_TUNING_ROWS]
    X, y = table.X[some], table.y[some]
    scale = 1.0 / (X.shape[1] * X.var())
    grid = {"C": [1.0, 10.0, 100.0], "gamma": [scale * factor for factor in (0.3, 1.0, 3.0, 10.0)]}
    return SVC(**GridSearchCV(SVC(), grid, cv=3, n_jobs=1).fit(X, y).best_params_)


def classes(load: Callable[[bool], Table], quick: bool) -> Trial:
    """Time to fit, and how well rows are told apart."""
    table = cache(load)

    def answers(model: Any) -> dict[str, float]:
        X_test, y_test = table(quick).X_test, table(quick).y_test
        start = perf_counter()
        predicted = model.predict(X_test)
        found = {"predict": perf_counter() - start, "right": accuracy_score(y_test, predicted)}
        if isinstance(model, SVC):
            return found
        return found | {
            "log loss": log_loss(y_test, model.predict_proba(X_test)),
            "matern": float(model.kernel_ == "matern"),
        }

    def figures(m: Measured) -> list[Figure]:
        ours = m.digests[OURS]
        return [
            *(Figure(f"{x}: right", 100.0 * m.digests[x]["right"], "%") for x in (OURS, PEER)),
            Figure(f"{OURS}: log loss", ours["log loss"]),
            *(Figure(f"{x}: predict all", m.digests[x]["predict"], "s") for x in (OURS, PEER)),
        ]

    data = table(quick)
    return Trial(
        sides=[
            Side(
                OURS,
                lambda table: SlicedGPClassifier(random_state=0).fit(table.X, table.y),
                lambda: table(quick),
                answers,
                memory=True,
            ),
            Side(
                PEER,
                lambda given: given[1].fit(given[0].X, given[0].y),
                lambda: (table(quick), _tuned(table(quick))),
                answers,
                peer=True,
            ),
        ],
        checks=[
            Check(
                "points of accuracy below the peer's",
                lambda results: {OURS: 100.0 * (results[PEER]["right"] - results[OURS]["right"])},
                limit=0.5,
            )
        ],
        figures=figures,
        note=f"{data.source}: {len(data.X):,} rows of {data.X.shape[1]} columns to fit, "
        f"{len(data.X_test):,} to predict. {OURS} with its defaults; C and gamma of the peer by a "
        f"grid search with {_TUNING_ROWS:,} rows, which is not timed.",
        once=not quick,
    )


row("classes-letter", "Letters told apart, 16,000 rows")(partial(classes, _letters))
row("classes-fashion", "Fashion-MNIST told apart, 60,000 rows")(partial(classes, _garments))


def projections(quick: bool) -> Trial:
    """Projections in place of distances: the cost is linear in the rows."""
    n_projections = 32 if quick else 512
    table = _garments(quick)

    def answers(model: SlicedGPClassifier) -> dict[str, float]:
        exact = model.decision_function(table.X_test)
        model.set_params(n_bins=100)
        tabulated = model.decision_function(table.X_test)
        start = perf_counter()
        model.decision_function(table.X_test)
        seconds = perf_counter() - start
        return {
            "right": accuracy_score(table.y_test, model.classes_[np.argmax(exact, axis=1)]),
            "right, tables": accuracy_score(
                table.y_test, model.classes_[np.argmax(tabulated, axis=1)]
            ),
            "row": seconds / len(tabulated) * 1e6,
            "bound": float(np.max(np.abs(tabulated - exact) / model.quantization_error_bound_)),
        }

    def of_row(m: Measured) -> float:
        return float(m.digests[OURS]["row"])

    def figures(m: Measured) -> list[Figure]:
        found = m.digests[OURS]
        return [
            Figure(f"{OURS}: right", 100.0 * found["right"], "%"),
            Figure(f"{OURS}: right, tables of 100 bins", 100.0 * found["right, tables"], "%"),
            Figure(f"{OURS}: scores of a row by tables", of_row(m), "us"),
        ]

    return Trial(
        sides=[
            Side(
                OURS,
                lambda table: SlicedGPClassifier(n_projections=n_projections, random_state=0).fit(
                    table.X, table.y
                ),
                lambda: table,
                answers,
                memory=True,
            )
        ],
        targets=[
            Target("fit", lambda m: m.median(OURS), at_most=60, unit=" s"),
            Target("scores of a row by tables", of_row, at_most=10, unit=" us"),
        ],
        checks=[
            Check(
                "largest error of the tables, in certified bounds",
                lambda results: {OURS: results[OURS]["bound"]},
                limit=1.0,
            )
        ],
        figures=figures,
        note=f"{table.source}: {len(table.X):,} rows of {table.X.shape[1]} columns to fit, "
        f"{len(table.X_test):,} to predict; {n_projections} projections, all else by default.",
        once=not quick,
    )


row("classes-projections", "Fashion-MNIST, 60,000 rows, 512 projections")(projections)
