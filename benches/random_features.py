"""Error against time, beside random features and Nystroem: ``python -m benches.random_features``.

Regression on real tables and on a large one that was made, standardised columns. Random Fourier
features and Nystroem get their width by leave-one-out error of the ridge, or by the likelihood of
the Gaussian process on the features; their time is that of the whole search, as our metric and
variances are learned in ours. Every method has one thread, and the time is the processor's, which
other work on the machine hardly changes. A run that was stopped goes on. Written are
``docs/images/random_features.svg``, ``benches/results/random_features.json`` and, to be copied, the
table of the guide.
"""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import make_friedman1
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.linear_model import BayesianRidge, RidgeCV
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from benches._data import REGRESSION
from benches._harness import ROOT
from histrs.gaussian_process import SlicedGPRegressor

PICTURE = ROOT / "docs" / "images" / "random_features.svg"
RESULTS = ROOT / "benches" / "results" / "random_features.json"

Array = NDArray[Any]
# Widths of the peers' kernel, as factors of 1 / (number of columns).
WIDTHS = [0.03, 0.1, 0.3, 1.0, 3.0]
STRENGTHS = np.logspace(-6, 3, 10)
# More features of more rows take minutes a fit.
MOST_FEATURES, FEW_ROWS = 1000, 5000
FEATURES = [100, 300, 1000, 3000]
SLICES = [16, 64, 256, 1024]

TABLES: dict[str, Callable[[], tuple[Array, Array]]] = {
    **{name: REGRESSION[name] for name in ("airfoil", "concrete", "energy", "wine-quality-red")},
    "Friedman 1, 10,000 rows": lambda: make_friedman1(10_000, noise=1.0, random_state=0),
}


class Ridge:
    """Ridge regression on features, whose width and strength have the least left-out error."""

    def __init__(self, features: Callable[[float], Any]) -> None:
        self.features = features

    def fit(self, X: Array, y: Array) -> "Ridge":
        """Fit with each width, and keep the best."""
        fits = [make_pipeline(self.features(w / X.shape[1]), self.last()) for w in WIDTHS]
        centred = (y - y.mean()) / y.std()
        self.scale = y.mean(), y.std()
        self.best = max((model.fit(X, centred) for model in fits), key=self.merit)
        return self

    def last(self) -> Any:
        """Return the linear model."""
        return RidgeCV(STRENGTHS)

    def merit(self, model: Any) -> float:
        """Return what the best width has most of."""
        return float(model[-1].best_score_)

    def predict(self, X: Array) -> Array:
        """Return targets."""
        mean, deviation = self.scale
        return np.asarray(mean + deviation * self.best.predict(X))


class Process(Ridge):
    """The Gaussian process on features, whose width and variances are the likeliest."""

    def last(self) -> Any:
        """Return the linear model."""
        return BayesianRidge(compute_score=True)

    def merit(self, model: Any) -> float:
        """Return the logarithm of the likelihood."""
        return float(model[-1].scores_[-1])


def fourier(D: int) -> Callable[[float], Any]:
    """Return random Fourier features of a width."""
    return lambda gamma: RBFSampler(gamma=gamma, n_components=D, random_state=0)


def landmarks(D: int) -> Callable[[float], Any]:
    """Return Nystroem features of a width."""
    return lambda gamma: Nystroem(gamma=gamma, n_components=D, random_state=0)


METHODS: dict[str, tuple[list[int], Callable[[int], Any]]] = {
    "SlicedGPRegressor": (
        SLICES,
        lambda D: SlicedGPRegressor(n_projections=D, n_jobs=1, random_state=0),
    ),
    "RBFSampler + ridge": (FEATURES, lambda D: Ridge(fourier(D))),
    "RBFSampler + Gaussian process": (FEATURES[:3], lambda D: Process(fourier(D))),
    "Nystroem + ridge": (FEATURES[:3], lambda D: Ridge(landmarks(D))),
}


def measure(found: dict[str, Any], n_splits: int) -> None:
    """Add the median seconds and the errors of each method and size, by table, and write them."""
    for table, load in TABLES.items():
        try:
            X, y = load()
        except FileNotFoundError:
            print(f"{table}: not there (HISTRS_DATA)", flush=True)
            continue
        rows = found.setdefault(table, {name: [] for name in METHODS})
        parts = [train_test_split(X, y, test_size=0.25, random_state=s) for s in range(n_splits)]
        for name, (sizes, make) in METHODS.items():
            for size in sizes[len(rows[name]) :]:
                if size > MOST_FEATURES and len(y) > FEW_ROWS:
                    continue
                runs = [_run(make(size), *part) for part in parts]
                seconds, errors = np.transpose(runs)
                row = {"size": size, "seconds": float(np.median(seconds)), "errors": list(errors)}
                rows[name].append(row)
                RESULTS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
                print(
                    f"{table}, {name}, {size}: {row['seconds']:.2f} s, {errors.mean():.4f}",
                    flush=True,
                )


def _run(model: Any, A: Array, B: Array, a: Array, b: Array) -> tuple[float, float]:
    """Return the seconds of fit and prediction, and the error in deviations of the target."""
    start = time.process_time()
    with threadpool_limits(1):
        scaler = StandardScaler().fit(A)
        predicted = model.fit(scaler.transform(A), a).predict(scaler.transform(B))
    seconds = time.process_time() - start
    return seconds, float(np.sqrt(np.mean((predicted - b) ** 2)) / np.std(a))


def draw(found: dict[str, Any], path: Path) -> None:
    """Draw a panel a table: error against time."""
    mpl.rcParams["svg.hashsalt"] = "histrs"
    figure, axes = plt.subplots(1, len(found), figsize=(3.2 * len(found), 3.1), squeeze=False)
    for ax, (table, methods) in zip(axes[0], found.items(), strict=True):
        for (name, rows), style in zip(methods.items(), ("o-", "s--", "^:", "D-."), strict=True):
            errors = np.array([row["errors"] for row in rows])
            bars = errors.std(axis=1) / np.sqrt(errors.shape[1])
            times = [row["seconds"] for row in rows]
            ax.errorbar(times, errors.mean(axis=1), bars, fmt=style, ms=4, label=name)
        ax.set(xscale="log", title=table, xlabel="seconds of one core")
    axes[0, 0].set_ylabel("error / deviation of the target")
    handles, names = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=len(names), frameon=False)
    figure.set_layout_engine("constrained")
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def table(found: dict[str, Any]) -> str:
    """Return, as Markdown, each method's error at its best size, and the seconds it took."""
    lines = ["| | " + " | ".join(found) + " |", "|---" + "|--:" * len(found) + "|"]
    for name in METHODS:
        cells = []
        for methods in found.values():
            best = min(methods[name], key=lambda row: float(np.mean(row["errors"])))
            cells.append(f"{np.mean(best['errors']):.3f} ({best['seconds']:.2g} s)")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    """Measure, or draw what was measured."""
    parser = argparse.ArgumentParser(prog="python -m benches.random_features", description=__doc__)
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--render", action="store_true", help="draw what was measured before")
    parser.add_argument("--anew", action="store_true", help="measure all again")
    options = parser.parse_args()
    mpl.use("Agg")
    kept = RESULTS.exists() and not options.anew
    found = json.loads(RESULTS.read_text(encoding="utf-8")) if kept else {}
    if not options.render:
        measure(found, options.splits)
    draw(found, PICTURE)
    print(table(found))


if __name__ == "__main__":
    main()
