"""How good the answers are, on tables of 2,000 rows: ``python -m benches.quality_small``.

Every table is split at random some times into three quarters to fit and a quarter to predict.
Every model has one thread, and its time is the processor's, which other work on the machine hardly
changes. Scores that are in ``benches/results/quality.json`` are kept, so that a run which was
stopped goes on, and the page ``docs/quality.md`` is made of all of them; ``--anew`` measures again.
"""

import argparse
import json
import time
import warnings
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.linear_model import LogisticRegressionCV, RidgeCV
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.svm import SVC, SVR
from threadpoolctl import threadpool_limits

from benches._data import CLASSES, REGRESSION
from benches._harness import ROOT
from histrs.gaussian_process import (
    IntersectionGPClassifier,
    IntersectionGPRegressor,
    TabularGPClassifier,
    TabularGPRegressor,
)

PAGE = ROOT / "docs" / "quality.md"
RESULTS = ROOT / "benches" / "results" / "quality.json"
# Rows of a table, drawn at random where there are more.
MOST_ROWS = 2000

PROCESS = "scikit-learn GP"
BOOSTING_MACHINE = "EBM"

Model = Callable[[], Any]


def _non_negative(model: Any) -> Any:
    """Return the model on columns that begin at 0; beyond the training rows they are clipped."""
    return make_pipeline(MinMaxScaler(clip=True), model)


def _lightgbm(kind: str) -> dict[str, Model]:
    try:
        import lightgbm
    except ImportError:
        return {}
    return {"LightGBM": lambda: getattr(lightgbm, kind)(verbose=-1)}


def _boosting_machine(kind: str) -> dict[str, Model]:
    """Return the additive peer with pairs: an explainable boosting machine."""
    try:
        from interpret import glassbox
    except ImportError:
        return {}
    return {BOOSTING_MACHINE: lambda: getattr(glassbox, kind)(random_state=0, n_jobs=1)}


class _Process(GaussianProcessRegressor):  # type: ignore[misc]
    """scikit-learn's, with a length of its own for each column, and noise."""

    def fit(self, X: Any, y: Any) -> "_Process":
        """Fit to rows whose columns have a spread of 1."""
        lengths = RBF(np.ones(X.shape[1]), (1e-2, 1e4))
        self.set_params(kernel=1.0 * lengths + WhiteKernel(0.1), normalize_y=True)
        super().fit(X, y)
        return self


def _runs(name: str, X: NDArray[Any], y: NDArray[Any], kind: str) -> bool:
    """Say whether a model takes minutes at most, not hours."""
    if kind == "regression" or name not in (PROCESS, BOOSTING_MACHINE):
        return True
    n_classes = len(np.unique(y))
    return n_classes == 2 if name == BOOSTING_MACHINE else len(X) <= 1000 and n_classes <= 3


# What a support vector machine is tuned over, by five folds.
_GRID = {"C": [0.3, 3.0, 30.0, 300.0], "gamma": [0.01, 0.1, "scale"]}


