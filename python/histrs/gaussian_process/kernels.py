"""Kernels that add and multiply, for Gaussian processes: what two rows have in common.

``Radial() + 0.5 * Linear()`` is a kernel; so is each that scikit-learn has, and one of your own in
fifteen lines (see :class:`Kernel`).
"""

from __future__ import annotations

from typing import Any

from sklearn.base import clone
from sklearn.gaussian_process.kernels import Kernel as PeerKernel

from histrs.gaussian_process._kernels.additive import Interactions
from histrs.gaussian_process._kernels.algebra import Constant, Product, Sum
from histrs.gaussian_process._kernels.base import Kernel
from histrs.gaussian_process._kernels.covariance import Divergence, LogEuclidean, Tangent
from histrs.gaussian_process._kernels.intersection import Intersection, Splines
from histrs.gaussian_process._kernels.minmax import MinMax
from histrs.gaussian_process._kernels.of_numbers import Linear, Peer
from histrs.gaussian_process._kernels.radial import Radial

__all__ = [
    "Constant",
    "Divergence",
    "Interactions",
    "Intersection",
    "Kernel",
    "Linear",
    "LogEuclidean",
    "MinMax",
    "Peer",
    "Product",
    "Radial",
    "Splines",
    "Sum",
    "Tangent",
]

_NAMED: dict[str, type[Kernel]] = {
    "intersection": Intersection,
    "jbld": Divergence,
    "logeuclid": LogEuclidean,
    "minmax": MinMax,
    "radial": Radial,
    "splines": Splines,
    "tangent": Tangent,
}


def kernel_of(given: Any) -> Kernel:
    """Return the kernel that a user means: one of ours, of scikit-learn, or a name."""
    if isinstance(given, Kernel):
        return given
    if isinstance(given, PeerKernel):
        return Peer(clone(given))
    if isinstance(given, str) and given in _NAMED:
        return _NAMED[given]()
    raise ValueError(
        f"kernel = {given!r}: give a kernel of histrs.gaussian_process.kernels or of scikit-learn, "
        f"or one of the names {sorted(_NAMED)}."
    )
