"""
Measurements of different precision
===================================

Two instruments measure the same curve. Their standard deviations are known: 0.05 and 0.6. Give each
row the weight of one over its variance. The model then divides the noise variance of a row by its
weight, and the fit stays exact.
"""

import matplotlib.pyplot as plt
import numpy as np

from histrs.gaussian_process import IntersectionGPRegressor

rng = np.random.default_rng(1)
x = np.sort(rng.uniform(0, 10, 240))
curve = np.sin(x) + 0.3 * x
precise = rng.random(240) < 0.25
deviation = np.where(precise, 0.05, 0.6)
y = curve + deviation * rng.normal(size=240)
X, grid = x[:, None], np.linspace(0, 10, 400)
truth = np.sin(grid) + 0.3 * grid

fig, axes = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True, layout="constrained")
for ax, weights, title in zip(
    axes, (None, deviation**-2), ("all rows alike", "weights 1 / variance"), strict=True
):
    model = IntersectionGPRegressor(random_state=0).fit(X, y, sample_weight=weights)
    mean, variance = model.latent_mean_and_variance(grid[:, None])
    error = np.sqrt(np.mean((mean - truth) ** 2))
    print(f"{title}: error {error:.3f}")
    band = 1.96 * np.sqrt(variance)
    ax.fill_between(grid, mean - band, mean + band, color="tab:blue", alpha=0.2)
    ax.plot(x[~precise], y[~precise], ".", color="0.75", label="imprecise")
    ax.plot(x[precise], y[precise], "k.", label="precise")
    ax.plot(grid, truth, color="tab:orange", label="truth")
    ax.plot(grid, mean, color="tab:blue", label="posterior mean, 95%")
    ax.set(title=f"{title}: error {error:.2f}", xlabel="x")
axes[0].legend(loc="upper left", fontsize="small")
axes[0].set_ylabel("y")
plt.show()
