"""Make active_learning.svg of the guide: `python docs/images/make_active_learning.py`."""

from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from histrs.gaussian_process import (
    IntersectionGPClassifier,
    IntersectionGPRegressor,
    active_learning,
)
from histrs.gaussian_process.kernels import Intersection

mpl.use("Agg")
mpl.rcParams["svg.hashsalt"] = "histrs"

STYLES = {
    "variance-reduction": "-",
    "uncertainty": "-",
    "mean": "--",
    "variance": "-.",
    "random": ":",
}
COLOURS = dict(zip(STYLES, ["tab:red", "tab:blue", "tab:orange", "tab:green", "0.4"], strict=True))


def digits(strategy, seed):
    """Return numbers of labels, and the accuracy with as many."""
    X, y = load_digits(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X, y, train_size=500, random_state=seed)
    first = [np.flatnonzero(y == digit)[0] for digit in range(10)]
    model = IntersectionGPClassifier(noise=10.0, optimizer=None, random_state=0)
    rounds = active_learning.learn(
        model, X, y.take, labelled=first, n_rounds=45, n_instances=2, strategy=strategy,
        random_state=seed,
    )  # fmt: skip
    curve = [(len(r.labelled), 100 * r.model.score(X_test, y_test)) for r in rounds]
    return np.transpose(curve)


def crowded(strategy, seed):
    """Return numbers of targets, and the error, where most rows of the pool are alike."""
    rng = np.random.default_rng(seed)
    X, X_test = rng.beta(0.4, 2.5, (2000, 3)), rng.random((2000, 3))
    y, y_test = (np.sin(5 * M).sum(axis=1) for M in (X, X_test))
    y += 0.1 * rng.standard_normal(len(y))
    model = IntersectionGPRegressor(
        2.0 * Intersection(), noise=0.01, optimizer=None, random_state=0
    )
    rounds = active_learning.learn(
        model, X, y.take, labelled=range(5), n_rounds=55, strategy=strategy, random_state=seed
    )
    error = [np.sqrt(np.mean((r.model.predict(X_test) - y_test) ** 2)) for r in rounds]
    return np.arange(5, 5 + len(error)), error


figure, axes = plt.subplots(1, 2, figsize=(10, 3.4), layout="constrained")
for ax, run, strategies in [
    (axes[0], digits, STYLES),
    (axes[1], crowded, ["variance-reduction", "variance", "random"]),
]:
    for strategy in strategies:
        runs = [run(strategy, seed) for seed in range(5)]
        n, curve = runs[0][0], np.mean([values for _, values in runs], axis=0)
        ax.plot(n, curve, STYLES[strategy], color=COLOURS[strategy], label=strategy)
        print(run.__name__, strategy, curve[[0, 20, -1]].round(3))
axes[0].set(xlabel="labels", ylabel="accuracy, %")
axes[1].set(xlabel="targets", ylabel="error", ylim=(0, None))
for ax in axes:
    ax.legend(frameon=False)
figure.savefig(Path(__file__).with_name("active_learning.svg"), metadata={"Date": None})
