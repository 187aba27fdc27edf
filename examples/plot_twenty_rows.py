"""
Twenty rows
===========

With 20 rows, many kernels explain the data. `TabularGPRegressor` averages over them, so its
intervals are wide enough. `GaussianProcessRegressor` of scikit-learn takes the one kernel that
maximises the marginal likelihood, and its intervals are too narrow more often.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from histrs.gaussian_process import TabularGPRegressor

warnings.simplefilter("ignore", ConvergenceWarning)
X, y = load_diabetes(return_X_y=True)
kernel = ConstantKernel() * RBF(np.ones(X.shape[1])) + WhiteKernel()


def coverages(seed):
    """Return the fractions of the other patients inside the 95% intervals, of both models."""
    order = np.random.default_rng(seed).permutation(len(y))
    some, others = order[:20], order[20:]
    low, high = (
        TabularGPRegressor(random_state=0).fit(X[some], y[some]).predict_interval(X[others]).T
    )
    usual = make_pipeline(
        StandardScaler(), GaussianProcessRegressor(kernel, normalize_y=True, random_state=0)
    )
    mean, std = usual.fit(X[some], y[some]).predict(X[others], return_std=True)
    return (
        np.mean((low <= y[others]) & (y[others] <= high)),
        np.mean(np.abs(y[others] - mean) <= 1.96 * std),
    )


found = np.array([coverages(seed) for seed in range(20)])
names = ["TabularGPRegressor", "GaussianProcessRegressor"]
for name, of_model in zip(names, found.T, strict=True):
    print(f"{name}: mean {of_model.mean():.2f}, worst draw {of_model.min():.2f}")

fig, ax = plt.subplots(figsize=(7, 3), layout="constrained")
for place, of_model in enumerate(found.T):
    ax.plot(of_model, np.full(len(of_model), place), "o", alpha=0.5)
ax.axvline(0.95, color="0.3", linestyle="--")
ax.set(
    yticks=[0, 1], yticklabels=names, xlabel="fraction inside 95% intervals, 20 draws of 20 rows"
)
ax.set_ylim(-0.6, 1.6)
plt.show()
