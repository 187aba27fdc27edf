"""Drawings of models and of their errors; they need Matplotlib: ``pip install histrs[plot]``."""

from histrs.plotting._gaussian_process import plot_relevance, plot_shape_functions
from histrs.plotting._kernel_error import plot_kernel_error
from histrs.plotting._prototypes import plot_compression, plot_prototypes

__all__ = [
    "plot_compression",
    "plot_kernel_error",
    "plot_prototypes",
    "plot_relevance",
    "plot_shape_functions",
]
