"""Non-linear learning on histograms and covariance descriptors at the cost of linear learning.

| module | what is in it |
|---|---|
| `histrs.metrics` | kernels and distances between histograms and between covariances |
| `histrs.gaussian_process` | exact Gaussian processes with the histogram intersection kernel |
| `histrs.neighbors` | nearest neighbours in these metrics |
| `histrs.prototypes` | learned prototypes that stand for many samples |
| `histrs.spd` | covariance descriptors, their mean and their projection |
| `histrs.streaming` | principal components and ridge regression from moments that merge |
| `histrs.quantization` | rows as short codes, in the metric of a kernel |
| `histrs.svm` | support vector machines in input space, and on the features of any map |
| `histrs.transport` | optimal transport: plans, barycentres, ground distances, bounds |
| `histrs.kernel_approximation` | kernels as inner products of explicit features, dense and sparse |
| `histrs.descriptors` | one vector or histogram for the local features of a picture |
| `histrs.detection` | objects in images by deformable parts on codes, histograms of gradients |
| `histrs.plotting` | drawings of models and their errors; needs Matplotlib |
| `histrs.testing` | Hypothesis strategies for histograms and covariance matrices |
"""

from histrs._histrs import __version__, start_threads

# An unusable environment (HISTRS_SIMD) is better reported now than in the middle of a fit.
start_threads(1)

__all__ = ["__version__"]
