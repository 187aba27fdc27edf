"""Drawings of models and of their errors; they need Matplotlib: ``pip install histrs[plot]``."""

from histrs.plotting._kernel_error import plot_kernel_error

__all__ = ["plot_kernel_error"]
