"""
Finding objects by parts, on codes
==================================

A deformable part model learns the appearance of an object and of its parts, and how far the parts
may move. `PartDetector` learns on codes: a cell of 8 by 8 pixels takes seven bytes instead of 31
numbers, and a score is a sum of entries of look-up tables.

The images are synthetic: small figures with moving limbs, between other things. If the environment
variable ``HISTRS_DATA`` names a folder with ``penn_fudan/pedestrians.npz``, photographs of
pedestrians are used instead.
"""

import io
import os
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import Rectangle

from histrs.detection import HOGFeatures, PartDetector

PHOTOGRAPHS = Path(os.environ.get("HISTRS_DATA", "")) / "penn_fudan" / "pedestrians.npz"


def load_photographs(path, numbers):
    """Photographs, and the boxes of the pedestrians in them."""
    from PIL import Image

    with np.load(path) as stored:
        jpeg, offsets, boxes = (stored[k] for k in ("jpeg", "offsets", "boxes"))
    files = (io.BytesIO(jpeg[offsets[i] : offsets[i + 1]].tobytes()) for i in numbers)
    images = [np.asarray(Image.open(file).convert("RGB")) for file in files]
    return images, [boxes[boxes[:, 0] == i, 1:] for i in numbers]


def draw_scenes(n, rng):
    """Grey scenes with one or two figures of different size and pose, and posts and boxes."""
    rows, columns = np.indices((180, 240))
    images, boxes = [], []

    def stroke(image, start, end, width, value):
        along = np.subtract(end, start)
        share = ((rows - start[0]) * along[0] + (columns - start[1]) * along[1]) / (along @ along)
        share = np.clip(share, 0, 1)
        away = np.hypot(rows - start[0] - share * along[0], columns - start[1] - share * along[1])
        image[away < width] = value

    for _ in range(n):
        image = 0.45 + 0.1 * rng.random(rows.shape)
        for _ in range(5):
            start, value = rng.integers(0, [180, 240]), rng.choice([0.1, 0.9])
            across = rng.integers(-40, 41, 2)
            stroke(image, start, start + across + [0, 1], rng.integers(2, 8), value)
        own = []
        for left in (10, 130)[: rng.integers(1, 3)]:
            size, value = rng.uniform(90, 130), rng.choice([0.0, 1.0])
            top, middle = rng.uniform(5, 170 - size), left + rng.uniform(30, 60)
            at = lambda down, right: np.array([top + down * size, middle + right * size])  # noqa: B023, E731
            stroke(image, at(0.06, 0), at(0.12, 0), 0.06 * size, value)
            stroke(image, at(0.25, 0), at(0.5, 0), 0.09 * size, value)
            for side in (-1, 1):
                arm, leg = rng.uniform(0.1, 0.2, 2) * side
                stroke(image, at(0.2, 0.06 * side), at(0.5, arm), 0.03 * size, value)
                stroke(image, at(0.5, 0.05 * side), at(0.97, leg), 0.04 * size, value)
            own.append([middle - 0.22 * size, top, middle + 0.22 * size, top + size])
        images.append(np.clip(image, 0, 1))
        boxes.append(np.array(own))
    return images, boxes


if PHOTOGRAPHS.is_file():
    train, boxes_train = load_photographs(PHOTOGRAPHS, range(0, 120, 3))
    test, boxes_test = load_photographs(PHOTOGRAPHS, range(120, 170, 4))
else:
    train, boxes_train = draw_scenes(24, np.random.default_rng(0))
    test, boxes_test = draw_scenes(12, np.random.default_rng(1))

# %%
# The model has one component with four parts. The fit also learns the codebooks.
detector = PartDetector(n_components=1, n_parts=4, n_root_rounds=1, n_part_rounds=1, random_state=0)
detector.fit(train, boxes_train)
precision = detector.score(test, boxes_test)
print(f"average precision {precision:.3f}")
print(f"{detector.n_negatives_.sum()} hard negatives in {detector.n_bytes_ / 2**20:.1f} MB")

# %%
# Detected objects with their scores, and their parts. Dashed boxes are the true ones.
boxes, scores = detector.predict(test)
parts = detector.predict_parts(test)


def outline(ax, box, **style):
    x, y, x2, y2 = box
    ax.add_patch(Rectangle((x, y), x2 - x, y2 - y, fill=False, **style))


fig, axes = plt.subplots(2, 3, figsize=(9, 5.4), layout="constrained")
for i, ax in enumerate(axes.ravel()):
    ax.imshow(test[i], cmap="gray", vmin=0, vmax=1)
    for box in boxes_test[i]:
        outline(ax, box, color="white", linestyle="dashed")
    for box, score, own in zip(boxes[i], scores[i], parts[i], strict=True):
        for part in own:
            outline(ax, part, color="C0", linewidth=0.8)
        outline(ax, box, color="C1", linewidth=2)
        ax.text(box[0], box[1] - 3, f"{score:.1f}", color="C1")
    ax.set_axis_off()
fig.suptitle(f"average precision {precision:.2f}")
plt.show()

# %%
# The features of an image: the strongest direction of the edges in each cell, without its sign.
(features,) = HOGFeatures().cells(test[:1])
unsigned = features[..., 18:27]
angle = np.pi * unsigned.argmax(axis=2) / 9 + np.pi / 2  # an edge is across its gradient
length = unsigned.max(axis=2)
y, x = np.indices(length.shape) * 8 + 4
fig, ax = plt.subplots(figsize=(6, 4.5), layout="constrained")
ax.imshow(test[0], cmap="gray", alpha=0.4)
arrows = {"angles": "xy", "pivot": "middle", "headwidth": 0, "headlength": 0, "headaxislength": 0}
ax.quiver(x, y, length * np.cos(angle), length * np.sin(angle), color="C3", scale=18, **arrows)
ax.set_axis_off()
plt.show()
