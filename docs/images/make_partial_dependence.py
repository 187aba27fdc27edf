"""Make partial_dependence.svg of the guide.

Run `.venv/bin/python docs/images/make_partial_dependence.py`.
"""

from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
from sklearn.datasets import make_friedman1

from histrs.gaussian_process import TabularGPRegressor
from histrs.plotting import plot_partial_dependence

mpl.use("Agg")
mpl.rcParams["svg.hashsalt"] = "histrs"

X, y = make_friedman1(1000, noise=1.0, random_state=0)
names = [f"x{d}" for d in range(10)]
model = TabularGPRegressor(random_state=0).fit(X[:750], y[:750])

figure, axes = plt.subplots(1, 3, figsize=(10, 2.9), layout="constrained")
for ax, features in zip(axes, (2, 9, (0, 1)), strict=True):
    found = model.partial_dependence(X[:750], features)
    plot_partial_dependence(found, feature_names=names, ax=ax)
axes[1].sharey(axes[0])
path = Path(__file__).with_name("partial_dependence.svg")
figure.savefig(path, metadata={"Date": None}, dpi=150)
