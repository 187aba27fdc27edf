"""Explicit feature maps: kernels between histograms as inner products."""

from histrs.kernel_approximation._additive_chi2 import AdditiveChi2Map
from histrs.kernel_approximation._exp_chi2 import ExpChi2Sampler

__all__ = ["AdditiveChi2Map", "ExpChi2Sampler"]
