"""Hyper-parameters, and the vector of their logarithms that an optimiser moves."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from histrs._solvers.block_cg import Array
from histrs.gaussian_process._kernel import GeneralizedKernel, TransformName

Bounds: TypeAlias = tuple[float, float] | Literal["fixed"]

NAMES = ("noise", "amplitude", "exponent", "feature_weights")


@dataclass(frozen=True)
class Hyperparameters:
    """Noise variance, amplitude, and the kernel that the amplitude multiplies."""

    noise: float
    amplitude: float
    kernel: GeneralizedKernel

    def get(self, name: str) -> Any:
        """Return a hyper-parameter by its name."""
        match name:
            case "exponent":
                return self.kernel.exponent
            case "feature_weights":
                return self.kernel.weights
        return getattr(self, name)

    def with_values(self, values: Mapping[str, Any]) -> "Hyperparameters":
        """Return these hyper-parameters with some replaced."""
        kernel = replace(
            self.kernel,
            exponent=values.get("exponent", self.kernel.exponent),
            weights=values.get("feature_weights", self.kernel.weights),
        )
        noise = values.get("noise", self.noise)
        return Hyperparameters(noise, values.get("amplitude", self.amplitude), kernel)


def given_hyperparameters(
    *,
    noise: float,
    amplitude: float,
    transform: TransformName,
    exponent: float,
    feature_weights: ArrayLike | Literal["ard"] | None,
    n_features: int,
) -> Hyperparameters:
    """Return the hyper-parameters that a search starts from, checked; weights to learn are 1."""
    if transform == "identity" and exponent != 1.0:
        raise ValueError(
            f"exponent = {exponent} has no effect with feature_transform='identity'; choose "
            "'power' or 'exponential', or leave exponent at 1."
        )
    weights = None
    if feature_weights is not None and not isinstance(feature_weights, str):
        weights = _check_weights(np.array(feature_weights, dtype=np.float64), n_features)
    kernel = GeneralizedKernel(transform, float(exponent), weights)
    return Hyperparameters(float(noise), float(amplitude), kernel)


def _check_weights(weights: Array, n_features: int) -> Array:
    if weights.shape != (n_features,):
        raise ValueError(
            f"feature_weights has shape {weights.shape}, and X has {n_features} features: give "
            "one weight for each."
        )
    bad = np.flatnonzero(~((weights > 0.0) & (weights < np.inf)))
    if len(bad) > 0:
        raise ValueError(
            f"feature_weights[{bad[0]}] = {weights[bad[0]]}: weights are positive and finite; "
            "drop a column to leave it out."
        )
    return weights


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
    """The free hyper-parameters as one vector of logarithms, in the order of `NAMES`.

    Parameters
    ----------
    start : Hyperparameters
        Those that are not free keep these values.
    bounds : mapping
        Bounds of each free hyper-parameter.
    """

    def __init__(self, start: Hyperparameters, bounds: Mapping[str, tuple[float, float]]) -> None:
        self.start = start
        self.names = [name for name in NAMES if name in bounds]
        self._bounds = dict(bounds)
        self._sizes = [np.size(start.get(name)) for name in self.names]

    def only(self, names: Collection[str], start: Hyperparameters) -> "SearchSpace":
        """Return the space of some of the hyper-parameters."""
        return SearchSpace(start, {k: v for k, v in self._bounds.items() if k in names})

    def check_start(self) -> None:
        """Fail unless the search starts within its bounds."""
        for name in self.names:
            low, high = self._bounds[name]
            value = np.asarray(self.start.get(name))
            if np.any((value < low) | (value > high)):
                raise ValueError(
                    f"{name} = {value} is outside {name}_bounds = ({low}, {high}): widen the "
                    "bounds, or start within them."
                )

    @property
    def bounds(self) -> Array:
        """Logarithms of the bounds, of shape (size, 2)."""
        pairs = [np.log([self._bounds[name]]) for name in self.names]
        rows = [np.repeat(p, n, axis=0) for p, n in zip(pairs, self._sizes, strict=True)]
        return np.vstack(rows) if rows else np.empty((0, 2))

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
            values[name] = part if name == "feature_weights" else float(part[0])
        return self.start.with_values(values)

    def clip(self, theta: Array) -> Array:
        """Return the nearest vector within the bounds."""
        low, high = self.bounds.T
        return np.clip(theta, low, high)

    def at_bounds(self, theta: Array) -> list[str]:
        """Name the hyper-parameters that have run into a bound, with its value.

        A feature weight at its lower bound says that the feature does not matter, and is not one.
        """
        found = []
        values = self.unpack(theta)
        for name in self.names:
            low, high = self._bounds[name]
            value = np.asarray(values.get(name))
            if low == high:
                continue
            if name != "feature_weights" and np.any(value <= low * (1 + 1e-6)):
                found.append(f"{name} at its lower bound {low:.1e}")
            if np.any(value >= high * (1 - 1e-6)):
                found.append(f"{name} at its upper bound {high:.1e}")
        return found
