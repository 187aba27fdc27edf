"""Drawings of models and of their errors; they need Matplotlib: ``pip install "histrs[plot]"``."""

from histrs.plotting._calibration import plot_calibration
from histrs.plotting._explanation import plot_explanation
from histrs.plotting._gaussian_process import plot_relevance, plot_shape_functions
from histrs.plotting._kernel_error import plot_kernel_error
from histrs.plotting._pairs import plot_pair_functions
from histrs.plotting._partial_dependence import plot_partial_dependence
from histrs.plotting._prototypes import plot_compression, plot_prototypes

__all__ = [
    "plot_calibration",
    "plot_compression",
    "plot_explanation",
    "plot_kernel_error",
    "plot_pair_functions",
    "plot_partial_dependence",
    "plot_prototypes",
    "plot_relevance",
    "plot_shape_functions",
]
