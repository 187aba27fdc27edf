"""Non-linear learning on histograms and covariance descriptors at the cost of linear learning.

| module | what is in it |
|---|---|
| `histrs.metrics` | kernels between histograms |
| `histrs.gaussian_process` | exact Gaussian processes with the histogram intersection kernel |
| `histrs.plotting` | pictures of fitted models |
| `histrs.testing` | Hypothesis strategies for histograms and covariance matrices |
"""

from histrs._histrs import __version__, start_threads

# An unusable environment (HISTRS_SIMD) is better reported now than in the middle of a fit.
start_threads(1)

__all__ = ["__version__"]
