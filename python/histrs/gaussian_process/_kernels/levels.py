"""An additive kernel on levels of columns, whose functions have few independent weights."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from histrs._solvers.block_cg import Array
from histrs.gaussian_process._kernels.base import Takes
from histrs.gaussian_process._learning.hyperparameters import Bounds

# Measures of a column, each with a weight: shares of rows, and of the line.
N_MEASURES = 2
# Share of an increment, at least.
_LEAST_SHARE = 1e-6
_TINY = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True)
class LevelColumn:
    """One column: which code a value has, and the functions that codes make of it.

    A value is rounded to the nearest of `points`. A function of it is linear between knots, which
    are some of the points: a sum of ramps, from 0 at one knot to 1 at the next.
    """

    points: Array
    """The value of each code, ascending."""
    counts: Array
    """How many training rows are at each code."""
    n_levels: int
    """How many of the points are knots, at most."""

    @classmethod
    def of(cls, x: Array, weights: Array | None, n_levels: int) -> Self:
        """Return the levels of training values: at most so many knots, and twice as many codes."""
        values, index = np.unique(x, return_inverse=True)
        counts = np.bincount(index, weights, len(values)).astype(np.float64)
        points = _spread(values.astype(np.float64), counts, 2 * n_levels)
        codes = np.searchsorted(_cuts(points), values)
        of_codes = np.bincount(codes, counts, len(points)).astype(np.float64)
        return cls(points, of_codes, n_levels)

    @cached_property
    def _at(self) -> tuple[Array, Array]:
        """Points and knots, in a unit in which differences do not overflow."""
        unit = max(float(np.max(np.abs(self.points), initial=0.0)), _TINY)
        at = self.points / unit
        return at, at[evenly(len(at), self.n_levels)] if len(at) > self.n_levels else at

    @cached_property
    def functions(self) -> Array:
        """Ramps at the points, of shape (n_codes, n_weights)."""
        at, knots = self._at
        ramps: Array = np.clip((at[:, None] - knots[:-1]) / np.diff(knots), 0.0, 1.0)
        return ramps

    @cached_property
    def shares(self) -> Array:
        """What part of a measure is around each ramp, of shape (N_MEASURES, n_weights)."""
        hats = -np.diff(self.functions, axis=1, prepend=1.0, append=0.0)
        of_knots = self.counts @ hats
        of_rows = (of_knots[:-1] + of_knots[1:]) / (2.0 * of_knots.sum())
        widths = np.diff(self._at[1])
        both: Array = np.vstack([of_rows, widths / max(widths.sum(), _TINY)])
        return np.maximum(both, _LEAST_SHARE)

    @cached_property
    def _between(self) -> Array:
        return _cuts(self.points)

    def codes(self, x: Array) -> NDArray[np.uint16]:
        """Return the code of each value."""
        codes: NDArray[np.uint16] = np.searchsorted(self._between, x).astype(np.uint16)
        return codes


def _spread(values: Array, counts: Array, n: int) -> Array:
    """Return all of the distinct values, or `n`, spread evenly over rows, values and the line."""
    if len(values) <= n:
        return values
    ends, few = np.cumsum(counts), n // 3
    by_rows = np.searchsorted(ends, np.linspace(0.0, ends[-1], n - 2 * few))
    # Differences of the largest numbers would overflow.
    on_line = np.searchsorted(values / 2.0, np.linspace(values[0] / 2.0, values[-1] / 2.0, few))
    chosen = np.concatenate([by_rows, on_line, evenly(len(values), few)])
    spread: Array = values[np.unique(np.minimum(chosen, len(values) - 1))]
    return spread


def evenly(n: int, n_chosen: int) -> NDArray[np.intp]:
    """Return some of the numbers below `n`, evenly spaced from the first to the last."""
    return np.unique(np.round(np.linspace(0.0, n - 1.0, n_chosen)).astype(np.intp))


def _cuts(points: Array) -> Array:
    """Return the last value of each code but the last."""
    middle = points[:-1] / 2.0 + points[1:] / 2.0
    cuts: Array = np.where(middle < points[1:], middle, points[:-1])
    return cuts


@dataclass(frozen=True)
class LevelKernel:
    r"""A sum over columns of Brownian motions at knots, linear between them.

    A function of column `d` is :math:`\sum_l w_l \phi_l(x_d)` with ramps :math:`\phi_l` and
    independent :math:`w_l \sim N(0, \sum_k a_{dk} s_{kl})`, where :math:`s_{kl}` is what part of
    a measure, of the rows or of the line, is around each ramp. So `K` is
    :math:`\Phi V \Phi^T`, plus a constant.
    """

    columns: tuple[LevelColumn, ...]
    level_weights: Array
    """`a`, those of one column after those of another."""
    intercept_variance: float
    bounds: Bounds
    """Of the weights."""

    takes: ClassVar[Takes] = "numbers"
    ends_are_answers: ClassVar[frozenset[str]] = frozenset({"level_weights"})
    leaves_level: ClassVar[bool] = False

    # ---- parameters --------------------------------------------------------------------------

    def parameter(self, name: str) -> Any:
        """Return a parameter that can be learned."""
        return getattr(self, name)

    def free(self) -> dict[str, Bounds]:
        """Return the bounds of the parameters that are to be learned."""
        return {} if self.bounds == "fixed" else {"level_weights": self.bounds}

    def starts(self, _: Mapping[str, tuple[float, float]]) -> list[Self]:
        """Return no kernels: the search begins with this one."""
        return []

    @property
    def learned(self) -> dict[str, Any]:
        """What a fit tells of the kernel, by the names of its attributes."""
        return {
            "level_weights_": self.level_weights.reshape(-1, N_MEASURES),
            "intercept_variance_": self.intercept_variance,
        }

    def with_parameters(self, values: Mapping[str, Any]) -> Self:
        """Return the kernel with some parameters replaced."""
        return replace(self, **values)

    def scale_is_among(self, names: Collection[str]) -> bool:
        """Say whether some parameters multiply the kernel, as its variance does."""
        return "level_weights" in names

    # ---- weights and codes -------------------------------------------------------------------

    @cached_property
    def n_codes(self) -> list[int]:
        """How many codes each column has."""
        return [len(column.points) for column in self.columns]

    @cached_property
    def _parts(self) -> list[tuple[LevelColumn, slice, slice]]:
        """Each column, with its codes among all and its weights among all."""
        found, code, weight = [], 0, 0
        for column in self.columns:
            n_codes, n_weights = column.functions.shape
            codes, weights = slice(code, code + n_codes), slice(weight, weight + n_weights)
            found.append((column, codes, weights))
            code, weight = codes.stop, weights.stop
        return found

    @cached_property
    def of_measures(self) -> Array:
        """What each of `level_weights` adds to the prior variances, of shape (n, n_weights)."""
        n_weights = self._parts[-1][2].stop
        found = np.zeros((len(self.level_weights), n_weights + 1))
        for d, (column, _, weights) in enumerate(self._parts):
            rows = slice(N_MEASURES * d, N_MEASURES * (d + 1))
            found[rows, weights] = self.level_weights[rows, None] * column.shares
        return found

    @cached_property
    def prior(self) -> Array:
        """Prior variance of each weight, of which the last is the constant."""
        prior: Array = self.of_measures.sum(axis=0)
        prior[-1] = self.intercept_variance
        return prior

    def codes(self, X: Array) -> NDArray[np.uint16]:
        """Return the codes of rows, of shape (n_features, n_rows)."""
        found = np.empty(X.shape[::-1], dtype=np.uint16)
        for codes, column, x in zip(found, self.columns, X.T, strict=True):
            codes[:] = column.codes(x)
        return found

    def to_codes(self, W: Array) -> Array:
        """Return functions with weights `W` at each code; the constant is of the first column."""
        found = np.vstack([column.functions @ W[weights] for column, _, weights in self._parts])
        found[: self.n_codes[0]] += W[-1]
        return found

    def to_weights(self, T: Array) -> Array:
        """Return the transpose of `to_codes`."""
        of_columns = [column.functions.T @ T[codes] for column, codes, _ in self._parts]
        return np.vstack([*of_columns, T[: self.n_codes[0]].sum(axis=0)])

    def part(self, feature: int) -> tuple[Array, slice]:
        """Return the ramps of a column at its codes, and which weights are theirs."""
        column, _, weights = self._parts[feature]
        return column.functions, weights

    def squared(self) -> Array:
        """Return the prior variance at each code, whose sum over columns is that of a row."""
        found = np.concatenate(
            [column.functions**2 @ self.prior[weights] for column, _, weights in self._parts]
        )
        found[: self.n_codes[0]] += self.intercept_variance
        return found
