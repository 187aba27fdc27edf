"""Few prototypes that stand for many training samples, chosen among them or learned."""

from histrs.prototypes._condensed import CondensedNN, ReducedNN
from histrs.prototypes._covariance import CovarianceCompressor
from histrs.prototypes._curve import CompressionCurve, compression_curve
from histrs.prototypes._fast_condensed import FastCondensedNN
from histrs.prototypes._histogram import HistogramCompressor
from histrs.prototypes._random_mutation import RandomMutationNN
from histrs.prototypes._random_subset import RandomSubset

__all__ = [
    "CompressionCurve",
    "CondensedNN",
    "CovarianceCompressor",
    "FastCondensedNN",
    "HistogramCompressor",
    "RandomMutationNN",
    "RandomSubset",
    "ReducedNN",
    "compression_curve",
]
