"""Explained deviance of counts: ``python -m benches.counts``.

Frames of `benches.quality` whose target is a count, one split of 3,000 to 3,500 training rows, no
tuning. Categories are columns of zeros and ones, and missing numbers are means.
"""

import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
from catboost import CatBoostRegressor
from lightgbm import LGBMRegressor
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.impute import SimpleImputer
from sklearn.linear_model import PoissonRegressor
from sklearn.metrics import d2_tweedie_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from benches.quality.splits import splits
from benches.quality.tables import Rows, listed
from histrs.gaussian_process import IntersectionGPRegressor
from histrs.gaussian_process.kernels import Interactions, Intersection

COUNTS = (
    "AER/GSS7402/kids",
    "AER/NMES1988/visits",
    "Ecdat/VietNamI/pharvis",
    "sampleSelection/RandHIE/mdvis",
    "sandwich/InstInnovation/patents",
)
MOST = 3500
LEVELS = Intersection(levels="auto")
MODELS: dict[str, Callable[[], Any]] = {
    "IntersectionGP": lambda: _poisson(LEVELS),
    "with ten pairs": lambda: _poisson(LEVELS + Interactions(10)),
    "PoissonRegressor": lambda: PoissonRegressor(alpha=1e-3, max_iter=1000),
    "HistGradientBoosting": lambda: HistGradientBoostingRegressor(loss="poisson", random_state=0),
    "LightGBM": lambda: LGBMRegressor(objective="poisson", verbose=-1, random_state=0),
    "CatBoost": lambda: CatBoostRegressor(objective="Poisson", verbose=0, random_state=0),
}
# Deviances of a mean of zero are infinite.
_LEAST_MEAN = 1e-6


def _poisson(kernel: Any) -> IntersectionGPRegressor:
    return IntersectionGPRegressor(kernel, likelihood="poisson", random_state=0)


def main() -> None:
    """Print a table: what part of the deviance each model explains, and its seconds."""
    print("| table |", " | ".join(MODELS), "| in 95% intervals | dispersion |")
    for name, (A, y), (B, truth) in _parts():
        cells, said = [], ""
        for title, make in MODELS.items():
            start = time.perf_counter()
            model = make().fit(A, y)
            mean = np.maximum(model.predict(B), _LEAST_MEAN)
            seconds = time.perf_counter() - start
            cells.append(f"{d2_tweedie_score(truth, mean, power=1):.3f} ({seconds:.1f} s)")
            if title == "with ten pairs":
                low, high = model.predict(B, return_quantiles=[0.025, 0.975])[1].T
                said = f"{np.mean((truth >= low) & (truth <= high)):.3f} | {model.noise_:.2f}"
        print(f"| {name} |", " | ".join(cells), f"| {said} |", flush=True)


def _parts() -> Iterator[tuple[str, tuple[Any, Any], tuple[Any, Any]]]:
    for table in listed():
        if table.name not in COUNTS:
            continue
        rows = table.load()
        first = [s for s in splits(rows, has_classes=False) if s.seed == 0]
        split = max((s for s in first if len(s.train) <= MOST), key=lambda s: len(s.train))
        encoder = _encoder(rows)
        X = rows.X.astype({c: str for c in rows.X.columns if c not in _numbers(rows.X)})
        A, B = encoder.fit_transform(X.iloc[split.train]), encoder.transform(X.iloc[split.test])
        y = np.asarray(rows.y, dtype=np.float64)
        yield table.name, (A, y[split.train]), (B, y[split.test])


def _numbers(X: pd.DataFrame) -> list[str]:
    return list(X.select_dtypes("number").columns)


def _encoder(rows: Rows) -> Any:
    numbers = _numbers(rows.X)
    words = [c for c in rows.X.columns if c not in numbers]
    return make_column_transformer(
        (make_pipeline(SimpleImputer(), StandardScaler()), numbers),
        (OneHotEncoder(sparse_output=False, min_frequency=10, handle_unknown="ignore"), words),
    )


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", message="Found unknown categories|X does not have valid")
        main()
