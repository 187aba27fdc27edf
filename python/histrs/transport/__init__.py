"""Optimal transport between histograms: plans, barycentres, ground distances and bounds."""

from histrs.transport._distances import SinkhornInfo

__all__ = ["SinkhornInfo"]