REGRESSORS: dict[str, Model] = {
    "TabularGP": lambda: TabularGPRegressor(n_jobs=1, random_state=0),
    "IntersectionGP": lambda: _non_negative(IntersectionGPRegressor(n_jobs=1, random_state=0)),
    "HistGradientBoosting": lambda: HistGradientBoostingRegressor(random_state=0),
    **_lightgbm("LGBMRegressor"),
    **_boosting_machine("ExplainableBoostingRegressor"),
    "random forest": lambda: RandomForestRegressor(random_state=0, n_jobs=1),
    "SVM, tuned": lambda: make_pipeline(
        StandardScaler(),
        TransformedTargetRegressor(GridSearchCV(SVR(), _GRID), transformer=StandardScaler()),
    ),
    PROCESS: lambda: make_pipeline(StandardScaler(), _Process(random_state=0)),
    "ridge": lambda: make_pipeline(StandardScaler(), RidgeCV(np.logspace(-4, 4, 17))),
}
CLASSIFIERS: dict[str, Model] = {
    "TabularGP": lambda: TabularGPClassifier(n_jobs=1, random_state=0),
    "IntersectionGP": lambda: _non_negative(IntersectionGPClassifier(n_jobs=1, random_state=0)),
    "HistGradientBoosting": lambda: HistGradientBoostingClassifier(random_state=0),
    **_lightgbm("LGBMClassifier"),
    **_boosting_machine("ExplainableBoostingClassifier"),
    "random forest": lambda: RandomForestClassifier(random_state=0, n_jobs=1),
    "SVM, tuned": lambda: make_pipeline(
        StandardScaler(),
        CalibratedClassifierCV(GridSearchCV(SVC(), _GRID), ensemble=False),
    ),
    PROCESS: lambda: make_pipeline(
        StandardScaler(), GaussianProcessClassifier(1.0 * RBF(1.0), random_state=0)
    ),
    "logistic, tuned": lambda: make_pipeline(
        StandardScaler(), LogisticRegressionCV(scoring="neg_log_loss", max_iter=500)
    ),
}


def _calibration_error(P: NDArray[np.float64], codes: NDArray[np.intp]) -> float:
    """Return the expected calibration error of the most probable class, in ten bins."""
    confidence, right = P.max(axis=1), P.argmax(axis=1) == codes
    bins = np.minimum((10 * confidence).astype(int), 9)
    gaps = [abs(np.sum(right[bins == b] - confidence[bins == b])) for b in range(10)]
    return float(np.sum(gaps) / len(P))


def _regress(model: Any, A: Any, a: Any, B: Any, b: Any) -> dict[str, float]:
    start = time.process_time()
    model.fit(A, a)
    fitted = time.process_time()
    std = None
    if _gives_std(model):
        mean, std = model.predict(B, return_std=True)
    else:
        mean = model.predict(B)
    end = time.process_time()
    scores = {"RMSE": float(np.sqrt(np.mean((mean - b) ** 2)) / np.std(a))}
    if std is not None:
        scores["coverage"] = float(np.mean(np.abs(mean - b) < 1.96 * std))
    return scores | {"fit": fitted - start, "predict": end - fitted}


def _gives_std(model: Any) -> bool:
    last = model[-1] if hasattr(model, "steps") else model
    return isinstance(last, IntersectionGPRegressor | TabularGPRegressor | GaussianProcessRegressor)


def _classify(model: Any, A: Any, a: Any, B: Any, b: Any) -> dict[str, float]:
    start = time.process_time()
    model.fit(A, a)
    fitted = time.process_time()
    P = model.predict_proba(B)
    end = time.process_time()
    return {
        "log loss": float(log_loss(b, np.clip(P, 1e-15, 1), labels=range(P.shape[1]))),
        "accuracy": float(np.mean(P.argmax(axis=1) == b)),
        "calibration error": _calibration_error(P, b),
        "fit": fitted - start,
        "predict": end - fitted,
    }


def measure(found: dict[str, Any], n_splits: int, log: Callable[[str], None]) -> None:
    """Add the scores of every model that are missing, table by table, and write them."""
    for kind, tables, models, judge in (
        ("regression", REGRESSION, REGRESSORS, _regress),
        ("classification", CLASSES, CLASSIFIERS, _classify),
    ):
        for table, load in tables.items():
            try:
                X, y = load()
            except FileNotFoundError:
                log(f"{table}: not there (HISTRS_DATA)")
                continue
            if kind == "classification":
                y = np.unique(y, return_inverse=True)[1]
            if len(X) > MOST_ROWS:
                some = np.random.default_rng(0).permutation(len(X))[:MOST_ROWS]
                X, y = X[some], y[some]
            entry = found[kind].setdefault(
                table, {"rows": len(X), "columns": X.shape[1], "scores": {}}
            )
            some_models = {name: make for name, make in models.items() if _runs(name, X, y, kind)}
            strata = y if kind == "classification" else None
            for _ in add_scores(entry, judge, some_models, (X, y, strata), n_splits):
                write(found, RESULTS)
            first = "RMSE" if kind == "regression" else "log loss"
            means = {name: np.mean([s[first] for s in r]) for name, r in entry["scores"].items()}
            log(f"{table}: " + ", ".join(f"{k} {v:.3f}" for k, v in means.items()))


