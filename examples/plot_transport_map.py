"""
The colours of another picture
==============================

Transport moves the colours of one picture to those of another with the least change. The map is
learned from a few hundred pixels of each, and moves every pixel. A larger weight of the entropy
(`reg`) draws colours to their mean.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_sample_images

from histrs.transport import TransportMap

temple, flower = (image[::3, ::3] / 255.0 for image in load_sample_images().images)
random = np.random.default_rng(0)
colours = [random.permutation(image.reshape(-1, 3))[:400] for image in (temple, flower)]

fig, axes = plt.subplots(2, 2, figsize=(8, 5.6), layout="constrained")
pictures = {"a temple": temple, "a flower": flower}
for reg in (0.02, 0.3):
    model = TransportMap(reg).fit(*colours)
    moved = model.transform(temple.reshape(-1, 3)).reshape(temple.shape)
    pictures[f"the temple, reg = {reg}"] = moved
for ax, (name, picture) in zip(axes.flat, pictures.items(), strict=True):
    ax.imshow(picture)
    ax.set(title=name, xticks=[], yticks=[])
    print(f"{name}: standard deviations of colours {picture.std(axis=(0, 1)).round(2)}")
plt.show()
