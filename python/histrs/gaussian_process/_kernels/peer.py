"""Kernels of scikit-learn as terms of ours."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import clone
from sklearn.gaussian_process.kernels import Kernel as PeerKernel

from histrs._typing import Array
from histrs.gaussian_process._kernels.base import Kernel
from histrs.gaussian_process._learning.hyperparameters import Bounds


class Peer(Kernel):
    """A kernel of `sklearn.gaussian_process.kernels`.

    Its hyper-parameters are learned as there, each within its bounds. Every likelihood makes the
    matrix anew, so that of more than 2,048 rows they are learned from 2,048.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        The kernel; without a `WhiteKernel`, whose place is `noise`.

    Attributes
    ----------
    kernel_ : sklearn.gaussian_process.kernels.Kernel
        The kernel of a fit.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RationalQuadratic
    >>> from histrs.gaussian_process import GPRegressor
    >>> X = np.linspace(0.0, 6.0, 40)[:, None]
    >>> model = GPRegressor(RationalQuadratic(alpha_bounds="fixed")).fit(X, np.sin(X[:, 0]))
    >>> bool(abs(model.predict([[1.05]])[0] - np.sin(1.05)) < 1e-2)
    True
    """

    leaves_level: ClassVar[bool] = True

    def __init__(self, kernel: PeerKernel) -> None:
        self.kernel = kernel

    def _take(self, X: Any, weights: Array | None, n_threads: int) -> None:
        self.kernel_ = clone(self.kernel)

    def parts(self, X: Array, Y: Array | None, n_threads: int) -> Any:
        """Return the rows: nothing of the kernel is the same for all parameters."""
        return X, Y

    def matrix(self, parts: Any) -> Array:
        """Return the kernel matrix."""
        return np.array(self.kernel_(*parts), dtype=np.float64, order="C")

    def derivative(self, name: str, parts: Any) -> Array:
        """Return the derivative by the logarithm of a parameter."""
        _, slopes = self.kernel_(parts[0], eval_gradient=True)
        return np.ascontiguousarray(slopes[:, :, int(name.removeprefix("theta"))])

    def diagonal(self, X: Array, n_threads: int) -> Array:
        """Return the kernel of every row with itself."""
        return np.array(self.kernel_.diag(X), dtype=np.float64)

    def free(self) -> dict[str, Bounds]:
        """Return the bounds of the parameters that are to be learned, by their place in `theta`."""
        bounds = np.exp((self.kernel_ if self.is_taken else self.kernel).bounds)
        return {f"theta{k}": (float(low), float(high)) for k, (low, high) in enumerate(bounds)}

    def parameter(self, name: str) -> Any:
        """Return a parameter, which is positive."""
        return float(np.exp(self.kernel_.theta[int(name.removeprefix("theta"))]))

    def with_parameters(self, values: Mapping[str, Any]) -> Self:
        """Return the kernel with some parameters replaced."""
        theta = self.kernel_.theta.copy()
        for name, value in values.items():
            theta[int(name.removeprefix("theta"))] = np.log(value)
        changed = copy(self)
        changed.kernel_ = self.kernel_.clone_with_theta(theta)
        return changed
