"""Make interactions.svg of the guide: `.venv/bin/python docs/images/make_interactions.py`."""

from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
from sklearn.datasets import make_friedman1

from histrs.gaussian_process import IntersectionGPRegressor
from histrs.gaussian_process.kernels import Interactions, Intersection
from histrs.plotting import plot_pair_functions, plot_shape_functions

mpl.use("Agg")
mpl.rcParams["svg.hashsalt"] = "histrs"

X, y = make_friedman1(1000, noise=1.0, random_state=0)
names = [f"x{d}" for d in range(10)]
model = IntersectionGPRegressor(Intersection() + Interactions(1), random_state=0).fit(X, y)

figure, axes = plt.subplots(1, 3, figsize=(9, 2.7), layout="constrained")
plot_shape_functions(model, [0, 2], feature_names=names, axes=axes[:2])
plot_pair_functions(model, feature_names=names, axes=axes[2])
figure.savefig(Path(__file__).with_name("interactions.svg"), metadata={"Date": None}, dpi=150)
