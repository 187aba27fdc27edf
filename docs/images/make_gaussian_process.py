"""Make gaussian_process.svg of the guide: `python docs/images/make_gaussian_process.py`."""

from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np

from histrs.gaussian_process import IntersectionGPRegressor, Solver

mpl.use("Agg")
mpl.rcParams["svg.hashsalt"] = "histrs"


def draw_posterior(ax):
    """Draw mean and band of a function of one feature, and the data."""
    rng = np.random.default_rng(7)
    X = rng.gamma(2.0, 0.15, size=(60, 1)).clip(max=1.0)
    y = np.sin(7 * X[:, 0]) + 0.15 * rng.standard_normal(60)
    model = IntersectionGPRegressor(random_state=0).fit(X, y)
    grid = np.linspace(0, 1, 401)
    mean, std = model.predict(grid[:, None], return_std=True)
    ax.fill_between(grid, mean - 2 * std, mean + 2 * std, alpha=0.2, lw=0, label="±2 std")
    ax.plot(grid, mean, label="mean")
    ax.plot(grid, np.sin(7 * grid), ":", color="0.4", label="truth")
    ax.plot(X, y, ".", color="0.2", label="targets")
    ax.set(xlabel="feature", ylabel="target")
    ax.legend(frameon=False, ncols=2, loc="lower left")


def draw_iterations(ax):
    """Draw the iterations of the solver against the number of rows."""
    rng = np.random.default_rng(0)
    X = rng.random((1 << 14, 10))
    y = np.sin(6 * X).sum(axis=1) + 0.5 * rng.standard_normal(len(X))
    sizes = [1 << k for k in range(8, 15)]
    ways = [(None, "x", "none"), ("pivoted-cholesky", "s", None), ("knots", "o", None)]
    for name, marker, label in ways:
        model = IntersectionGPRegressor(
            noise=0.25,
            optimizer=None,
            random_state=0,
            solver=Solver("cg", max_iter=5000, preconditioner=name),
        )
        found = [model.fit(X[:n], y[:n]).n_iter_[0] for n in sizes]
        ax.loglog(sizes, found, marker=marker, label=label or f'"{name}"')
        print(name, found)
    ax.set(xlabel="rows", ylabel="iterations of the solver")
    ax.legend(frameon=False, title="preconditioner")


figure, axes = plt.subplots(1, 2, figsize=(10, 3.4), layout="constrained")
draw_posterior(axes[0])
draw_iterations(axes[1])
figure.savefig(Path(__file__).with_name("gaussian_process.svg"), metadata={"Date": None})
