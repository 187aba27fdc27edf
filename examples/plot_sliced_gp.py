"""
An interaction, the metric that finds it, and intervals
=======================================================

The target of Friedman's first table is ``10 sin(pi x0 x1) + 20 (x2 - 1/2)^2 + 10 x3 + 5 x4`` and
noise of deviation 1; five further columns do nothing. No sum of functions of one column each can
be the first term. A Gaussian process on learned projections finds it, and says of each
prediction how sure it is.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_friedman1
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

from histrs.gaussian_process import IntersectionGPRegressor, SlicedGPRegressor

X, y = make_friedman1(1000, noise=1.0, random_state=0)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)

sliced = SlicedGPRegressor(random_state=0).fit(X_train, y_train)
additive = make_pipeline(MinMaxScaler(clip=True), IntersectionGPRegressor(random_state=0)).fit(
    X_train, y_train
)
for name, model in (("additive", additive), ("sliced", sliced)):
    print(f"{name:8}  RMSE {np.sqrt(np.mean((model.predict(X_test) - y_test) ** 2)):.2f}")

# %%
# What the model makes of the two columns that interact, the others at one half, beside the truth:
# the additive model can only shift a curve.
ticks = np.linspace(0.0, 1.0, 41)
grid = np.full((ticks.size**2, 10), 0.5)
grid[:, 0], grid[:, 1] = (part.ravel() for part in np.meshgrid(ticks, ticks))
surfaces = {
    "truth": 10 * np.sin(np.pi * grid[:, 0] * grid[:, 1]) + 7.5,
    "additive": additive.predict(grid),
    "sliced": sliced.predict(grid),
}
fig, axes = plt.subplots(1, 3, figsize=(9, 3.2), sharey=True, layout="constrained")
for ax, (name, values) in zip(axes, surfaces.items(), strict=True):
    filled = ax.contourf(ticks, ticks, values.reshape(41, 41), levels=np.arange(2, 21, 1.5))
    ax.set(title=name, xlabel="x0")
axes[0].set_ylabel("x1")
fig.colorbar(filled, ax=axes, label="prediction")
plt.show()

# %%
# The learned metric is the mean outer product of the gradients of what projections predict:
# columns 0 and 1 have the largest entries, the five without use nearly none. The parabola of
# column 2 is not in it, as the additive part of the kernel has taken that over. Beside it, the
# rows that were put aside, with intervals of 95%.
mean, std = sliced.predict(X_test, return_std=True)
covered = np.abs(y_test - mean) < 1.96 * std
print(f"{covered.mean():.0%} of {len(y_test)} rows lie in their intervals")
print("importances", sliced.feature_importances_.round(2))

fig, (left, right) = plt.subplots(1, 2, figsize=(9, 4), width_ratios=(1, 1.3), layout="constrained")
largest = np.abs(sliced.metric_).max()
picture = left.imshow(sliced.metric_, cmap="RdBu_r", vmin=-largest, vmax=largest)
left.set(title="metric_", xlabel="column", ylabel="column", xticks=range(10), yticks=range(10))
fig.colorbar(picture, ax=left, shrink=0.8)
some = np.argsort(mean)[::4]
right.errorbar(
    mean[some], y_test[some], yerr=1.96 * std[some], fmt=".", color="0.5", ecolor="0.8", zorder=1
)
right.plot(mean[~covered], y_test[~covered], "x", color="tab:red", label="outside of its interval")
right.plot([0, 26], [0, 26], color="0.3", linewidth=1)
right.set(title="rows put aside", xlabel="prediction", ylabel="target")
right.legend(loc="upper left")
plt.show()
