"""Covariance descriptors: symmetric positive definite (SPD) matrices as data."""

from histrs.spd._distances import airm_distances, jbld_distances

__all__ = ["airm_distances", "jbld_distances"]
