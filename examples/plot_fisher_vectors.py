"""
From images to a classifier in one pipeline
=============================================

Local features describe small patches of an image. A Fisher vector or a histogram of visual words
summarises the features of an image in one vector, and a linear model or the intersection SVM
classifies the vector. All steps are in one scikit-learn pipeline, which is fitted and validated as
a whole.

The images are scikit-learn's digits. If the environment variable ``HISTRS_DATA`` names a folder
with ``caltech101/images.npz``, photographs of five kinds are used instead. At the end, the same
pipeline classifies pieces of the two photographs that come with scikit-learn.
"""

import io
import os
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from scipy.ndimage import uniform_filter
from sklearn.datasets import load_digits, load_sample_images
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import LinearSVC

from histrs.descriptors import BagOfVisualWords, FisherVector
from histrs.quantization import ProductQuantizer
from histrs.svm import BundleSVC, IntersectionSVC

PHOTOGRAPHS = Path(os.environ.get("HISTRS_DATA", "")) / "caltech101" / "images.npz"
KINDS = ["airplanes", "Faces_easy", "Leopards", "Motorbikes", "watch"]


def load_photographs(path, n_each=60):
    """Grey photographs of five kinds, of different sizes."""
    from PIL import Image

    with np.load(path) as stored:
        jpeg, offsets, y, classes = (stored[k] for k in ("jpeg", "offsets", "y", "classes"))
    images, labels = [], []
    for kind in KINDS:
        for i in np.flatnonzero(classes[y] == kind)[:n_each]:
            file = io.BytesIO(jpeg[offsets[i] : offsets[i + 1]].tobytes())
            images.append(np.asarray(Image.open(file).convert("L"), dtype=float))
            labels.append(kind)
    return images, np.array(labels)


if PHOTOGRAPHS.is_file():
    images, y = load_photographs(PHOTOGRAPHS)
    grid = {"cell": 8, "stride": 6, "epsilon": 10.0}
else:
    images, y = load_digits(return_X_y=True)
    images, y = list(images[:1000].reshape(-1, 8, 8)), y[:1000]
    grid = {"cell": 2, "stride": 1, "epsilon": 1.0}

# %%
# The local features are histograms of the gradient's direction in two by two cells, at every
# position of a grid, similar to SIFT. The first two columns are the position, down and right,
# between 0 and 1.