def add_scores(
    entry: dict[str, Any],
    judge: Any,
    models: dict[str, Model],
    table: tuple[Any, Any, Any],
    n_splits: int,
) -> Iterator[str]:
    """Add the scores of models that are missing, and yield the name of each that has all.

    A table is its rows, what is predicted, and what splits are stratified by, None for nothing.
    """
    X, y, strata = table
    for name, make in models.items():
        runs = entry["scores"].setdefault(name, [])
        for seed in range(len(runs), n_splits):
            parts = train_test_split(X, y, test_size=0.25, random_state=seed, stratify=strata)
            runs.append(_judged(judge, name, make(), *parts))
        yield name


def _judged(judge: Any, name: str, model: Any, A: Any, B: Any, a: Any, b: Any) -> dict[str, float]:
    """Return the scores of one fit, on one thread."""
    with threadpool_limits(1), warnings.catch_warnings():
        # Of the peers; ours would be a finding.
        warnings.filterwarnings("ignore", module="sklearn|lightgbm|interpret")
        if name not in ("TabularGP", "IntersectionGP"):
            warnings.simplefilter("ignore", ConvergenceWarning)
        scores: dict[str, float] = judge(model, A, a, B, b)
    return scores


def write(found: dict[str, Any], path: Path) -> None:
    """Write all scores, or leave what was there."""
    beside = path.with_suffix(".new")
    beside.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    beside.replace(path)


def kept(anew: Collection[str] | None) -> dict[str, Any]:
    """Return the scores that are there, but those of the models named; none where none are."""
    if anew == [] or not RESULTS.exists():
        return {"regression": {}, "classification": {}}
    found: dict[str, Any] = json.loads(RESULTS.read_text(encoding="utf-8"))
    for kind in ("regression", "classification"):
        for entry in found[kind].values():
            for name in anew or ():
                entry["scores"].pop(name, None)
    return found


def page(found: dict[str, Any]) -> str:
    """Return the page of all scores."""
    lines = [
        "# Quality of the answers",
        "",
        "Defaults, but where tuning is said, on tables that scikit-learn bundles and on others of "
        f"the UCI and PMLB collections, at most {MOST_ROWS:,} rows each; means over "
        f"{_n_splits(found)} random splits into three quarters and one, with standard errors. "
        "Smaller is better; the best of a row is bold. Of tables with more classes, EBM and "
        "scikit-learn's Gaussian process would take hours. Repeat it with "
        "`python -m benches.quality_small`.",
        "",
    ]
    for kind, first, title in (
        ("regression", "RMSE", "Regression: root mean square error over the standard deviation"),
        ("classification", "log loss", "Classification: log loss"),
    ):
        lines += _table(found[kind], first, title)
    lines += _summary(found)
    lines += _times(found)
    return "\n".join(lines) + "\n"


def _table(tables: dict[str, Any], score: str, title: str) -> list[str]:
    names = _names(tables)
    lines = [f"## {title}", "", "| table | rows x columns | " + " | ".join(names) + " |"]
    lines.append("|---|--:|" + "--:|" * len(names))
    whole = np.array([all(n in entry["scores"] for entry in tables.values()) for n in names])
    ranks = []
    for table, entry in tables.items():
        runs = {n: np.array([s[score] for s in entry["scores"].get(n, [])]) for n in names}
        means = np.array([runs[n].mean() if len(runs[n]) > 0 else np.nan for n in names])
        # What was not run on every table has no rank.
        ranks.append(rankdata(np.where(whole, means, np.inf)))
        cells = []
        for name, mean in zip(names, means, strict=True):
            if np.isnan(mean):
                cells.append("-")
                continue
            error = runs[name].std() / max(len(runs[name]) - 1, 1) ** 0.5
            text = f"{mean:.3f} ± {error:.3f}"
            cells.append(f"**{text}**" if mean == np.nanmin(means) else text)
        size = f"{entry['rows']:,} x {entry['columns']}"
        lines.append(f"| {table} | {size} | " + " | ".join(cells) + " |")
    mean_ranks = np.mean(ranks, axis=0)
    cells = [f"{r:.2f}" if w else "-" for r, w in zip(mean_ranks, whole, strict=True)]
    lines.append("| mean rank | | " + " | ".join(cells) + " |")
    return [*lines, ""]


