"""Exact Gaussian processes with the histogram intersection kernel.

Source: E. Rodner, A. Freytag, P. Bodesheim, B. Fröhlich and J. Denzler, "Large-scale Gaussian
process inference with generalized histogram intersection kernels for visual recognition tasks",
International Journal of Computer Vision, 2016. Equation numbers are of that paper.
"""

from histrs.gaussian_process import active_learning
from histrs.gaussian_process._classifier import IntersectionGPClassifier
from histrs.gaussian_process._regressor import IntersectionGPRegressor

__all__ = ["IntersectionGPClassifier", "IntersectionGPRegressor", "active_learning"]
