"""
Clusters of spectra, by transport
=================================

Two narrow peaks at slightly different places share no bin. Compared bin by bin, they are as
different as any two peaks, and their mean has two low peaks. The cost of optimal transport grows
with the distance between the peaks, and their barycentre is one peak between them. The figure
shows clusters of three kinds of peaks in both metrics, and the centre of each cluster.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import adjusted_rand_score

from histrs.cluster import KMedoids, MetricKMeans
from histrs.transport import grid_ground_distance

rng = np.random.default_rng(0)
kind = np.arange(90) % 3
bins = np.arange(60)
place = np.array([14.0, 30.0, 46.0])[kind] + rng.uniform(-6, 6, 90)
X = np.exp(-0.5 * (bins - place[:, None]) ** 2) + 1e-4
X /= X.sum(axis=1, keepdims=True)

# %%
# Means of bins, and barycentres by transport along the axis.
M = grid_ground_distance((60,))
transport = {"metric": "sinkhorn", "metric_params": {"M": M, "reg": 0.3}}
models = {
    "bins, means": MetricKMeans(3, metric="euclidean", n_init=5, random_state=0),
    "transport, barycentres": MetricKMeans(3, n_init=3, random_state=0, **transport),
    "transport, samples": KMedoids(3, random_state=0, **transport),
}
fig, axes = plt.subplots(1, 3, figsize=(9, 3), sharey=True, layout="constrained")
for ax, (name, model) in zip(axes, models.items(), strict=True):
    score = adjusted_rand_score(kind, model.fit_predict(X))
    ax.plot(bins, X.T, color="0.85", linewidth=0.5)
    ax.plot(bins, model.cluster_centers_.T)
    ax.set(title=f"{name}\nadjusted Rand index {score:.2f}", xlabel="bin")
plt.show()
