"""Make quantization_curves.svg for the guide: `python -m docs.images.make_quantization_curves`.

It needs Fashion-MNIST in the folder that HISTRS_DATA names, and takes some minutes.
"""

import time
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import NullFormatter, ScalarFormatter
from sklearn.metrics import average_precision_score

from benches._data import fashion_classes
from benches.immediate import ImmediateSVC
from histrs.quantization import ProductQuantizer
from histrs.svm import BundleSVC

mpl.use("Agg")
mpl.rcParams["svg.hashsalt"] = "histrs"

SETTINGS = {"alpha": 1e-5, "tol": 5e-2}
RUNS = 3
blocks, counts = [196, 78, 39, 19], [16, 64, 256]

data = fashion_classes(10_000, 5000)
assert data is not None, "set HISTRS_DATA"
X, X_test = (np.sqrt(part).astype(np.float32) for part in (data.X, data.X_test))


def fitted(model, X):
    """Return the model, and the shortest of some times of learning it, in seconds."""
    times = []
    for _ in range(RUNS):
        start = time.perf_counter()
        model.fit(X, data.y)
        times.append(time.perf_counter() - start)
    return model, min(times)


def precision(model, X):
    """Return the mean over the classes of the average precision, in per cent."""
    scores = model.decision_function(X).T
    each = [average_precision_score(data.y_test == k, s) for k, s in enumerate(scores)]
    return 100 * np.mean(each)


fig, axes = plt.subplots(1, 3, figsize=(9, 3.2), layout="constrained")
for n_codes, marker in zip(counts, "os^", strict=True):
    maps, times, slow = [], [], []
    for n_blocks in blocks:
        pq = ProductQuantizer(n_blocks, n_codes, max_samples=4096, max_iter=10, random_state=0)
        codes = pq.fit(X).transform(X)
        model, seconds = fitted(BundleSVC(pq, input="features", **SETTINGS), codes)
        maps.append(precision(model, pq.transform(X_test)))
        times.append(seconds)
        slow.append(fitted(ImmediateSVC(pq, input="features", **SETTINGS), codes)[1])
    label = f"{n_codes} codewords"
    axes[0].plot(blocks, maps, marker=marker, label=label)
    line = axes[1].plot(blocks, times, marker=marker, label=label)[0]
    axes[1].plot(blocks, slow, marker=marker, color=line.get_color(), linestyle="dotted")
rows, seconds = fitted(BundleSVC(**SETTINGS), X)
axes[0].axhline(precision(rows, X_test), color="black", label="all rows")
axes[1].axhline(seconds, color="black")
axes[2].plot(blocks, [len(X) * b / 2**20 for b in blocks], marker="o", color="gray", label="codes")
axes[2].axhline(X.nbytes / 2**20, color="black", label="all rows")
axes[0].set(ylabel="mean average precision, %")
axes[1].set(ylabel="time to learn, s", yscale="log")
axes[1].plot([], [], color="gray", linestyle="dotted", label="immediate expansion")
axes[2].set(ylabel="memory of the rows, MB", yscale="log")
for ax in axes:
    ax.set(xscale="log", xticks=blocks, xlabel="bytes a row of 3,136")
    ax.xaxis.set_major_formatter(ScalarFormatter())
    ax.xaxis.set_minor_formatter(NullFormatter())
axes[0].legend(fontsize=7)
axes[1].legend(*[part[-1:] for part in axes[1].get_legend_handles_labels()], fontsize=7)
axes[2].legend(fontsize=7)
fig.savefig(Path(__file__).with_name("quantization_curves.svg"), metadata={"Date": None})
