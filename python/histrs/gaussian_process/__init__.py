"""Exact Gaussian processes: intersection kernel, learned projections, and MinMax kernel.

Source: E. Rodner, A. Freytag, P. Bodesheim, B. Fröhlich and J. Denzler, "Large-scale Gaussian
process inference with generalized histogram intersection kernels for visual recognition tasks",
International Journal of Computer Vision, 2016. Equation numbers are of that paper.
"""

from histrs.gaussian_process import active_learning
from histrs.gaussian_process._classifier import IntersectionGPClassifier
from histrs.gaussian_process._dense.minmax import MinMaxGPClassifier, MinMaxGPRegressor
from histrs.gaussian_process._dense.spd import SPDGPClassifier, SPDGPRegressor
from histrs.gaussian_process._regressor import IntersectionGPRegressor
from histrs.gaussian_process._sliced.classifier import SlicedGPClassifier
from histrs.gaussian_process._sliced.regressor import SlicedGPRegressor

__all__ = [
    "IntersectionGPClassifier",
    "IntersectionGPRegressor",
    "MinMaxGPClassifier",
    "MinMaxGPRegressor",
    "SPDGPClassifier",
    "SPDGPRegressor",
    "SlicedGPClassifier",
    "SlicedGPRegressor",
    "active_learning",
]
