"""Kernels of rows of numbers: the linear one, and those of scikit-learn."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import clone
from sklearn.gaussian_process.kernels import Kernel as PeerKernel

from histrs._typing import Array
from histrs.gaussian_process._kernels.base import Kernel
from histrs.gaussian_process._learning.hyperparameters import Bounds


@dataclass(repr=False, eq=False)
class Linear(Kernel):
    r"""The inner product of centred rows, :math:`v\, (x - m)^\top (x' - m)`.

    With the means `m` of the training rows, it is the covariance of linear functions whose slopes
    have the variance `v` each.

    Parameters
    ----------
    variance : float or "scale", default="scale"
        Variance of a slope, where the search starts. "scale" is one over the mean squared length
        of a centred training row.
    variance_bounds : pair or "fixed", default=(1e-6, 1e6)
        Least and greatest variance in the search, as multiples of the unit: 1, or what "scale" is.
        "fixed" keeps the start.

    Attributes
    ----------
    variance_ : float
        The variance of a fit.
    mean_ : ndarray of shape (n_features,)
        `m`.

    Examples
    --------
    >>> from histrs.gaussian_process.kernels import Linear
    >>> Linear(1.0)([[0.0], [2.0]])
    array([[ 1., -1.],
           [-1.,  1.]])
    """

    multiplies: ClassVar[str] = "variance"
    ends_are_answers: ClassVar[frozenset[str]] = frozenset({"variance"})

    variance: float | str = "scale"
    variance_bounds: Bounds = (1e-6, 1e6)

    def _take(self, X: Any, weights: Array | None, n_threads: int) -> None:
        X = np.asarray(X, dtype=np.float64)
        self.mean_ = np.average(X, axis=0, weights=weights)
        self._unit = 1.0
        if self.variance == "scale":
            size = float(np.mean(np.sum((X - self.mean_) ** 2, axis=1)))
            self._unit = self.variance_ = 1.0 / size if size > 0.0 else 1.0

    def parts(self, X: Array, Y: Array | None, n_threads: int) -> tuple[Array, ...]:
        """Return inner products."""
        X = self._centred(X)
        return (X @ (X if Y is None else self._centred(Y)).T,)

    def diagonal(self, X: Array, n_threads: int) -> Array:
        X = self._centred(X)
        return np.asarray(self.variance_ * np.einsum("ij,ij->i", X, X))

    def _centred(self, X: Any) -> Array:
        return np.asarray(X, dtype=np.float64) - self.mean_


class Peer(Kernel):
    """A kernel of `sklearn.gaussian_process.kernels`.

    Its hyper-parameters are learned as there, each within its bounds. Every evaluation of the
    likelihood computes the matrix again, so at most 2,048 rows are used to learn.

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
        return np.array(self.kernel_(*parts), dtype=np.float64, order="C")

    def derivative(self, name: str, parts: Any) -> Array:
        _, slopes = self.kernel_(parts[0], eval_gradient=True)
        return np.ascontiguousarray(slopes[:, :, int(name.removeprefix("theta"))])

    def diagonal(self, X: Array, n_threads: int) -> Array:
        return np.array(self.kernel_.diag(X), dtype=np.float64)

    def free(self) -> dict[str, Bounds]:
        bounds = np.exp((self.kernel_ if self.is_taken else self.kernel).bounds)
        return {f"theta{k}": (float(low), float(high)) for k, (low, high) in enumerate(bounds)}

    def parameter(self, name: str) -> Any:
        return float(np.exp(self.kernel_.theta[int(name.removeprefix("theta"))]))

    def with_parameters(self, values: Mapping[str, Any]) -> Self:
        theta = self.kernel_.theta.copy()
        for name, value in values.items():
            theta[int(name.removeprefix("theta"))] = np.log(value)
        changed = copy(self)
        changed.kernel_ = self.kernel_.clone_with_theta(theta)
        return changed
