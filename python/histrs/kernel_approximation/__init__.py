"""Explicit feature maps: kernels between histograms as inner products."""

from histrs.kernel_approximation._additive_chi2 import AdditiveChi2Map
from histrs.kernel_approximation._exp_chi2 import ExpChi2Sampler
from histrs.kernel_approximation._inner_product import InnerProduct
from histrs.kernel_approximation._kernel_projection import KernelProjectionMap
from histrs.kernel_approximation._sliced_distance import SlicedDistanceMap
from histrs.kernel_approximation._sparse_additive import SparseAdditiveMap
from histrs.kernel_approximation._sparse_kernel import SparseKernelMap

__all__ = [
    "AdditiveChi2Map",
    "ExpChi2Sampler",
    "InnerProduct",
    "KernelProjectionMap",
    "SlicedDistanceMap",
    "SparseAdditiveMap",
    "SparseKernelMap",
]
