"""Hyper-parameters, and the vector of their logarithms that an optimiser moves."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from histrs._typing import Array

Bounds: TypeAlias = tuple[float, float] | Literal["fixed"]

# Products with a matrix of larger trace would overflow.
LARGEST = 1e300

# Relative error of an exponential of a logarithm.
_ROUNDING = 1e-12

SCALES = ("noise", "amplitude")
# That they vanish is an answer.
_MAY_VANISH = ("noise", "feature_weights", "interaction_weight")


class Scales(NamedTuple):
    """Noise and signal variance of some outputs."""

    noise: float
    amplitude: float

    def check(self) -> None:
        """Fail where noise has no size beside the amplitude, or the amplitude none beside it."""
        if not 0.0 < self.noise / self.amplitude < LARGEST:
            raise ValueError(
                f"noise / amplitude = {self.noise} / {self.amplitude} is out of range: raise or "
                "lower one of them."
            )


@dataclass(frozen=True)
class Hyperparameters:
    """Noise variances, signal variances, and the kernel that these multiply."""

    noise: Array
    """One for all outputs, or one for each."""
    amplitude: Array
    """As many as noise variances."""
    kernel: Any
    """With `parameter`, `with_parameters` and `free`: a `GeneralizedKernel` or a `Kernel`."""

    def scales(self) -> list[Scales]:
        """Return the pairs of noise and signal variance."""
        pairs = zip(self.noise.tolist(), self.amplitude.tolist(), strict=True)
        return [Scales(*pair) for pair in pairs]

    def outputs(self, n_outputs: int) -> list[slice]:
        """Return the outputs that each pair is of."""
        if len(self.noise) == 1:
            return [slice(0, n_outputs)]
        return [slice(k, k + 1) for k in range(n_outputs)]

    def pair(self, k: int) -> Hyperparameters:
        """Return the hyper-parameters with one of the pairs alone."""
        return replace(self, noise=self.noise[k : k + 1], amplitude=self.amplitude[k : k + 1])

    def get(self, name: str) -> Any:
        """Return a hyper-parameter by its name."""
        if name in SCALES:
            return getattr(self, name)
        return self.kernel.parameter(name)

    def with_values(self, values: Mapping[str, Any]) -> Hyperparameters:
        """Return these hyper-parameters with some replaced."""
        scales = {name: values[name] for name in SCALES if name in values}
        others = {name: value for name, value in values.items() if name not in SCALES}
        kernel = self.kernel.with_parameters(others) if others else self.kernel
        return replace(self, kernel=kernel, **scales)


def checked_scales(n_pairs: int, **given: ArrayLike) -> tuple[Array, Array]:
    """Return noise and signal variances, one for each pair, from one for all or one for each."""
    found = []
    for name in SCALES:
        values = np.array(given[name], dtype=np.float64)
        if values.shape not in ((), (n_pairs,)):
            raise ValueError(
                f"{name} has shape {values.shape}: give one number, or one for each of {n_pairs} "
                "outputs that do not share theirs."
            )
        if not np.all((values > 0.0) & (values < np.inf)):
            raise ValueError(f"{name} = {values.tolist()}: variances must be positive and finite.")
        found.append(values * np.ones(n_pairs))
    return found[0], found[1]


def check_bounds(name: str, bounds: Any) -> Bounds:
    """Return bounds of a hyper-parameter, which are positive and ascending, or "fixed"."""
    if isinstance(bounds, str):
        if bounds == "fixed":
            return "fixed"
    else:
        pair = np.asarray(bounds, dtype=np.float64)
        if pair.shape == (2,) and 0.0 < pair[0] <= pair[1] < np.inf:
            return float(pair[0]), float(pair[1])
    raise ValueError(
        f"{name}_bounds = {bounds!r}: give (lower, upper) with 0 < lower <= upper, or 'fixed'."
    )


class SearchSpace:
    """The free hyper-parameters, which have bounds, as one vector of logarithms in their order.

    Those that are not free keep the values of `start`.
    """

    def __init__(self, start: Hyperparameters, bounds: Mapping[str, tuple[float, float]]) -> None:
        self.start = start
        self.names = list(bounds)
        self._bounds = dict(bounds)
        self._sizes = [np.size(start.get(name)) for name in self.names]

    def only(self, names: Collection[str], start: Hyperparameters) -> SearchSpace:
        """Return the space of some of the hyper-parameters."""
        return SearchSpace(start, {k: v for k, v in self._bounds.items() if k in names})

    def check_start(self) -> None:
        """Fail unless the search starts within its bounds."""
        for name in self.names:
            low, high = self._bounds[name]
            values = np.ravel(self.start.get(name))
            # Where a search ended at a bound, its logarithm has been rounded.
            least, most = low * (1.0 - _ROUNDING), high * (1.0 + _ROUNDING)
            outside = values[(values < least) | (values > most)]
            if len(outside) > 0:
                raise ValueError(
                    f"{name} = {outside[0]} is outside {name}_bounds = ({low}, {high}): widen the "
                    "bounds, or start within them."
                )

    @property
    def bounds(self) -> Array:
        """Logarithms of the bounds, of shape (size, 2)."""
        pairs = [np.log([self._bounds[name]]) for name in self.names]
        rows = [np.repeat(p, n, axis=0) for p, n in zip(pairs, self._sizes, strict=True)]
        return np.vstack(rows) if rows else np.empty((0, 2))

    def bounds_of(self, name: str) -> tuple[float, float]:
        """Return the bounds of a hyper-parameter, or the one value that it keeps as both."""
        if name in self._bounds:
            return self._bounds[name]
        value = float(np.ravel(self.start.get(name))[0])
        return value, value

    def pack(self, values: Hyperparameters) -> Array:
        """Return the logarithms of the free hyper-parameters."""
        return self.pack_values({name: np.log(values.get(name)) for name in self.names})

    def pack_values(self, values: Mapping[str, Any]) -> Array:
        """Return what belongs to each free hyper-parameter as one vector."""
        parts = [np.ravel(values[name]) for name in self.names]
        return np.concatenate(parts) if parts else np.empty(0)

    def unpack(self, theta: Array) -> Hyperparameters:
        """Return the hyper-parameters with these logarithms."""
        values: dict[str, Any] = {}
        ends = np.cumsum(self._sizes)
        for name, size, end in zip(self.names, self._sizes, ends, strict=True):
            part = np.exp(theta[end - size : end])
            values[name] = float(part[0]) if np.ndim(self.start.get(name)) == 0 else part
        return self.start.with_values(values)

    def clip(self, theta: Array) -> Array:
        """Return the nearest vector within the bounds."""
        low, high = self.bounds.T
        return np.clip(theta, low, high)

    def at_bounds(self, theta: Array) -> list[str]:
        """Name the hyper-parameters that have run into a bound, with its value.

        A weight of a feature or of interactions at its lower bound says that they do not matter. A
        noise variance at its lower bound says that there is hardly any noise. These are results,
        not failures, and are left out; so is either bound if the kernel says so.
        """
        found = []
        values = self.unpack(theta)
        for name in self.names:
            low, high = self._bounds[name]
            value = np.asarray(values.get(name))
            if low == high or name in self.start.kernel.ends_are_answers:
                continue
            if name not in _MAY_VANISH and np.any(value <= low * (1 + 1e-6)):
                found.append(f"{name} at its lower bound {low:.1e}")
            if np.any(value >= high * (1 - 1e-6)):
                found.append(f"{name} at its upper bound {high:.1e}")
        return found


def check_theta(theta: ArrayLike, size: int, names: str) -> Array:
    """Return logarithms of hyper-parameters, refused unless there is one for each."""
    theta = np.asarray(theta, dtype=np.float64)
    if theta.shape != (size,):
        raise ValueError(
            f"theta has shape {theta.shape}, expected {(size,)}: one logarithm for each entry of "
            f"{names}."
        )
    return theta
