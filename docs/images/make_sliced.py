"""Make sliced.svg of the guide, and print its table.

Run `.venv/bin/python docs/images/make_sliced.py`.
"""

from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from sklearn.base import clone
from sklearn.datasets import load_diabetes, make_friedman1
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.model_selection import ShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

from histrs.gaussian_process import IntersectionGPRegressor, SlicedGPRegressor

mpl.use("Agg")
mpl.rcParams["svg.hashsalt"] = "histrs"

rng = np.random.default_rng(0)
U = rng.random((1000, 10))
friedman = make_friedman1(1000, noise=1.0, random_state=0)
tables = {
    "diabetes": load_diabetes(return_X_y=True),
    "Friedman 1": friedman,
    "steps": (U, (U[:, 0] > 0.5) * (U[:, 1] > 0.3) + 0.1 * rng.normal(size=1000)),
}
models = {
    "additive GP": make_pipeline(MinMaxScaler(clip=True), IntersectionGPRegressor(random_state=0)),
    "sliced GP": SlicedGPRegressor(random_state=0),
    "boosted trees": HistGradientBoostingRegressor(random_state=0),
    "random forest": RandomForestRegressor(random_state=0),
}


def of_splits(model, X, y):
    """Return the error in deviations of the target, and the share of rows in 95% intervals."""
    errors, covered = [], []
    for train, test in ShuffleSplit(5, test_size=0.25, random_state=0).split(X):
        fitted = clone(model).fit(X[train], y[train])
        errors.append(np.sqrt(np.mean((fitted.predict(X[test]) - y[test]) ** 2)) / y.std())
        if "GP" in str(fitted):
            mean, std = fitted.predict(X[test], return_std=True)
            covered.append(np.mean(np.abs(y[test] - mean) < 1.96 * std))
    return np.mean(errors), f" ({np.mean(covered):.2f})" if covered else ""


print("|".join(["", "", *tables, ""]))
for name, model in models.items():
    found = [of_splits(model, *table) for table in tables.values()]
    print("|".join(["", name, *(f"{error:.3f}{covered}" for error, covered in found), ""]))

models = {name: model.fit(*friedman) for name, model in list(models.items())[:2]}
ticks = np.linspace(0.0, 1.0, 41)
grid = np.full((ticks.size**2, 10), 0.5)
grid[:, 0], grid[:, 1] = (part.ravel() for part in np.meshgrid(ticks, ticks))
surfaces = {
    "truth": 10 * np.sin(np.pi * grid[:, 0] * grid[:, 1]) + 7.5,
    **{name: model.predict(grid) for name, model in models.items()},
}
figure, axes = plt.subplots(1, 4, figsize=(11, 2.9), layout="constrained")
for ax, (name, values) in zip(axes[:3], surfaces.items(), strict=True):
    shown = ax.contourf(ticks, ticks, values.reshape(41, 41), levels=np.arange(2, 21, 1.5))
    ax.set(title=name, xlabel="column 0", ylabel="column 1" if ax is axes[0] else "")
figure.colorbar(shown, ax=axes[:3].tolist(), shrink=0.9)
metric = models["sliced GP"].metric_
shown = axes[3].imshow(metric, cmap="RdBu_r", vmin=-np.abs(metric).max(), vmax=np.abs(metric).max())
axes[3].set(title="learned metric", xticks=range(10), yticks=range(10))
figure.colorbar(shown, ax=axes[3], shrink=0.9)
figure.savefig(Path(__file__).with_name("sliced.svg"), metadata={"Date": None})