def gradient_histograms(image, cell, stride, epsilon, n_directions=8):
    """Return positions and descriptors, one patch per row."""
    down, right = np.gradient(image)
    turn = np.arctan2(down, right) / (2 * np.pi) * n_directions
    distance = np.abs((turn[..., None] - np.arange(n_directions) + 4) % n_directions - 4)
    weights = np.hypot(down, right)[..., None] * np.maximum(1 - distance, 0)
    # Running sums may end a little below 0.
    sums = np.maximum(uniform_filter(weights, (cell, cell, 0), mode="constant"), 0.0)
    rows, columns = (np.arange(cell // 2, n - cell - cell // 2 + 1, stride) for n in image.shape)
    corners = [sums[np.ix_(rows + i, columns + j)] for i in (0, cell) for j in (0, cell)]
    patches = np.concatenate(corners, axis=2).reshape(-1, 4 * n_directions)
    patches = np.sqrt(patches / (patches.sum(axis=1, keepdims=True) + epsilon))
    positions = np.stack(np.meshgrid(rows, columns, indexing="ij"), axis=-1).reshape(-1, 2)
    return np.hstack([(positions + cell / 2) / image.shape, patches])


def describe(images, **grid):
    """Return the local features of every image."""
    return [gradient_histograms(image, **grid) for image in images]


def pixels(images):
    """Return every image as a row of 8 x 8 means of its pixels."""
    coarse = [
        [
            np.mean(part)
            for strip in np.array_split(image, 8)
            for part in np.array_split(strip, 8, 1)
        ]
        for image in images
    ]
    return np.array(coarse)


# %%
# Four pipelines classify images. Features are summed over the whole image and over three stripes.
# The last pipeline stores a Fisher vector in 256 bytes, and learns on these codes.
local = FunctionTransformer(describe, kw_args=grid)
cells = {"pyramid": (1, (3, 1)), "positions": True}
pipelines = {
    "pixels,\nlinear": make_pipeline(
        FunctionTransformer(pixels), StandardScaler(), LinearSVC(C=0.01)
    ),
    "visual words,\nIntersectionSVC": make_pipeline(
        local, BagOfVisualWords(100, random_state=0, **cells), IntersectionSVC(random_state=0)
    ),
    "Fisher vectors,\nlinear": make_pipeline(
        local, FisherVector(16, random_state=0, **cells), LinearSVC(C=1.0)
    ),
    "Fisher codes,\nBundleSVC": make_pipeline(
        local,
        FisherVector(16, random_state=0, **cells),
        BundleSVC(ProductQuantizer(256, 64, random_state=0), alpha=1e-4),
    ),
}
train, test, y_train, y_test = train_test_split(
    images, y, test_size=0.4, random_state=0, stratify=y
)
scores = {name: model.fit(train, y_train).score(test, y_test) for name, model in pipelines.items()}
for name, score in scores.items():
    print(f"{name:32}".replace("\n", " "), f"{score:.3f}")

# %%
fig = plt.figure(figsize=(9, 3.4), layout="constrained")
left, right = fig.subfigures(1, 2, width_ratios=[1, 1.1])
shown = np.random.default_rng(1).choice(len(test), 10, replace=False)
for ax, i in zip(left.subplots(2, 5).ravel(), shown, strict=True):
    ax.imshow(test[i], cmap="gray")
    ax.set_axis_off()
ax = right.subplots()
bars = ax.bar(list(scores), list(scores.values()), color=["0.7", "C1", "C0", "C2"])
ax.bar_label(bars, fmt="%.3f")
ax.tick_params("x", labelsize="small")
ax.set(ylabel="accuracy on held-out images", ylim=(0, 1.08))
plt.show()

# %%
# Which of two photographs does a piece of 48 by 48 pixels come from? The model learns from pieces
# of the left parts and predicts pieces of the right parts, each of which is stored in 256 bytes.
photographs = [photograph.mean(axis=2) for photograph in load_sample_images().images]
size = 48


def cut(photographs, left, right, step):
    """Return pieces, from which photograph each is, and the position of its corner."""
    pieces, origins, corners = [], [], []
    for origin, photograph in enumerate(photographs):
        for row in range(0, photograph.shape[0] - size + 1, step):
            for column in range(left, right - size + 1, step):
                pieces.append(photograph[row : row + size, column : column + size])
                origins.append(origin)
                corners.append((column, row))
    return pieces, np.array(origins), corners


pieces, origins, _ = cut(photographs, 0, 320, size // 2)
others, expected, corners = cut(photographs, 320, 640, size)
chain = make_pipeline(
    FunctionTransformer(describe, kw_args={"cell": 8, "stride": 4, "epsilon": 10.0}),
    FisherVector(16, random_state=0, **cells),
    BundleSVC(ProductQuantizer(256, 64, random_state=0), alpha=1e-4),
)
found = chain.fit(pieces, origins).predict(others)
print(f"pieces of photographs: {np.mean(found == expected):.3f}")

# %%
# Wrongly classified pieces are filled in red.
fig, axes = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
for origin, ax in enumerate(axes):
    ax.imshow(photographs[origin], cmap="gray")
    here = expected == origin
    for (column, row), right in zip(np.array(corners)[here], found[here] == origin, strict=True):
        color = "none" if right else (1, 0, 0, 0.5)
        ax.add_patch(plt.Rectangle((column, row), size, size, facecolor=color, edgecolor="C0"))
    ax.axvline(320, color="white", linestyle="dashed")
    ax.set_axis_off()
    ax.set_title(f"{np.mean(found[here] == origin):.0%} of the pieces on the right are found")
plt.show()