def _names(tables: dict[str, Any]) -> list[str]:
    """Return the models that were run on some table, in the order in which they are listed."""
    there = dict.fromkeys(name for entry in tables.values() for name in entry["scores"])
    # Where a peer is not installed, its scores may still be there.
    first = ["TabularGP", "IntersectionGP", "HistGradientBoosting", "LightGBM", BOOSTING_MACHINE]
    listed = dict.fromkeys([*first, *REGRESSORS, *CLASSIFIERS])
    return [name for name in listed if name in there] + [n for n in there if n not in listed]


def _summary(found: dict[str, Any]) -> list[str]:
    lines = ["## In all", ""]
    wanted = {
        "classification": {
            "log loss": "mean log loss",
            "accuracy": "mean accuracy",
            "calibration error": "mean calibration error",
        },
        "regression": {"RMSE": "mean RMSE / sd", "coverage": "coverage of 95% intervals"},
    }
    for kind, scores in wanted.items():
        tables = found[kind].values()
        # Means over other tables would not compare.
        names = [n for n in _names(found[kind]) if all(n in entry["scores"] for entry in tables)]
        lines += ["| | " + " | ".join(names) + " |", "|---|" + "--:|" * len(names)]
        for score, title in scores.items():
            cells = [_over_tables(found[kind], name, score) for name in names]
            lines.append(f"| {title} | " + " | ".join(cells) + " |")
        lines.append("")
    return lines[:-1]


def _over_tables(tables: dict[str, Any], name: str, score: str) -> str:
    values = [
        np.mean([s[score] for s in entry["scores"][name]])
        for entry in tables.values()
        if name in entry["scores"] and score in entry["scores"][name][0]
    ]
    if not values:
        return "-"
    return f"{np.mean(values):.3f}"


def _n_splits(found: dict[str, Any]) -> str:
    """Return how many splits every model has, or of fewer the range."""
    counts = {
        len(runs)
        for kind in ("regression", "classification")
        for entry in found[kind].values()
        for runs in entry["scores"].values()
    }
    return str(*counts) if len(counts) == 1 else f"{min(counts)} to {max(counts)}"


def _times(found: dict[str, Any]) -> list[str]:
    """Return the processor time of models that were run on every table."""
    lines = ["", "## Time", "", "Seconds of one thread, means over tables.", ""]
    lines += [
        "| | fit, regression | predict | fit, classification | predict |",
        "|---|--:|--:|--:|--:|",
    ]
    both = dict.fromkeys(_names(found["regression"]) + _names(found["classification"]))
    for name in both:
        cells = []
        for kind in ("regression", "classification"):
            tables = found[kind].values()
            all_there = all(name in entry["scores"] for entry in tables)
            for score in ("fit", "predict"):
                text = _over_tables(found[kind], name, score) if all_there else "-"
                cells.append(text)
        if set(cells) != {"-"}:
            lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return lines


def main() -> None:
    """Measure what is missing, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--render", action="store_true", help="make the page from the results")
    parser.add_argument("--anew", nargs="*", help="models to measure again; all, if none is named")
    options = parser.parse_args()
    found = kept(options.anew)
    if not options.render:
        measure(found, options.splits, lambda line: print(line, flush=True))
    PAGE.write_text(page(found), encoding="utf-8")


if __name__ == "__main__":
    main()
