"""The regressor and the classifier of tables beside boosted trees: fits, predictions, pickles."""

import importlib
import pickle
from collections.abc import Callable
from functools import cache, partial
from importlib.util import find_spec
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import accuracy_score
from sklearn.model_selection import RandomizedSearchCV

from benches import _data
from benches._harness import Figure, Side, Target, Trial, row
from benches._peers import N_THREADS
from histrs.gaussian_process import TabularGPClassifier, TabularGPRegressor

OURS = "TabularGP"
NOTE = (
    "Columns are normal with correlations, every third is skewed or, in mixed tables, words. The "
    "target is sines of single columns, a product, a step and an effect of words, of variance 1 "
    "together, and noise of standard deviation 0.3. Every side has its defaults and "
    f"{N_THREADS} threads."
)
# What 20 random trials of LightGBM are drawn from.
_TRIALS = {
    "num_leaves": [7, 15, 31, 63, 127],
    "learning_rate": [0.02, 0.05, 0.1, 0.2],
    "n_estimators": [100, 300, 1000],
    "min_child_samples": [5, 20, 80],
    "colsample_bytree": [0.5, 0.8, 1.0],
    "reg_lambda": [0.0, 1.0, 10.0],
}


def table(n: int, d: int, mixed: bool = False, seed: int = 0) -> tuple[pd.DataFrame, Any]:
    """Return a frame and its target, as `NOTE` says; the function does not depend on the seed."""
    rng, fixed = np.random.default_rng(seed), np.random.default_rng(100)
    loadings, slopes = fixed.normal(size=(3, d)), fixed.uniform(0.5, 2.0, d)
    sizes = fixed.standard_gamma(1.0, d) * (np.arange(d) < max(4, d // 2))
    Z = (rng.normal(size=(n, 3)) @ loadings + 2.0 * rng.normal(size=(n, d))) / np.sqrt(7.0)
    f = np.sin(slopes * Z) @ sizes / np.linalg.norm(sizes)
    f += Z[:, 0] * Z[:, 1] + (Z[:, 2] > 0.5)
    X = pd.DataFrame(Z, columns=[f"x{k}" for k in range(d)])
    for k in range(2, d, 3):
        X[f"x{k}"] = np.exp(Z[:, k])
        if mixed:
            words = np.array([f"word {j}" for j in range(8)])
            X[f"x{k}"] = words[np.digitize(Z[:, k], np.linspace(-1.5, 1.5, 7))]
    # Its standard deviation over a million rows, nearly.
    return X, f / 1.5 + 0.3 * rng.normal(size=n)


def words(X: pd.DataFrame) -> list[str]:
    """Return the columns that are no numbers."""
    return [name for name in X if not pd.api.types.is_numeric_dtype(X[name])]


def _categories(X: pd.DataFrame) -> pd.DataFrame:
    return X.astype(dict.fromkeys(words(X), "category"))


def _catboost(X: pd.DataFrame, y: Any) -> Any:
    from catboost import CatBoostRegressor

    given: dict[str, Any] = {"verbose": False, "allow_writing_files": False, "random_seed": 0}
    return CatBoostRegressor(cat_features=words(X), thread_count=N_THREADS, **given).fit(X, y)


def lightgbm(X: pd.DataFrame, y: Any, trials: int = 0) -> Any:
    """Fit LightGBM, with its defaults or the best of some trials."""
    from lightgbm import LGBMRegressor

    model = LGBMRegressor(n_jobs=N_THREADS, random_state=0, verbose=-1)
    if trials > 0:
        model = RandomizedSearchCV(model, _TRIALS, n_iter=trials, cv=3, random_state=0)
    return model.fit(_categories(X), y)


def _deep(name: str, X: pd.DataFrame, y: Any) -> Any:
    model = getattr(importlib.import_module("pytabkit"), f"{name}_Regressor")
    return model(device="cpu", n_threads=N_THREADS, random_state=0).fit(X, y)


def _peers(trials: int) -> dict[str, Callable[..., Any]]:
    """Return the peers that are installed."""
    known: dict[str, tuple[str, Callable[..., Any]]] = {
        "CatBoost": ("catboost", _catboost),
        "LightGBM": ("lightgbm", lightgbm),
        "RealMLP": ("pytabkit", partial(_deep, "RealMLP_TD")),
        "xRFM": ("pytabkit", partial(_deep, "XRFM_D")),
    }
    if trials > 0:
        known[f"LightGBM, {trials} trials"] = "lightgbm", partial(lightgbm, trials=trials)
    return {name: fit for name, (package, fit) in known.items() if find_spec(package)}


@cache
def _ours(n: int, d: int) -> TabularGPRegressor:
    return TabularGPRegressor(random_state=0, n_jobs=N_THREADS).fit(*table(n, d))


def _slower(peer: str, most: float) -> Target:
    return Target(f"time over that of {peer}", ratio(OURS, peer), at_most=most)


def fit(
    quick: bool,
    *,
    n: int,
    d: int,
    limits: dict[str, float],
    seconds: float | None = None,
    most_bytes: float | None = None,
    mixed: bool = False,
    trials: int = 0,
) -> Trial:
    """A whole fit with the defaults, beside peers that are installed."""
    n, d = (200, 6) if quick else (n, d)
    X, y = table(n, d, mixed)
    rows, targets = table(2000, d, mixed, seed=1)

    def rmse(name: str, model: Any) -> float:
        found = model.predict(_categories(rows) if name.startswith("LightGBM") else rows)
        return float(np.sqrt(np.mean((found - targets) ** 2)))

    peers = _peers(2 if quick and trials else trials)
    sides = [
        Side(
            OURS,
            lambda _: TabularGPRegressor(random_state=0, n_jobs=N_THREADS).fit(X, y),
            digest=partial(rmse, OURS),
            memory=most_bytes is not None,
        ),
        *(
            Side(name, lambda _, f=f: f(X, y), digest=partial(rmse, name), peer=True)
            for name, f in peers.items()
        ),
    ]
    wanted = [_slower(name, most) for name, most in limits.items() if name in peers]
    if seconds is not None:
        wanted.append(Target("seconds", lambda m: m.median(OURS), at_most=seconds, unit="s"))
    if most_bytes is not None:
        wanted.append(
            Target("peak", lambda m: m.peak_bytes[OURS] / 1e9, at_most=most_bytes / 1e9, unit="GB")
        )
    return Trial(
        sides,
        wanted,
        figures=lambda m: [Figure(f"RMSE, {name}", m.digests[name]) for name in m.digests],
        note=f"{n:,} x {d}, and 2,000 rows to test. {NOTE}",
        once=n >= 20_000 and not quick,
    )


for _name, _given in {
    "tabular-fit-1000": {"n": 1000, "d": 10, "limits": {"CatBoost": 2.0}},
    "tabular-fit-3000": {"n": 3000, "d": 12, "limits": {"CatBoost": 3.0, "RealMLP": 0.1}},
    "tabular-fit-10000": {"n": 10_000, "d": 20, "limits": {"CatBoost": 8.0, "xRFM": 1 / 3}},
    "tabular-fit-24000": {
        "n": 24_000,
        "d": 14,
        "limits": {"LightGBM, 20 trials": 1.0},
        "seconds": 60.0,
        "mixed": True,
        "trials": 20,
    },
    "tabular-fit-60000": {"n": 60_000, "d": 20, "limits": {}, "seconds": 240.0, "most_bytes": 8e9},
}.items():
    _size = f"{_given['n']:,} x {_given['d']}{', mixed' if 'mixed' in _given else ''}"
    row(_name, f"TabularGP: fit, {_size}")(partial(fit, **_given))


def images(quick: bool) -> Trial:
    """A fit of all of Fashion-MNIST, and its accuracy."""
    n, n_test = (300, 100) if quick else (60_000, 10_000)
    data = _data.named_classes("fashion", n, 60, n_test, quick)
    model = TabularGPClassifier(random_state=0, n_jobs=N_THREADS)

    def accuracy(model: TabularGPClassifier) -> float:
        return float(accuracy_score(data.y_test, model.predict(data.X_test)))

    fitted = Side(OURS, lambda _: model.fit(data.X, data.y), digest=accuracy, memory=True)
    return Trial(
        [fitted],
        [
            Target("seconds", lambda m: m.median(OURS), at_most=60.0, unit="s"),
            Target("peak", lambda m: m.peak_bytes[OURS] / 1e9, at_most=5.0, unit="GB"),
        ],
        figures=lambda m: [Figure("accuracy", m.digests[OURS])],
        note=f"{data.X.shape[0]:,} x {data.X.shape[1]}, ten classes: {data.source}.",
        once=not quick,
    )


row("tabular-fashion", "TabularGP: fit, Fashion-MNIST")(images)


def predict(quick: bool) -> Trial:
    """Predictions by a model of 10,000 rows: means, widths, and rows that lack values."""
    n, d = (200, 6) if quick else (10_000, 20)
    (rows, _), rng = table(n, d, seed=1), np.random.default_rng(2)
    lacking = rows.where(rng.random(rows.shape) > 0.3)
    mean, std, lacks = "mean", "standard deviation", "mean, 30% of values missing"
    sides = [
        Side(mean, lambda _: _ours(n, d).predict(rows)),
        Side(std, lambda _: _ours(n, d).predict(rows, return_std=True)),
        Side("quantiles", lambda _: _ours(n, d).predict(rows, return_quantiles=[0.025, 0.975])),
        Side(lacks, lambda _: _ours(n, d).predict(lacking)),
    ]
    wanted = [
        Target("us a row, mean", lambda m: m.median(mean) / n * 1e6, at_most=30.0, unit="us"),
        *(
            Target(f"{name}: time over that of means", ratio(name, mean), at_most=5.0)
            for name in (std, "quantiles")
        ),
    ]
    if "CatBoost" in _peers(0):
        peer = _catboost(*table(n, d))
        sides.append(Side("CatBoost", lambda _: peer.predict(rows), peer=True))
        wanted.append(Target("mean: time over CatBoost's", ratio(mean, "CatBoost"), at_most=10.0))
    return Trial(
        [Side(s.name, s.run, s.prepare, nothing, s.peer) for s in sides],
        wanted,
        figures=lambda m: [
            Figure(f"{s.name}: a row", m.median(s.name) / n * 1e6, "us") for s in sides
        ],
        note=f"{n:,} x {d} to fit, and as many to predict. {NOTE}",
    )


def ratio(name: str, other: str) -> Callable[[Any], float]:
    """Return the time of a side over that of another."""
    return lambda m: m.median(name) / m.median(other)


def nothing(_: Any) -> None:
    """Keep nothing of a result."""


row("tabular-predict", "TabularGP: predict 10,000 rows by a model of 10,000")(predict)


def one(quick: bool) -> Trial:
    """One row of a frame."""
    n, d = (200, 6) if quick else (10_000, 20)
    rows, _ = table(1, d, seed=1)
    sides = [Side(OURS, lambda _: _ours(n, d).predict(rows), digest=nothing)]
    wanted = [Target("ms", lambda m: m.median(OURS) * 1e3, at_most=1.0, unit="ms")]
    if "LightGBM" in _peers(0):
        peer = lightgbm(*table(n, d))
        sides.append(Side("LightGBM", lambda _: peer.predict(rows), digest=nothing, peer=True))
        wanted.append(_slower("LightGBM", 1.0))
    return Trial(sides, wanted, note=f"{n:,} x {d} to fit. {NOTE}")


row("tabular-one-row", "TabularGP: predict one row of a frame, by a model of 10,000")(one)


def pickled(quick: bool) -> Trial:
    """Bytes of a pickle, over those of the training table."""
    n, d = (200, 6) if quick else (10_000, 20)
    name, size = "pickle.dumps", 8.0 * n * d

    def tables(m: Any) -> float:
        return m.digests[name] / size

    # Every model has what standard deviations take.
    return Trial(
        [Side(name, lambda _: pickle.dumps(_ours(n, d)), digest=len)],
        [Target("size over that of the training table", tables, at_most=10.0)],
        figures=lambda m: [Figure("pickle", m.digests[name] / 1e6, "MB")],
        note=f"{n:,} x {d}, {size / 1e6:.2f} MB in double precision. {NOTE}",
    )


row("tabular-pickle", "TabularGP: pickle of a model of 10,000 x 20")(pickled)
