"""Covariance matrices: symmetric positive definite (SPD) matrices as data.

Their distances and kernels are in `histrs.metrics`.
"""

from histrs.spd._csp import CSP
from histrs.spd._descriptors import covariance_descriptors
from histrs.spd._mdm import MDM
from histrs.spd._mean import airm_mean, jbld_mean, log_euclidean_mean
from histrs.spd._potato import Potato
from histrs.spd._projection import project_to_spd
from histrs.spd._range import CommonRange
from histrs.spd._signals import Covariances
from histrs.spd._supervised import SPDProjection
from histrs.spd._tangent import TangentSpace
from histrs.spd._whitening import Whitening

__all__ = [
    "CSP",
    "MDM",
    "CommonRange",
    "Covariances",
    "Potato",
    "SPDProjection",
    "TangentSpace",
    "Whitening",
    "airm_mean",
    "covariance_descriptors",
    "jbld_mean",
    "log_euclidean_mean",
    "project_to_spd",
]
