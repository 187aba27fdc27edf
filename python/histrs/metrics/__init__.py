"""Kernels and distances between histograms and between covariance matrices.

Each is a function `(X, Y=None) -> (n_X, n_Y)`. `_registry` says which of them estimators
know by name, and what each is between.
"""

from histrs.metrics._additive import (
    additive_chi2_kernel,
    hellinger_kernel,
    intersection_kernel,
    jensen_shannon_kernel,
)
from histrs.metrics._chi2 import chi2_distances, exp_chi2_kernel
from histrs.metrics._energy import energy_distance_kernel
from histrs.metrics._minmax import minmax_distances, minmax_kernel
from histrs.spd._distances import airm_distances, jbld_distances
from histrs.spd._kernels import airm_kernel, jbld_kernel, log_euclidean_kernel
from histrs.transport._distances import sinkhorn_distances
from histrs.transport._emd import emd_distances
from histrs.transport._partial import partial_sinkhorn_distances
from histrs.transport._unbalanced import unbalanced_sinkhorn_distances

__all__ = [
    "additive_chi2_kernel",
    "airm_distances",
    "airm_kernel",
    "chi2_distances",
    "emd_distances",
    "energy_distance_kernel",
    "exp_chi2_kernel",
    "hellinger_kernel",
    "intersection_kernel",
    "jbld_distances",
    "jbld_kernel",
    "jensen_shannon_kernel",
    "log_euclidean_kernel",
    "minmax_distances",
    "minmax_kernel",
    "partial_sinkhorn_distances",
    "sinkhorn_distances",
    "unbalanced_sinkhorn_distances",
]
