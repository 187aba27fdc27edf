"""Few learned prototypes that stand for many training samples."""

from histrs.prototypes._covariance import CovarianceCompressor

__all__ = ["CovarianceCompressor"]
