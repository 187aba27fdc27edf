"""Make smooth.svg of the guide: `.venv/bin/python docs/images/make_smooth.py`."""

from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
from sklearn.datasets import load_diabetes

from histrs.gaussian_process import IntersectionGPRegressor

mpl.use("Agg")
mpl.rcParams["svg.hashsalt"] = "histrs"

X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
names = ["bmi", "bp", "s5"]
indices = [X.columns.get_loc(name) for name in names]

figure, axes = plt.subplots(1, 3, figsize=(10, 3), layout="constrained", sharey=True)
for kernel, colour in (("intersection", "C1"), ("splines", "C0")):
    model = IntersectionGPRegressor(kernel, random_state=0).fit(X, y)
    # Functions of the piecewise linear model are 0 at 0; here all are drawn with a mean of 0.
    means = model.explain(X).values.mean(axis=0)
    for ax, index in zip(axes, indices, strict=True):
        (function,) = model.shape_functions([index], return_std=kernel == "splines")
        inside = function.knots >= X.iloc[:, index].min()
        knots, values = function.knots[inside], function.values[inside] - means[index]
        ax.plot(knots, values, color=colour, lw=2 if kernel == "splines" else 1, label=kernel)
        if function.std is not None:
            band = 2 * function.std
            ax.fill_between(knots, values - band, values + band, color=colour, alpha=0.2, lw=0)
for ax, name in zip(axes, names, strict=True):
    ax.set(xlabel=name)
axes[0].set(ylabel="added to the prediction")
axes[0].legend(frameon=False, fontsize="small")
figure.savefig(Path(__file__).with_name("smooth.svg"), metadata={"Date": None})
