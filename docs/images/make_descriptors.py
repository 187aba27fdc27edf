"""Make descriptors.svg, the picture of the guide: `python docs/images/make_descriptors.py`."""

from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from scipy.spatial.distance import cdist
from sklearn.datasets import load_sample_images

from histrs.descriptors import BagOfVisualWords, edge_points, shape_context

mpl.use("Agg")
mpl.rcParams["svg.hashsalt"] = "histrs"

SIZE, STRIDE, N_WORDS = 16, 8, 10
photographs = [image.mean(axis=2) for image in load_sample_images().images]


def patches(image):
    """Return patches, one per row, without their brightness, and the shape of their grid."""
    windows = np.lib.stride_tricks.sliding_window_view(image, (SIZE, SIZE))[::STRIDE, ::STRIDE]
    rows = windows.reshape(-1, SIZE * SIZE)
    return (rows - rows.mean(axis=1, keepdims=True)) / 255, windows.shape[:2]


words = BagOfVisualWords(N_WORDS, random_state=0)
histograms = words.fit_transform([patches(image)[0] for image in photographs])
order = np.argsort(histograms[0] - histograms[1])
fig = plt.figure(figsize=(9, 5), layout="constrained")
top, bottom = fig.subfigures(2, 1)
axes = top.subplots(1, 3)
for image, ax in zip(photographs, axes, strict=False):
    rows, grid = patches(image)
    rank = np.argsort(order)[cdist(rows, words.words_).argmin(axis=1)]
    ax.imshow(image, cmap="gray")
    extent = (0, STRIDE * grid[1], STRIDE * grid[0], 0)
    ax.imshow(rank.reshape(grid), cmap="tab10", alpha=0.6, vmin=0, vmax=9, extent=extent)
    ax.set_axis_off()
positions = np.arange(N_WORDS)
for shift, histogram, label in zip((-0.2, 0.2), histograms, ("temple", "flower"), strict=True):
    axes[2].bar(positions + shift, histogram[order], 0.4, label=label)
for k, tick in enumerate(axes[2].set_xticks(positions, ["■"] * N_WORDS)):
    tick.label1.set_color(plt.get_cmap("tab10")(k))
axes[2].set(title="visual words of the photographs", ylabel="fraction of the patches")
axes[2].legend()

rows, columns = np.indices((48, 48)) - 24
shapes = {
    "disc": rows**2 + columns**2 < 15**2,
    "square": np.maximum(abs(rows), abs(columns)) < 14,
    "bar": (abs(rows) < 5) & (abs(columns) < 20),
}
contexts = shape_context(list(shapes.values()), random_state=0)
axes = bottom.subplots(1, 6)
for i, (name, shape) in enumerate(shapes.items()):
    points, _ = edge_points(shape)
    axes[2 * i].imshow(shape, cmap="gray_r", alpha=0.3)
    axes[2 * i].plot(points[:, 1], points[:, 0], ".", markersize=2)
    axes[2 * i].set(title=name, xticks=[], yticks=[])
    axes[2 * i + 1].imshow(contexts[i].reshape(5, 12), cmap="viridis", aspect="auto")
    axes[2 * i + 1].set(title="shape context", xlabel="direction", xticks=[], yticks=[])
    axes[2 * i + 1].set_ylabel("distance")
fig.savefig(Path(__file__).with_name("descriptors.svg"), metadata={"Date": None})
