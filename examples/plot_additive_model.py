"""
An additive model with its uncertainty
======================================

``min(x, x')`` is the covariance of Brownian motion. The posterior mean with the histogram
intersection kernel is therefore a sum of piecewise linear functions, one per feature. The figure
shows a model of one feature: the exact posterior mean and a band of two predictive standard
deviations. A look-up table of eight cells predicts in constant time. Noise and amplitude are
learned.
"""

import matplotlib.pyplot as plt
import numpy as np

from histrs.gaussian_process import IntersectionGPRegressor
from histrs.gaussian_process.kernels import Splines

rng = np.random.default_rng(7)
X = rng.gamma(2.0, 0.15, size=(60, 1)).clip(max=1.0)
y = np.sin(7 * X[:, 0]) + 0.15 * rng.standard_normal(60)

model = IntersectionGPRegressor(random_state=0).fit(X, y)
grid = np.linspace(0, 1, 400)[:, None]
mean, std = model.predict(grid, return_std=True)

tabulated = IntersectionGPRegressor(n_bins=8, random_state=0).fit(X, y)

fig, ax = plt.subplots(figsize=(8, 4), layout="constrained")
ax.fill_between(grid[:, 0], mean - 2 * std, mean + 2 * std, alpha=0.2, label="±2 std, exact")
ax.plot(grid, mean, label="posterior mean, exact")
ax.plot(grid, tabulated.predict(grid), "--", label="look-up table of 8 cells")
ax.plot(grid, np.sin(7 * grid), ":", color="0.4", label="truth")
ax.plot(X, y, ".", color="0.2", label="data")
ax.set(xlabel="feature", ylabel="target")
ax.legend(ncols=3, fontsize="small", loc="lower left")
plt.show()

# %%
# The target is smooth. Integrated Brownian motion as the prior gives a cubic smoothing spline, with
# a narrower band.
smooth = IntersectionGPRegressor(Splines(), random_state=0).fit(X, y)
fig, axes = plt.subplots(1, 2, figsize=(8, 3.2), layout="constrained", sharey=True)
for ax, fitted, title in ((axes[0], model, "piecewise linear"), (axes[1], smooth, "cubic")):
    latent, variance = fitted.latent_mean_and_variance(grid)
    band = 2 * np.sqrt(variance)
    ax.fill_between(grid[:, 0], latent - band, latent + band, alpha=0.2)
    ax.plot(grid, latent)
    ax.plot(grid, np.sin(7 * grid), ":", color="0.4")
    ax.plot(X, y, ".", color="0.2", markersize=3)
    ax.set(xlabel="feature", title=title)
axes[0].set(ylabel="target")
plt.show()

# %%
# The error of the look-up table is below its certified bound:
error = np.abs(tabulated.predict(grid) - mean).max()
print(f"largest error {error:.3f}, certified {tabulated.quantization_error_bound_[0]:.3f}")
