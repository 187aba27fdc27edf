"""
Intervals that widen where the model is uncertain
=================================================

The noise of this target grows with `x`, and there are no training rows in the middle. Boosted trees
with a quantile loss learn the noise, but their intervals do not widen without training rows. An
interval of `TabularGPRegressor` is wide for both reasons.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor

from histrs.gaussian_process import TabularGPRegressor

rng = np.random.default_rng(0)
x = rng.uniform(0.0, 10.0, 900)
x = x[(x < 4.0) | (x > 6.0)]
truth, noise = (lambda x: np.sin(1.2 * x) + 0.2 * x), (lambda x: 0.05 + 0.06 * x)
y = truth(x) + noise(x) * rng.standard_normal(len(x))

grid = np.linspace(0.0, 10.0, 300)[:, None]
model = TabularGPRegressor(random_state=0).fit(x[:, None], y)
bands = {"TabularGPRegressor": model.predict_interval(grid, coverage=0.95).T}
trees = [
    HistGradientBoostingRegressor(loss="quantile", quantile=q, random_state=0).fit(x[:, None], y)
    for q in (0.025, 0.975)
]
bands["boosted trees, quantile loss"] = np.vstack([tree.predict(grid) for tree in trees])

fig, axes = plt.subplots(1, 2, figsize=(10, 3.8), sharey=True, layout="constrained")
for ax, (name, (low, high)) in zip(axes, bands.items(), strict=True):
    ax.plot(x, y, ".", color="0.7", markersize=3)
    ax.fill_between(grid[:, 0], low, high, alpha=0.4, label="95% interval")
    ax.plot(grid, truth(grid), color="0.2", label="truth")
    ax.set(title=name, xlabel="x")
    widths = [np.mean((high - low)[np.abs(grid[:, 0] - at) < 0.5]) for at in (1.0, 5.0, 9.0)]
    print(f"{name}: widths at 1, 5 and 9: " + ", ".join(f"{width:.2f}" for width in widths))
axes[0].legend()
plt.show()
