"""Means of clusters of the matrices of each class, to start prototypes from."""

from __future__ import annotations

import numpy as np
from numpy.random import RandomState
from numpy.typing import NDArray
from sklearn.cluster import KMeans

from histrs._threads import blas_threads_at_most
from histrs._typing import Array
from histrs.prototypes._base import Labels
from histrs.spd._logarithms import tangent_rows
from histrs.spd._mean import jbld_mean

_N_INIT = 3


def class_means(
    X: Array,
    labels: Labels,
    counts: NDArray[np.intp],
    random: RandomState,
    weights: Array | None = None,
) -> tuple[Array, Labels]:
    """Return the divergence's means of clusters, and the indices of their classes.

    The mean of all matrices is the identity. `counts` are the clusters of each class; of fewer
    different matrices there are as many. K-means, of the logarithms of matrices, and means take
    positive `weights` into account.
    """
    means, indices = [], []
    for index, count in enumerate(counts):
        own = X[labels == index]
        weight = None if weights is None else weights[labels == index]
        for cluster in _clusters(own, int(count), random, weight):
            of_cluster = None if weight is None else weight[cluster]
            means.append(jbld_mean(own[cluster], sample_weight=of_cluster))
            indices.append(index)
    return np.stack(means), np.array(indices, dtype=labels.dtype)


def _clusters(
    X: Array, count: int, random: RandomState, weight: Array | None
) -> list[NDArray[np.bool_]]:
    if count == 1:
        return [np.ones(len(X), dtype=bool)]
    rows = tangent_rows(X, None, 1)
    count = min(count, len(np.unique(rows, axis=0)))
    # On so few rows, threads would mostly wait.
    with blas_threads_at_most(1):
        kmeans = KMeans(count, n_init=_N_INIT, random_state=random)
        found = kmeans.fit_predict(rows, sample_weight=weight)
    return [found == cluster for cluster in range(count) if np.any(found == cluster)]
