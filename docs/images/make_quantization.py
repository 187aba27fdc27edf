"""Make quantization.svg, the picture of the guide: `python docs/images/make_quantization.py`."""

from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
from sklearn.datasets import load_digits

from histrs.quantization import ProductQuantizer
from histrs.svm import BundleSVC

mpl.use("Agg")
mpl.rcParams["svg.hashsalt"] = "histrs"

X, y = load_digits(return_X_y=True)
shown = range(1000, 1006)
blocks = [32, 16, 8, 4, 2]
fig = plt.figure(figsize=(8, 3.6), layout="constrained")
left, right = fig.subfigures(1, 2)
axes = left.subplots(len(blocks) + 1, len(shown))
for image, ax in zip(X[shown], axes[0], strict=True):
    ax.imshow(image.reshape(8, 8), cmap="gray_r")
axes[0, 0].set_ylabel("512 B", rotation=0, ha="right", va="center")
for n_blocks, row in zip(blocks, axes[1:], strict=True):
    pq = ProductQuantizer(n_blocks, 64, random_state=0).fit(X[:1000])
    decoded = pq.inverse_transform(pq.transform(X[shown]))
    for image, ax in zip(decoded, row, strict=True):
        ax.imshow(image.reshape(8, 8), cmap="gray_r")
    row[0].set_ylabel(f"{n_blocks} B", rotation=0, ha="right", va="center")
for ax in axes.flat:
    ax.set(xticks=[], yticks=[])

ax = right.subplots()
for metric, marker in [("euclidean", "o"), ("hellinger", "s"), ("intersection", "^")]:
    scores = []
    for n_blocks in blocks:
        pq = ProductQuantizer(n_blocks, 64, metric, random_state=0)
        model = BundleSVC(pq, alpha=1e-4, tol=1e-2).fit(X[:1000] / 16, y[:1000])
        scores.append(model.score(X[1000:] / 16, y[1000:]))
    ax.plot(blocks, scores, marker=marker, label=metric)
linear = BundleSVC(alpha=1e-4, tol=1e-2).fit(X[:1000] / 16, y[:1000])
score = linear.score(X[1000:] / 16, y[1000:])
ax.axhline(score, color="black", label="linear, all 512 bytes")
ax.set(xscale="log", xticks=blocks, xticklabels=blocks, xlabel="bytes per row", ylabel="accuracy")
ax.minorticks_off()
ax.legend()
fig.savefig(Path(__file__).with_name("quantization.svg"), metadata={"Date": None})
