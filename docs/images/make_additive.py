"""Make additive.svg of the guide: `.venv/bin/python docs/images/make_additive.py`."""

from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
from sklearn.datasets import load_diabetes
from sklearn.preprocessing import MinMaxScaler

from histrs.gaussian_process import IntersectionGPRegressor
from histrs.gaussian_process.kernels import Intersection
from histrs.plotting import plot_relevance, plot_shape_functions

mpl.use("Agg")
mpl.rcParams["svg.hashsalt"] = "histrs"

X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
scaler = MinMaxScaler().set_output(transform="pandas")
model = IntersectionGPRegressor(Intersection(feature_weights="ard"), random_state=0).fit(
    scaler.fit_transform(X), y
)

figure, axes = plt.subplots(1, 4, figsize=(11, 2.9), layout="constrained")
plot_relevance(model, ax=axes[0])
names = ["bmi", "bp", "s5"]
plot_shape_functions(model, [X.columns.get_loc(name) for name in names], axes=axes[1:])
for ax, name in zip(axes[1:], names, strict=True):
    ax.sharey(axes[1])
    column = X.columns.get_loc(name)
    low, width = scaler.data_min_[column], scaler.data_range_[column]
    ax.xaxis.set_major_formatter(lambda t, _, low=low, width=width: f"{low + width * t:.3g}")
figure.savefig(Path(__file__).with_name("additive.svg"), metadata={"Date": None})
