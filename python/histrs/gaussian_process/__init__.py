"""Exact Gaussian processes of any kernel, additive ones, and blends of them for tables.

Source: E. Rodner, A. Freytag, P. Bodesheim, B. Fröhlich and J. Denzler, "Large-scale Gaussian
process inference with generalized histogram intersection kernels for visual recognition tasks",
International Journal of Computer Vision, 2016. Equation numbers are of that paper.
"""

from histrs.gaussian_process import active_learning, kernels
from histrs.gaussian_process._classifier import GPClassifier
from histrs.gaussian_process._named import (
    IntersectionGPClassifier,
    IntersectionGPRegressor,
    MinMaxGPClassifier,
    MinMaxGPRegressor,
    SPDGPClassifier,
    SPDGPRegressor,
)
from histrs.gaussian_process._options import Bins, Fine, LikelihoodSearch, Solver
from histrs.gaussian_process._regressor import GPRegressor
from histrs.gaussian_process.tabular import TabularGPClassifier, TabularGPRegressor

__all__ = [
    "Bins",
    "Fine",
    "GPClassifier",
    "GPRegressor",
    "IntersectionGPClassifier",
    "IntersectionGPRegressor",
    "LikelihoodSearch",
    "MinMaxGPClassifier",
    "MinMaxGPRegressor",
    "SPDGPClassifier",
    "SPDGPRegressor",
    "Solver",
    "TabularGPClassifier",
    "TabularGPRegressor",
    "active_learning",
    "kernels",
]
