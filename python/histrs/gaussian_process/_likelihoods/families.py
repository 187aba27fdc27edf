"""What ties a target to a latent function: the log density, its slope and its curvature.

Each is of a row of weight 1 and dispersion 1, without what does not depend on the function.
"""

from __future__ import annotations

from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_expit

from histrs._typing import Array


class Family(Protocol):
    """A log density that is concave in the function."""

    def density(self, y: Any, f: Array) -> Array:
        """Return its logarithm."""

    def slope(self, y: Any, f: Array) -> Array:
        """Return the derivative by `f`."""

    def curvature(self, f: Array) -> Array:
        """Return the information on `f`: less the second derivative, averaged over targets."""

    def start(self, y: Any, weights: Array) -> Array:
        """Return functions at which the first step of Newton's method is a good one."""

    def unit(self, y: Any, weights: Array) -> float:
        """Return the size of slopes that matters."""


class Bernoulli:
    """Truth values, whose log odds are the function."""

    def density(self, y: NDArray[np.bool_], f: Array) -> Array:
        return np.asarray(log_expit(np.where(y, f, -f)))

    def slope(self, y: NDArray[np.bool_], f: Array) -> Array:
        sign = np.where(y, 1.0, -1.0)
        return np.asarray(sign * expit(-sign * f))

    def curvature(self, f: Array) -> Array:
        return np.asarray(expit(f) * expit(-f))

    def start(self, y: NDArray[np.bool_], weights: Array) -> Array:
        return np.zeros(len(y))

    def unit(self, y: NDArray[np.bool_], weights: Array) -> float:
        return 1.0


class _LogRate:
    """Targets whose mean is the exponential of the function."""

    power: ClassVar[int]
    """The variance of a target is its mean to this power, times the dispersion."""

    def curvature(self, f: Array) -> Array:
        return np.asarray(np.exp((2 - self.power) * f))

    def start(self, y: Array, weights: Array) -> Array:
        return np.asarray(np.log((weights * y + 1.0) / (weights + 1.0)))

    def unit(self, y: Array, weights: Array) -> float:
        return float(max(np.max(weights * y ** (2 - self.power), initial=0.0), 1.0))


class Poisson(_LogRate):
    """Counts, over exposures that are weights."""

    power = 1

    def density(self, y: Array, f: Array) -> Array:
        return np.asarray(y * f - np.exp(f))

    def slope(self, y: Array, f: Array) -> Array:
        return np.asarray(y - np.exp(f))


class Gamma(_LogRate):
    """Positive numbers whose standard deviation is a fraction of their mean."""

    power = 2

    def density(self, y: Array, f: Array) -> Array:
        return np.asarray(-y * np.exp(-f) - f)

    def slope(self, y: Array, f: Array) -> Array:
        return np.asarray(y * np.exp(-f) - 1.0)

    def start(self, y: Array, weights: Array) -> Array:
        return np.asarray(np.log(y))
