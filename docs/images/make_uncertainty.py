"""Make uncertainty.svg of the guide: `.venv/bin/python docs/images/make_uncertainty.py`."""

from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from histrs.gaussian_process import Bins, Fine, IntersectionGPClassifier, IntersectionGPRegressor
from histrs.gaussian_process.kernels import Intersection

mpl.use("Agg")
mpl.rcParams["svg.hashsalt"] = "histrs"


def draw_variances(ax):
    """Draw the standard deviation of every method along mixtures of two bins."""
    rng = np.random.default_rng(0)
    t = np.concatenate([rng.uniform(0.05, 0.4, 40), rng.uniform(0.7, 0.8, 15)])
    y = np.sin(8 * t) + 0.1 * rng.standard_normal(len(t))
    model = IntersectionGPRegressor(noise=0.01, optimizer=None, random_state=0)
    model.fit(np.column_stack([t, 1 - t]), y)
    grid = np.linspace(0, 1, 401)
    rows = np.column_stack([grid, 1 - grid])
    for shade, way in zip(
        np.linspace(0.9, 0.35, 4), ["exact", Fine(8), Fine(2), "coarse"], strict=True
    ):
        model.set_params(variance=way)
        std = np.sqrt(model.latent_mean_and_variance(rows)[1])
        label = f"fine, {way.n_eigenvectors} eigenvectors" if isinstance(way, Fine) else way
        ax.plot(grid, std, label=label, color=plt.get_cmap("Blues")(shade))
    ax.plot(t, np.zeros_like(t), "|", color="0.3", label="training rows")
    ax.set(xlabel="fraction of the first of two bins", ylabel="std of the latent function")
    ax.set_ylim(0, 1.2)
    ax.legend(frameon=False, ncols=2, loc="upper left")


def draw_tables(ax):
    """Draw how far tabulated scores of digits are from the exact ones, against the bins."""
    X, y = load_digits(return_X_y=True)
    rng = np.random.default_rng(0)
    X = X + rng.gamma(1.0, size=X.shape)  # so that no column has few values
    X_train, X_test, y_train, _ = train_test_split(X, y, random_state=0)
    learned = IntersectionGPClassifier(likelihood="gaussian", random_state=0).fit(X_train, y_train)
    model = IntersectionGPClassifier(
        learned.amplitude_ * Intersection(feature_weights=learned.feature_weights_),
        noise=learned.noise_,
        optimizer=None,
        likelihood="gaussian",
        calibration=None,
    )
    exact = model.fit(X_train, y_train).decision_function(X_test)
    n_bins = [5, 10, 20, 50, 100, 200, 500]
    for (word, marker), colour in zip(
        [("nearest", "s"), ("linear", "o")], ["tab:orange", "tab:blue"], strict=True
    ):
        errors, bounds = [], []
        for n in n_bins:
            model.set_params(n_bins=Bins(n, word)).fit(X_train, y_train)
            difference = model.decision_function(X_test) - exact
            errors.append(np.sqrt(np.mean(difference**2)) / exact.std())
            bounds.append(model.quantization_error_bound_.max() / exact.std())
        ax.loglog(n_bins, errors, marker=marker, color=colour, label=f'"{word}", RMS error')
        ax.loglog(n_bins, bounds, ":", color=colour, label=f'"{word}", certified bound')
    ax.axhline(0.01, color="0.6", linewidth=0.8)
    ax.set(xlabel="n_bins", ylabel="error / standard deviation of the scores")
    ax.legend(frameon=False)


figure, axes = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
draw_variances(axes[0])
draw_tables(axes[1])
figure.savefig(Path(__file__).with_name("uncertainty.svg"), metadata={"Date": None})
