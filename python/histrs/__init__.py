"""Gaussian processes for tables, with scikit-learn's API.

| module | what is in it |
|---|---|
| `histrs.metrics` | kernels and distances between histograms and between covariances |
| `histrs.gaussian_process` | exact Gaussian processes for tables, histograms, covariances |
| `histrs.neighbors` | nearest neighbours in these metrics |
| `histrs.cluster` | clusters in these metrics, around means or samples |
| `histrs.prototypes` | learned prototypes that stand for many samples |
| `histrs.spd` | covariance matrices: their means, tangent spaces, filters and projections |
| `histrs.streaming` | principal components and ridge regression from moments that merge |
| `histrs.quantization` | rows as short codes, in the metric of a kernel |
| `histrs.svm` | support vector machines in input space, and on the features of any map |
| `histrs.transport` | optimal transport: plans, barycentres, cost matrices, bounds |
| `histrs.kernel_approximation` | kernels as inner products of explicit features, dense and sparse |
| `histrs.descriptors` | one vector or histogram for the local features of an image |
| `histrs.detection` | objects in images by deformable parts on codes, histograms of gradients |
| `histrs.feature_selection` | features that matter, at a false discovery rate |
| `histrs.plotting` | drawings of models and their errors; needs Matplotlib |
| `histrs.testing` | Hypothesis strategies for histograms and covariance matrices |
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from histrs._histrs import __version__, start_threads

if TYPE_CHECKING:
    from histrs import (
        cluster,
        descriptors,
        detection,
        feature_selection,
        gaussian_process,
        kernel_approximation,
        metrics,
        neighbors,
        plotting,
        prototypes,
        quantization,
        spd,
        streaming,
        svm,
        transport,
    )
    from histrs import testing as testing
    from histrs.gaussian_process._saved import load

# An unusable environment (HISTRS_SIMD) is better reported now than in the middle of a fit.
start_threads(1)

__all__ = [
    "__version__",
    "cluster",
    "descriptors",
    "detection",
    "feature_selection",
    "gaussian_process",
    "kernel_approximation",
    "load",
    "metrics",
    "neighbors",
    "plotting",
    "prototypes",
    "quantization",
    "spd",
    "streaming",
    "svm",
    "transport",
]


def __getattr__(name: str) -> Any:
    """Import a part of the package when it is first asked for; `testing` needs Hypothesis."""
    if name == "load":
        return import_module(f"{__name__}.gaussian_process._saved").load
    if name in __all__ or name == "testing":
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "testing"})
