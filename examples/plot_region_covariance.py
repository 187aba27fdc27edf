"""
Finding a texture by its covariance
===================================

The covariance matrix of a few pixel features describes the texture of a region. Its shape does not
depend on the size of the region. Here a window of the lower right texture is compared with every
window of a mosaic of four textures. One map shows the Jensen-Bregman log-det divergence, the other
the Euclidean distance between the same matrices. Integral images make the covariances of ten
thousand overlapping windows fast.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.ndimage import gaussian_filter

from histrs.metrics import jbld_distances
from histrs.spd import covariance_descriptors

rng = np.random.default_rng(3)
size, window = 128, 20


def texture(sigma):
    """Smoothed noise of unit variance."""
    noise = gaussian_filter(rng.standard_normal((size, size)), sigma, mode="wrap")
    return noise / noise.std()


image = np.block([[texture((1, 4)), texture((4, 1))], [texture((2, 2)), texture((1.2, 2.6))]])
# Brightness falls from left to right, so the contrast does not depend on the texture alone.
image *= np.linspace(2.0, 0.5, 2 * size)

# %%
# A pixel's features are its value, both derivatives and the second derivatives.
down, right = np.gradient(image)
features = np.dstack([image, down, right, np.gradient(down, axis=0), np.gradient(right, axis=1)])
corners = np.arange(0, 2 * size - window + 1, 2)
top, left = (a.ravel() for a in np.meshgrid(corners, corners, indexing="ij"))
regions = np.column_stack([top, left, top + window, left + window])
X = covariance_descriptors(features, regions=regions)
print(f"{len(X)} covariances of {X.shape[1]} x {X.shape[1]}")

# %%
# A change of contrast multiplies a covariance by a number. Dividing each matrix by its size removes
# the contrast.
X /= np.trace(X, axis1=1, axis2=2)[:, None, None]
wanted = np.flatnonzero((top == 180) & (left == 150))
divergence = jbld_distances(X[wanted], X)[0]
euclidean = np.linalg.norm(X - X[wanted], axis=(1, 2))

fig, axes = plt.subplots(1, 3, figsize=(10, 3.6), layout="constrained")
axes[0].imshow(image, cmap="gray")
axes[0].add_patch(plt.Rectangle((150, 180), window, window, fill=False, ec="tab:orange", lw=2))
axes[0].set_title("image, and the window wanted")
for ax, values, title in (
    (axes[1], divergence, "log-det divergence"),
    (axes[2], euclidean, "Euclidean distance"),
):
    grid = values.reshape(len(corners), -1)
    shown = ax.imshow(grid, cmap="viridis_r", vmax=np.quantile(values, 0.9))
    ax.set_title(title)
    fig.colorbar(shown, ax=ax, shrink=0.7)
for ax in axes:
    ax.set_xticks([])
    ax.set_yticks([])
plt.show()

# %%
# How many of the nearest windows lie in the right texture?
inside = (top >= size) & (left >= size)
count = inside.sum()
for name, values in (("divergence", divergence), ("Euclidean", euclidean)):
    share = inside[np.argsort(values)[:count]].mean()
    print(f"{name}: {share:.0%} of the nearest {count} windows")
