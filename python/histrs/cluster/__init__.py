"""Clustering in the metrics of this package."""

from histrs.cluster._means import MetricKMeans
from histrs.cluster._medoids import KMedoids

__all__ = ["KMedoids", "MetricKMeans"]
