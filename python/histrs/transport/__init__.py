"""Optimal transport between histograms: plans, barycentres, cost matrices and bounds.

The distances themselves are `histrs.metrics.sinkhorn_distances`,
`histrs.metrics.unbalanced_sinkhorn_distances`, `histrs.metrics.partial_sinkhorn_distances` and
`histrs.metrics.emd_distances`.
"""

from histrs.transport._barycenters import sinkhorn_barycenter
from histrs.transport._bounds import (
    centroid_bounds,
    projection_bounds,
    relaxed_bounds,
    sliced_wasserstein,
    wasserstein_1d,
)
from histrs.transport._distances import SinkhornInfo
from histrs.transport._divergences import sinkhorn_divergences
from histrs.transport._emd import emd_plan
from histrs.transport._ground import GridDistance, grid_ground_distance
from histrs.transport._map import TransportMap
from histrs.transport._partial import partial_sinkhorn
from histrs.transport._plans import sinkhorn
from histrs.transport._unbalanced import unbalanced_sinkhorn

__all__ = [
    "GridDistance",
    "SinkhornInfo",
    "TransportMap",
    "centroid_bounds",
    "emd_plan",
    "grid_ground_distance",
    "partial_sinkhorn",
    "projection_bounds",
    "relaxed_bounds",
    "sinkhorn",
    "sinkhorn_barycenter",
    "sinkhorn_divergences",
    "sliced_wasserstein",
    "unbalanced_sinkhorn",
    "wasserstein_1d",
]
