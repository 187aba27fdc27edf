"""
Half-way between two images
===========================

The barycentre of two histograms under optimal transport moves mass instead of mixing it. Here
the histograms are images of 24 x 24 pixels, a ring and a cross, and the cost of a move is the
squared Euclidean distance. The last panel shows that the Sinkhorn distance approaches the exact
distance as the regularisation decreases.
"""

import matplotlib.pyplot as plt
import numpy as np

from histrs.metrics import sinkhorn_distances
from histrs.transport import grid_ground_distance, projection_bounds, sinkhorn_barycenter

side = 24
y, x = np.mgrid[:side, :side] - (side - 1) / 2
ring = np.exp(-((np.hypot(x, y) - 8) ** 2) / 2)
cross = np.exp(-(np.minimum(abs(x - y), abs(x + y)) ** 2) / 2) * (np.hypot(x, y) < 11)
X = np.stack([ring.ravel(), cross.ravel()])
X /= X.sum(axis=1, keepdims=True)

M = grid_ground_distance((side, side), power=2)
fig, axes = plt.subplots(1, 6, figsize=(13, 2.6), layout="constrained")
for ax, weight in zip(axes, [0.0, 0.25, 0.5, 0.75, 1.0], strict=False):
    b = sinkhorn_barycenter(X, M=M, reg=4.0, weights=[1 - weight, weight], tol=1e-5)
    ax.imshow(b.reshape(side, side), cmap="magma")
    ax.set(title=f"{weight:.0%} cross", xticks=[], yticks=[])

# %%
# The distance of the two images for several regularisations. The dotted line is a lower bound
# without any iteration: the distance of the projections on the axes.

distance = np.sqrt(M)
regs = np.geomspace(0.15, 8, 12)
costs = [sinkhorn_distances(X[:1], X[1:], M=distance, reg=reg)[0, 0] for reg in regs]
positions = np.stack([y.ravel(), x.ravel()], axis=1)
bound = projection_bounds(X[:1], X[1:], positions=positions)[0, 0]
axes[5].semilogx(regs, costs, "o-", label="Sinkhorn")
axes[5].xaxis.set_minor_formatter("")
axes[5].axhline(bound, ls=":", color="0.3", label="bound")
axes[5].set(title="distance", xlabel="regularisation", ylim=(0, None))
axes[5].legend(fontsize="small")
plt.show()
