"""
Distances computed once for a grid search
=========================================

A grid search on a metric computes the same distances again for each fold and each setting. With
``metric="precomputed"``, it takes its folds from one matrix. Here it compares numbers of neighbours
and their weights, on handwritten digits in three metrics. The error bars are of five folds.
"""

import time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV

from histrs.metrics import chi2_distances, emd_distances, minmax_distances
from histrs.neighbors import MetricKNNClassifier
from histrs.transport import grid_ground_distance

X, y = load_digits(return_X_y=True)
X, y = X[:300], y[:300]
X /= X.sum(axis=1, keepdims=True)
metrics = {
    "chi-square": chi2_distances,
    "count Tanimoto": minmax_distances,
    "transport": lambda X: emd_distances(X, M=grid_ground_distance((8, 8))),
}
grid = {"n_neighbors": [1, 2, 3, 5, 8, 13], "weights": ["uniform", "distance"]}

fig, axes = plt.subplots(1, 3, figsize=(10, 3.2), sharey=True, layout="constrained")
for ax, (name, metric) in zip(axes, metrics.items(), strict=True):
    start = time.perf_counter()
    D = metric(X)
    computed = time.perf_counter()
    search = GridSearchCV(MetricKNNClassifier(metric="precomputed"), grid, cv=5).fit(D, y)
    searched = time.perf_counter()
    print(f"{name}: distances {computed - start:.2f} s, 60 fits {searched - computed:.2f} s")
    found = search.cv_results_
    for weights in grid["weights"]:
        rows = found["param_weights"] == weights
        mean, error = found["mean_test_score"][rows], found["std_test_score"][rows] / np.sqrt(5)
        ax.errorbar(grid["n_neighbors"], mean, error, fmt=".-", capsize=2, label=weights)
    ax.set(xscale="log", xlabel="neighbours", title=name)
    ax.set_xticks(grid["n_neighbors"], grid["n_neighbors"])
    ax.minorticks_off()
axes[0].set(ylabel="accuracy, five folds")
axes[0].legend(title="weights")
plt.show()
