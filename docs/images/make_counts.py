"""Make counts.svg of the guide: `.venv/bin/python docs/images/make_counts.py`."""

from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from histrs.gaussian_process import IntersectionGPRegressor
from histrs.gaussian_process.kernels import Splines

mpl.use("Agg")
mpl.rcParams["svg.hashsalt"] = "histrs"
TRUTH = {"age": lambda x: ((x - 50) / 30) ** 2, "power": lambda x: 0.004 * x}


def main():
    """Draw the two functions of the guide's program, with the truth."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"age": rng.uniform(18, 90, 800), "power": rng.gamma(4, 25, 800)})
    years = rng.uniform(0.1, 3, 800)
    rate = 0.2 * np.exp(sum(TRUTH[name](X[name]) for name in X))
    claims = rng.poisson(years * rate * rng.gamma(2, 0.5, 800))
    model = IntersectionGPRegressor(Splines(), likelihood="poisson")
    model.fit(X, claims, exposure=years)
    fig, axes = plt.subplots(1, 2, figsize=(8, 3), sharey=True, layout="constrained")
    functions = model.shape_functions(return_std=True)
    for ax, name, function in zip(axes, X, functions, strict=True):
        x, values, std = function.knots, function.values, function.std
        truth = TRUTH[name](x)
        # Functions are known but for a constant.
        truth += np.mean(np.interp(X[name], x, values) - TRUTH[name](X[name]))
        ax.fill_between(x, values - 2 * std, values + 2 * std, alpha=0.3, linewidth=0)
        ax.plot(x, values, label="function, two standard deviations")
        ax.plot(x, truth, color="0.2", linestyle="--", label="truth")
        ax.set(xlabel=name)
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].set(ylabel="logarithm of the rate")
    axes[0].legend(frameon=False, loc="upper center")
    fig.savefig(Path(__file__).with_name("counts.svg"), metadata={"Date": None})


main()
