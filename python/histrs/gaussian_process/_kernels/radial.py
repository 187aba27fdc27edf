"""Kernels of the distance between rows."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, TypeAlias, get_args

import numpy as np
from sklearn.metrics.pairwise import euclidean_distances

from histrs import _histrs
from histrs._typing import Array
from histrs.gaussian_process._kernels.base import Kernel
from histrs.gaussian_process._kernels.kept_distances import KeptDistances
from histrs.gaussian_process._learning.hyperparameters import Bounds

ShapeName: TypeAlias = Literal["matern-3/2", "matern-5/2", "laplace", "gaussian"]

# Part of the root mean squared distance between rows that is the length where it is to be chosen.
_LENGTH = 0.6


class Radial(KeptDistances, Kernel):
    r"""A function of the Euclidean distance `d` between rows of numbers.

    With :math:`r = d / \mathrm{length}`, and :math:`s` for :math:`\sqrt 3\, r` ("matern-3/2") or
    :math:`\sqrt 5\, r` ("matern-5/2"), after Rasmussen and Williams (2006, section 4.2):

    ============== =====================================
    `shape`        kernel
    ============== =====================================
    "matern-3/2"   :math:`(1 + s)\, e^{-s}`
    "matern-5/2"   :math:`(1 + s + s^2 / 3)\, e^{-s}`
    "laplace"      :math:`e^{-r}`
    "gaussian"     :math:`e^{-r^2 / 2}`
    ============== =====================================

    Parameters
    ----------
    shape : {"matern-3/2", "matern-5/2", "laplace", "gaussian"}, default="matern-3/2"
        The formula: how the kernel falls with the distance, and how smooth functions are.
    length : float or "scale", default="scale"
        Length scale, in the unit of `X`, where the search starts. "scale" is 0.6 times the root
        mean squared distance between training rows.
    length_bounds : pair or "fixed", default=(1e-2, 1e2)
        Least and greatest length in the search. If `length` is "scale", they are multiples of its
        value. "fixed" keeps the start.

    Attributes
    ----------
    length_ : float
        The length of a fit.

    Examples
    --------
    >>> import numpy as np
    >>> from histrs.gaussian_process import GPRegressor
    >>> from histrs.gaussian_process.kernels import Radial
    >>> X = np.linspace(0.0, 6.0, 40)[:, None]
    >>> model = GPRegressor(Radial("gaussian")).fit(X, np.sin(X[:, 0]))
    >>> bool(abs(model.predict([[1.05]])[0] - np.sin(1.05)) < 1e-3)
    True
    """

    leaves_level: ClassVar[bool] = True
    most_factorised: ClassVar[int] = 8192

    def __init__(
        self,
        shape: ShapeName = "matern-3/2",
        length: float | Literal["scale"] = "scale",
        length_bounds: Bounds = (1e-2, 1e2),
    ) -> None:
        self.shape = shape
        self.length = length
        self.length_bounds = length_bounds

    def _take(self, X: Array, weights: Array | None, n_threads: int) -> None:
        if self.shape not in get_args(ShapeName):
            raise ValueError(f"shape = {self.shape!r}: choose one of {list(get_args(ShapeName))}.")
        self._unit = 1.0
        if self.length == "scale":
            distance = np.sqrt(2.0 * float(np.sum(np.var(X, axis=0))))
            self._unit = self.length_ = _LENGTH * float(distance) if distance > 0.0 else 1.0
        elif not 0.0 < self.length < np.inf:
            raise ValueError(f'length = {self.length!r}: give a positive number, or "scale".')

    def parts(self, X: Array, Y: Array | None, n_threads: int) -> tuple[Array, ...]:
        """Return distances."""
        distances: Array = euclidean_distances(X, Y)
        return (distances,)

    def matrix(self, parts: Any) -> Array:
        """Return the kernel matrix."""
        r = parts[0] / self.length_
        if self.shape == "gaussian":
            r *= r
            r *= -0.5
            return np.asarray(np.exp(r, out=r))
        if self.shape == "laplace":
            return np.asarray(np.exp(-r))
        r *= np.sqrt(3.0 if self.shape == "matern-3/2" else 5.0)
        matrix: Array = np.exp(-r)
        matrix *= 1.0 + r if self.shape == "matern-3/2" else 1.0 + r + r * r / 3.0
        return matrix

    def derivative(self, name: str, parts: Any) -> Array:
        """Return the derivative by the logarithm of the length: `-r k'(r)`."""
        r = parts[0] / self.length_
        if self.shape == "gaussian":
            return np.asarray(r * r * np.exp(-0.5 * r * r))
        if self.shape == "laplace":
            return np.asarray(r * np.exp(-r))
        s = np.sqrt(3.0 if self.shape == "matern-3/2" else 5.0) * r
        if self.shape == "matern-3/2":
            return np.asarray(s * s * np.exp(-s))
        return np.asarray(s * s * (1.0 + s) / 3.0 * np.exp(-s))

    def diagonal(self, X: Array, n_threads: int) -> Array:
        """Return ones."""
        return np.ones(len(X))

    # ---- the matrix in 16 bits -----------------------------------------------------------------

    @property
    def can_be_stored(self) -> bool:
        """Whether there is something to keep: of "matern-3/2" and of "laplace"."""
        return self.shape in ("matern-3/2", "laplace")

    def core(self, n_columns: int) -> _histrs.DistanceKernel:
        """Return the kernel of rows of so many columns."""
        lengths: tuple[list[float], list[float]] = ([self.length_], [])
        laplace, matern = lengths if self.shape == "laplace" else lengths[::-1]
        of_rows = False, n_columns, [1.0] * n_columns
        return _histrs.DistanceKernel(*of_rows, laplace, matern, [1.0, 0.0, 0.0])
