"""Make relevance.svg of the guide: `.venv/bin/python docs/images/make_relevance.py`."""

from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np

from histrs.gaussian_process import IntersectionGPRegressor
from histrs.gaussian_process.kernels import Intersection
from histrs.plotting import plot_relevance, plot_shape_functions

mpl.use("Agg")
mpl.rcParams["svg.hashsalt"] = "histrs"

rng = np.random.default_rng(0)
X = rng.random((400, 300))
y = np.sin(6 * X[:, 7]) + 2 * np.abs(X[:, 42] - 0.4) + X[:, 123] ** 3
y += 0.2 * rng.standard_normal(400)
model = IntersectionGPRegressor(0.01 * Intersection(feature_weights="ard"), random_state=0).fit(
    X, y
)

figure, axes = plt.subplots(1, 4, figsize=(11, 2.9), layout="constrained")
plot_relevance(model, max_features=6, ax=axes[0])
plot_shape_functions(model, [7, 42, 123], axes=axes[1:])
for ax in axes[2:]:
    ax.sharey(axes[1])
path = Path(__file__).with_name("relevance.svg")
figure.savefig(path, metadata={"Date": None})
