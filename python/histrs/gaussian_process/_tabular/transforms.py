"""Transforms of a target over decades, or one that leans."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Self, TypeAlias

import numpy as np
from scipy.stats import skew, yeojohnson_normmax

from histrs._typing import Array
from histrs.gaussian_process._tabular.numbers import yeo_johnson

TransformName: TypeAlias = Literal["identity", "log", "yeo-johnson"]

# Targets that lean no more than this stay as they are.
_SKEW = 1.0
# Rows below which none can be told.
_MIN_ROWS = 50
# Of the smallest positive target, what is added where some are zero.
_SHIFT = 0.5


@dataclass(frozen=True)
class Transform:
    """A monotone function of targets."""

    name: TransformName
    shift: float = 0.0
    scale: float = 1.0
    power: float = 1.0

    def apply(self, y: Array) -> Array:
        """Return transformed targets."""
        if self.name == "identity":
            return y
        if self.name == "log":
            return np.asarray(np.log(y + self.shift))
        return yeo_johnson((y - self.shift) / self.scale, self.power)

    def inverse(self, t: Array) -> Array:
        """Return targets."""
        with np.errstate(over="ignore"):
            if self.name == "identity":
                return t
            if self.name == "log":
                return np.asarray(np.maximum(np.exp(t) - self.shift, 0.0))
            exponents = np.where(t >= 0.0, self.power, 2.0 - self.power)
            is_log = np.abs(exponents) < 1e-12
            safe = np.where(is_log, 1.0, exponents)
            # Beyond the range of the transform, its end.
            inside = np.maximum(safe * np.abs(t), -1.0 + 1e-12)
            logs = np.where(is_log, np.abs(t), np.log1p(inside) / safe)
            return np.asarray(np.copysign(np.expm1(logs), t) * self.scale + self.shift)

    def log_slope(self, y: Array) -> Array:
        """Return the logarithm of the derivative at targets."""
        if self.name == "identity":
            return np.zeros_like(y)
        if self.name == "log":
            return np.asarray(-np.log(y + self.shift))
        x = (y - self.shift) / self.scale
        exponents = np.where(x >= 0.0, self.power, 2.0 - self.power)
        return np.asarray((exponents - 1.0) * np.log1p(np.abs(x)) - np.log(self.scale))

    @classmethod
    def log(cls, y: Array) -> Self:
        """Return the logarithm; where targets are zero, that of a little more."""
        return cls("log", 0.0 if y.min() > 0.0 else _SHIFT * float(y[y > 0.0].min()))

    @classmethod
    def yeo_johnson(cls, y: Array) -> Self:
        """Return the transform of Yeo and Johnson (2000) that makes targets most normal."""
        centre, scale = float(np.median(y)), float(np.std(y)) or 1.0
        power = float(yeojohnson_normmax((y - centre) / scale))
        return cls("yeo-johnson", centre, scale, float(np.clip(power, -1.0, 3.0)))


IDENTITY = Transform("identity")


def candidates(y: Array) -> list[Transform]:
    """Return the transforms that are worth trying, the identity first."""
    found = [IDENTITY]
    if len(y) < _MIN_ROWS or len(np.unique(y)) < 3 or abs(float(skew(y))) < _SKEW:
        return found
    if y.min() >= 0.0:
        found.append(Transform.log(y))
    found.append(Transform.yeo_johnson(y))
    return found


def named(name: Literal["auto"] | TransformName, y: Array) -> Transform | None:
    """Return the transform of a name; None where it is to be chosen.

    Raises
    ------
    ValueError
        If targets have no logarithm.
    """
    if name == "auto":
        return None
    if name == "identity":
        return IDENTITY
    if name == "yeo-johnson":
        return Transform.yeo_johnson(y)
    if y.min() < 0.0 or y.max() <= 0.0:
        raise ValueError(
            f"target_transform='log', and a target is {y.min():.3g}: give targets that are not "
            "negative, or choose 'yeo-johnson'."
        )
    return Transform.log(y)
