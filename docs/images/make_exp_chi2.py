"""Make exp_chi2.svg, the picture of the guide: `python docs/images/make_exp_chi2.py`.

The 100 plant leaves (C. Mallah, J. Cope and J. Orwell, 2013, UCI, CC BY 4.0) are read from the
folder that HISTRS_DATA names.
"""

import os
import time
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from sklearn.kernel_approximation import (
    AdditiveChi2Sampler,
    Nystroem,
    RBFSampler,
    SkewedChi2Sampler,
)
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

from histrs.kernel_approximation import AdditiveChi2Map, ExpChi2Sampler
from histrs.metrics import chi2_distances, exp_chi2_kernel

mpl.use("Agg")
mpl.rcParams["svg.hashsalt"] = "histrs"

SEEDS = range(3)
C = 10.0


def leaves():
    """Return margin and texture histograms of leaves, and their species."""
    folder = Path(os.environ.get("HISTRS_DATA", "../shared/data")) / "leaves100"
    parts = []
    for name in ("Mar", "Tex"):
        lines = (folder / f"data_{name}_64.txt").read_text().splitlines()
        table = np.array([line.split(",") for line in lines])
        table = table[np.argsort(table[:, 0], kind="stable")]
        parts.append(table[:, 1:].astype(float))
    return np.hstack(parts), table[:, 0]


def error_for_cost(ax):
    """Kernel error against time a row, at growing numbers of features."""
    n, gamma = 2000, 1.5
    X = np.random.default_rng(0).dirichlet(np.ones(300), size=n)
    K = exp_chi2_kernel(X[:400], gamma=gamma)
    families = {
        "ExpChi2Sampler": lambda D: ExpChi2Sampler(D, gamma=gamma, random_state=0),
        "AdditiveChi2Sampler + RBFSampler": lambda D: make_pipeline(
            AdditiveChi2Sampler(sample_steps=3),
            RBFSampler(gamma=gamma, n_components=D, random_state=0),
        ),
        "Nystroem": lambda D: Nystroem("chi2", gamma=gamma, n_components=D, random_state=0),
        "SkewedChi2Sampler": lambda D: SkewedChi2Sampler(
            skewedness=0.01, n_components=D, random_state=0
        ),
    }
    for (name, make), marker in zip(families.items(), "osD^", strict=True):
        points = []
        for D in (125, 250, 500, 1000) if name == "Nystroem" else (125, 500, 2000, 8000):
            model = make(D).fit(X)
            times = []
            for _ in range(4):
                start = time.perf_counter()
                Z = model.transform(X)
                times.append(time.perf_counter() - start)
            Z = Z[: len(K)]
            error = np.sqrt(np.mean((Z @ Z.T - K) ** 2))
            points.append((min(times) / n * 1e6, error))
            print(f"{name}, {D}: {points[-1][0]:.3g} us per row, error {error:.2e}", flush=True)
        ax.loglog(*zip(*points, strict=True), marker=marker, markersize=4, label=name)
    ax.set_xlabel("time a row, µs")
    ax.set_ylabel("root mean square error of the kernel")
    ax.legend(fontsize=7)


def accuracy(ax):
    """Accuracy of one SVC on the exact kernel, and on features with each of the four maps."""
    X, y = leaves()
    train = np.arange(len(X)) % 4 != 0
    gamma = 1 / np.median(chi2_distances(X[train]))
    K = exp_chi2_kernel(X, X[train], gamma=gamma)
    exact = SVC(kernel="precomputed", C=C).fit(K[train], y[train]).score(K[~train], y[~train])
    print(f"exact: {exact:.4f}", flush=True)
    ax.axhline(100 * exact, color="black", linestyle="--", linewidth=1, label="exact kernel")
    counts = [64, 128, 256, 512, 1024, 2048, 4096]
    for method, marker in zip(("rational", "chebyshev", "periodic", "power"), "osD^", strict=True):
        means = []
        for D in counts:
            scores = []
            for seed in SEEDS:
                base = AdditiveChi2Map(3, method=method)
                model = ExpChi2Sampler(D, gamma=gamma, base_map=base, random_state=seed)
                Z = model.fit(X[train]).transform(X)
                K = Z @ Z[train].T
                svc = SVC(kernel="precomputed", C=C).fit(K[train], y[train])
                scores.append(svc.score(K[~train], y[~train]))
            means.append(100 * np.mean(scores))
        print(method, np.round(means, 2), flush=True)
        ax.semilogx(counts, means, marker=marker, markersize=4, label=method)
    ax.set_xlabel("random features D")
    ax.set_ylabel("accuracy, %")
    ax.legend(fontsize=7)


fig, (left, right) = plt.subplots(1, 2, figsize=(8, 3.4), layout="constrained")
error_for_cost(left)
accuracy(right)
fig.savefig(Path(__file__).with_name("exp_chi2.svg"), metadata={"Date": None})
