"""Smooth shape functions beside rough ones and pyGAM's splines: ``python -m benches.smooth``.

Written is the table of ``docs/guide/additive_models.md``. pyGAM is left out where it is not
installed. ``--classes`` prints what the classifier makes of smooth functions instead.
"""

import argparse
import time
from collections.abc import Callable, Collection, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import MinMaxScaler

from benches._data import CLASSES, REGRESSION
from histrs.gaussian_process import IntersectionGPClassifier, IntersectionGPRegressor
from histrs.gaussian_process.kernels import Intersection, Splines

Array = NDArray[np.float64]
MODELS = ("linear", "cubic", "both", "pyGAM")
KERNELS = {"linear": Intersection(), "cubic": Splines(), "both": Splines(rough_weight=1.0)}
# Rows of a function that was made: to learn from, and to predict.
TRAINED, TESTED = 750, 500
# Most rows of a table.
MOST_ROWS = 1500


class Split(NamedTuple):
    """Rows to learn from and to predict; `truth` is without noise where it is known."""

    A: Array
    a: Array
    B: Array
    b: Array
    truth: Array
    deviation: float
    """Of the targets, or of the function without noise."""


def curves(rng: np.random.Generator) -> tuple[Array, Array, float]:
    """Return rows, a smooth function of them, and the deviation of much noise."""
    X = rng.random((TRAINED + TESTED, 6))
    f = np.sin(2 * np.pi * X[:, 0]) + 4 * (X[:, 1] - 0.5) ** 2 + np.exp(2 * X[:, 2]) / 3
    return X, f + 2 * X[:, 3], 0.5


def sines(rng: np.random.Generator) -> tuple[Array, Array, float]:
    """Return rows, sines of them, and the deviation of little noise."""
    X = rng.random((TRAINED + TESTED, 8))
    return X, sum(np.sin((2 + k) * X[:, k] + k) for k in range(6)), 0.05


def steps(rng: np.random.Generator) -> tuple[Array, Array, float]:
    """Return rows, a function with steps and a kink, and the deviation of the noise."""
    X = rng.random((TRAINED + TESTED, 5))
    f = np.floor(4 * X[:, 0]) % 2 + 3 * np.abs(X[:, 1] - 0.3) + np.sin(6 * X[:, 2])
    return X, f, 0.3


MADE: dict[str, Callable[[np.random.Generator], tuple[Array, Array, float]]] = {
    "curves, noisy": curves,
    "sines, little noise": sines,
    "steps, a kink, a sine": steps,
}


def splits(n_splits: int) -> Iterator[tuple[str, list[Split]]]:
    """Yield the name and the splits of every table."""
    for name, load in REGRESSION.items():
        try:
            X, y = load()
        except FileNotFoundError:
            print(f"{name}: not there (HISTRS_DATA)", flush=True)
            continue
        yield name, [_of_table(X, y, seed) for seed in range(n_splits)]
    for name, make in MADE.items():
        yield name, [_made(make, seed) for seed in range(n_splits)]


def _of_table(X: Array, y: Array, seed: int) -> Split:
    A, B, a, b = train_test_split(X, y, test_size=0.25, random_state=seed)
    A, a = A[:MOST_ROWS], a[:MOST_ROWS]
    scaler = MinMaxScaler(clip=True).fit(A)
    return Split(scaler.transform(A), a, scaler.transform(B), b, b, float(np.std(y)))


def _made(make: Callable[[np.random.Generator], tuple[Array, Array, float]], seed: int) -> Split:
    rng = np.random.default_rng(seed)
    X, f, noise = make(rng)
    y = f + noise * rng.standard_normal(len(X))
    rows, others = slice(None, TRAINED), slice(TRAINED, None)
    return Split(X[rows], y[rows], X[others], y[others], f[others], float(np.std(f)))


def judge(name: str, split: Split) -> tuple[float, float]:
    """Return the error over the deviation, and the share of rows in intervals of 95%."""
    if name == "pyGAM":
        from pygam import LinearGAM

        strengths = np.logspace(-3, 3, 11)
        model: Any = LinearGAM().gridsearch(split.A, split.a, progress=False, lam=strengths)
        mean = model.predict(split.B)
        low, high = model.prediction_intervals(split.B, width=0.95).T
    else:
        model = IntersectionGPRegressor(KERNELS[name], random_state=0).fit(split.A, split.a)
        mean, std = model.predict(split.B, return_std=True)
        low, high = mean - 1.96 * std, mean + 1.96 * std
    error = np.sqrt(np.mean((mean - split.truth) ** 2)) / split.deviation
    return float(error), float(np.mean((low <= split.b) & (split.b <= high)))


def judge_classes(name: str, X: Array, y: Array, seed: int) -> tuple[float, float, float]:
    """Return log loss, accuracy and seconds of the fit of a split of a table with classes."""
    A, B, a, b = train_test_split(X, y, test_size=0.25, random_state=seed, stratify=y)
    A, a = A[:MOST_ROWS], a[:MOST_ROWS]
    scaler = MinMaxScaler(clip=True).fit(A)
    start = time.perf_counter()
    model = IntersectionGPClassifier(KERNELS[name], random_state=0).fit(scaler.transform(A), a)
    seconds = time.perf_counter() - start
    P = model.predict_proba(scaler.transform(B))
    return (
        log_loss(b, P, labels=model.classes_),
        float(np.mean(b == model.classes_[P.argmax(axis=1)])),
        seconds,
    )


def print_classes(n_splits: int, tables: Collection[str] | None) -> None:
    """Print the table of the classifier."""
    print("| log loss (accuracy, seconds) | linear | both |\n|---|--:|--:|", flush=True)
    for table, load in CLASSES.items():
        if tables is not None and table not in tables:
            continue
        try:
            X, y = load()
        except FileNotFoundError:
            print(f"{table}: not there (HISTRS_DATA)", flush=True)
            continue
        cells = []
        for name in ("linear", "both"):
            parts = [judge_classes(name, X, y, seed) for seed in range(n_splits)]
            loss, right, seconds = np.mean(parts, axis=0)
            cells.append(f"{loss:.3f} ({100 * right:.1f} %, {seconds:.1f})")
        print(f"| {table} | {' | '.join(cells)} |", flush=True)


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--classes", action="store_true", help="the classifier instead")
    parser.add_argument("--tables", nargs="+", help="of the classifier: these alone")
    options = parser.parse_args()
    if options.classes:
        print_classes(options.splits, options.tables)
        return
    models = [name for name in MODELS if name != "pyGAM" or _has_gam()]
    print(f"| error / deviation | {' | '.join(models)} |\n|---|{'--:|' * len(models)}", flush=True)
    for table, parts in splits(options.splits):
        cells = []
        for name in models:
            error, share = np.mean([judge(name, part) for part in parts], axis=0)
            cells.append(f"{error:.3f} ({share:.2f})")
        print(f"| {table} | {' | '.join(cells)} |", flush=True)


def _has_gam() -> bool:
    try:
        import pygam  # noqa: F401
    except ImportError:
        return False
    return True


if __name__ == "__main__":
    main()
