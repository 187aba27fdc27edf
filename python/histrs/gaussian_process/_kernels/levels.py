"""An additive kernel on levels of columns, whose functions have few independent weights."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from histrs._typing import Array
from histrs.gaussian_process._kernels.base import Takes
from histrs.gaussian_process._kernels.level_columns import LevelColumn, LevelPair, Term
from histrs.gaussian_process._learning.hyperparameters import Bounds


@dataclass(frozen=True)
class LevelKernel:
    r"""A sum over columns of Brownian motions at knots, linear between them.

    A function of column `d` is :math:`\sum_l w_l \phi_l(x_d)` with ramps :math:`\phi_l` and
    independent :math:`w_l \sim N(0, \sum_k a_{dk} s_{kl})`, where :math:`s_{kl}` is what part of
    a measure, of the rows or of the line, is around each ramp. A function of a pair is a sum of
    products of ramps. So `K` is :math:`\Phi V \Phi^T`, plus a constant.
    """

    terms: tuple[Term, ...]
    """Every column, and then pairs of some."""
    level_weights: Array
    """`a`, those of one term after those of another."""
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
        pairs = [term.features for term in self.terms if isinstance(term, LevelPair)]
        n_features = len(self.terms) - len(pairs)
        of_columns = np.array_split(self.level_weights[: -len(pairs) or None], n_features)
        return {
            "level_weights_": np.vstack(of_columns),
            "interactions_": np.array(pairs, dtype=np.intp).reshape(-1, 2),
            "interaction_weight_": self.level_weights[len(self.level_weights) - len(pairs) :],
            "intercept_variance_": self.intercept_variance,
        }

    def with_levels(self, n: int) -> Self:
        """Return the kernel with at most so many knots of a column, on the same codes."""
        terms = tuple(
            replace(term, n_levels=n) if isinstance(term, LevelColumn) else term
            for term in self.terms
        )
        return replace(self, terms=terms)

    def with_pairs(self, pairs: Sequence[LevelPair], weight: float) -> Self:
        """Return the kernel with pairs, each of such a weight."""
        weights = np.append(self.level_weights, np.full(len(pairs), weight))
        return replace(self, terms=(*self.terms, *pairs), level_weights=weights)

    def with_parameters(self, values: Mapping[str, Any]) -> Self:
        """Return the kernel with some parameters replaced."""
        return replace(self, **values)

    def scale_is_among(self, names: Collection[str]) -> bool:
        """Say whether some parameters multiply the kernel, as its variance does."""
        return "level_weights" in names

    # ---- weights and codes -------------------------------------------------------------------

    @cached_property
    def n_codes(self) -> list[int]:
        """How many codes each term has."""
        return [len(term.functions) for term in self.terms]

    @cached_property
    def _parts(self) -> list[tuple[Term, slice, slice]]:
        """Each term, with its codes among all and its weights among all."""
        found, code, weight = [], 0, 0
        for term in self.terms:
            n_codes, n_weights = term.functions.shape
            codes, weights = slice(code, code + n_codes), slice(weight, weight + n_weights)
            found.append((term, codes, weights))
            code, weight = codes.stop, weights.stop
        return found

    @cached_property
    def of_measures(self) -> Array:
        """What each of `level_weights` adds to the prior variances, of shape (n, n_weights)."""
        n_weights = self._parts[-1][2].stop
        found = np.zeros((len(self.level_weights), n_weights + 1))
        start = 0
        for term, _, weights in self._parts:
            rows = slice(start, start + len(term.shares))
            found[rows, weights] = self.level_weights[rows, None] * term.shares
            start = rows.stop
        return found

    @cached_property
    def prior(self) -> Array:
        """Prior variance of each weight, of which the last is the constant."""
        prior: Array = self.of_measures.sum(axis=0)
        prior[-1] = self.intercept_variance
        return prior

    def codes(self, X: Array) -> NDArray[np.uint16]:
        """Return the codes of rows, of shape (n_terms, n_rows)."""
        found = np.empty((len(self.terms), len(X)), dtype=np.uint16)
        for codes, term in zip(found, self.terms, strict=True):
            codes[:] = term.codes(X)
        return found

    def has_codes_of(self, other: LevelKernel) -> bool:
        """Say whether rows have the same codes."""
        pairs = zip(self.terms, other.terms, strict=False)
        return len(self.terms) == len(other.terms) and all(a.has_codes_of(b) for a, b in pairs)

    def to_codes(self, W: Array) -> Array:
        """Return functions with weights `W` at each code; the constant is of the first."""
        found = np.vstack([term.functions @ W[weights] for term, _, weights in self._parts])
        found[: self.n_codes[0]] += W[-1]
        return found

    def to_weights(self, T: Array) -> Array:
        """Return the transpose of `to_codes`."""
        of_columns = [term.functions.T @ T[codes] for term, codes, _ in self._parts]
        return np.vstack([*of_columns, T[: self.n_codes[0]].sum(axis=0)])

    def part(self, feature: int) -> tuple[Array, slice]:
        """Return the ramps of a column at its codes, and which weights are theirs."""
        term, _, weights = self._parts[feature]
        return term.functions, weights

    def squared(self) -> Array:
        """Return the prior variance at each code, whose sum over columns is that of a row."""
        found = np.concatenate(
            [term.functions**2 @ self.prior[weights] for term, _, weights in self._parts]
        )
        found[: self.n_codes[0]] += self.intercept_variance
        return found
