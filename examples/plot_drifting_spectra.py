"""
Neighbours that allow for a drift
=================================

Two kinds of spectra differ in the masses of their two peaks, and the instrument drifts. Distances
that compare bins one by one are large for every drift. The cost of optimal transport is small for a
small drift, because the mass moves only a little.
"""

import matplotlib.pyplot as plt
import numpy as np

from histrs.metrics import chi2_distances, emd_distances, sinkhorn_distances
from histrs.transport import grid_ground_distance

bins = np.arange(64)


def spectra(n, drift, rng):
    """Return spectra of two kinds, and which kind each is of."""
    kind = np.resize([0, 1], n)
    centres = np.array([20, 44]) + drift * rng.normal(size=(n, 1))
    peaks = np.exp(-((bins - centres[:, :, None]) ** 2) / (2 * 1.2**2))
    shares = np.stack([0.4 + 0.2 * kind, 0.6 - 0.2 * kind], axis=1)
    X = np.einsum("np,npb->nb", shares, peaks) + 0.002 * rng.random((n, 64))
    return X / X.sum(axis=1, keepdims=True), kind


M = grid_ground_distance(64)
distances = {
    "Euclid": lambda A, B: ((A[:, None] - B[None]) ** 2).sum(axis=2),
    "chi-square": chi2_distances,
    "transport, exact": lambda A, B: emd_distances(A, B, M=M),
    "transport, Sinkhorn": lambda A, B: sinkhorn_distances(A, B, M=M, reg=1.0),
}
drifts = [0.0, 0.5, 1.0, 2.0, 3.0]
right = {name: [] for name in distances}
for drift in drifts:
    rng = np.random.default_rng(0)
    train, labels = spectra(16, drift, rng)
    test, truth = spectra(200, drift, rng)
    for name, distance in distances.items():
        right[name].append(np.mean(labels[distance(test, train).argmin(axis=1)] == truth))
for name, shares in right.items():
    print(f"{name:20}", np.round(shares, 2))

fig, (left, ax) = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
for i, color in ((0, "tab:blue"), (1, "tab:orange"), (2, "tab:blue"), (3, "tab:orange")):
    left.plot(bins, test[i], color=color, linestyle="-" if i < 2 else "--")
left.set(xlabel="bin", title="spectra of two kinds that drift by three bins")
for name, shares in right.items():
    ax.plot(drifts, shares, ".-", label=name)
ax.set(xlabel="drift, bins", ylabel="fraction of right nearest neighbours", ylim=(0.4, 1.03))
ax.legend()
plt.show()
