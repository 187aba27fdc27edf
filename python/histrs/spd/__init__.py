"""Covariance descriptors: symmetric positive definite (SPD) matrices as data.

Their distances are in `histrs.metrics`.
"""

from histrs.spd._descriptors import covariance_descriptors
from histrs.spd._mean import jbld_mean
from histrs.spd._projection import project_to_spd
from histrs.spd._supervised import SPDProjection

__all__ = ["SPDProjection", "covariance_descriptors", "jbld_mean", "project_to_spd"]
