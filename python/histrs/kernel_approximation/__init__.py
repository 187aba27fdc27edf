"""Explicit feature maps: kernels between histograms as inner products."""

from histrs.kernel_approximation._additive_chi2 import AdditiveChi2Map

__all__ = ["AdditiveChi2Map"]
