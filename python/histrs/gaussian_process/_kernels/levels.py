"""An additive kernel on levels of columns, whose functions have few independent weights."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from histrs import _histrs
from histrs._typing import Array
from histrs.gaussian_process._kernels.base import Parametrised, Takes
from histrs.gaussian_process._learning.hyperparameters import Bounds
from histrs.gaussian_process._rows import rows_of
from histrs.gaussian_process._state import PickledByFields

# Rows whose values are points of a column of more rows than twice as many.
_SOME_ROWS = 1 << 16
# Share of an increment, at least.
_LEAST_SHARE = 1e-6
_TINY = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True)
class _Column(PickledByFields):
    """What a column on levels is, of numbers or categories."""

    feature: int
    """Which column of rows it is."""
    counts: Array
    """How many training rows are at each code."""
    functions: ClassVar[Any]

    @cached_property
    def centred(self) -> Array:
        """Functions less their means over training rows."""
        return np.asarray(self.functions - self.means(self.functions))

    def means(self, functions: Array) -> Array:
        """Return the means over training rows of functions of codes, a column each."""
        return np.asarray(self.counts @ functions / self.counts.sum())

    def with_levels(self, n: int) -> Self:
        """Return the column with at most so many knots, on the same codes."""
        return self

    def evaluate(self, W: Array, out: Array) -> None:
        """Write functions with weights `W` at each code."""
        # In place, since pages of large matrices take longer than products.
        np.matmul(self.functions, W, out=out)


def _counted(X: Array, feature: int, weights: Array | None) -> tuple[Array, Array]:
    """Return the distinct values of a column, and how many rows have each."""
    if weights is None:
        # Numbers are sorted in a fifth of the time that their places are.
        values, counts = np.unique(X[:, feature], return_counts=True)
    else:
        values, index = np.unique(X[:, feature], return_inverse=True)
        counts = np.bincount(index, weights, len(values))
    return values.astype(np.float64), counts.astype(np.float64)


@dataclass(frozen=True)
class LevelColumn(_Column):
    """One column: which code a value has, and the functions that codes make of it.

    A value is rounded to the nearest of `points`. A function of it is linear between knots, which
    are some of the points: a sum of ramps, from 0 at one knot to 1 at the next.
    """

    points: Array
    """The value of each code, ascending."""
    n_levels: int
    """How many of the points are knots, at most."""
    sign: int = 0
    """1 where the function must not decrease, -1 where it must not increase."""
    curve: Array | None = None
    """The function at each code, of a fit where that has a sign."""

    @classmethod
    def of(cls, X: Array, feature: int, weights: Array | None, n_levels: int, n_codes: int) -> Self:
        """Return the levels of a column of training rows: at most so many knots and codes.

        With many rows, the points are values of some rows, drawn with a fixed seed: it is enough
        to sort these. Only these are counted, until `LevelKernel.with_counts` has counts of all.
        """
        values: Array = np.empty(0)
        if len(X) > 2 * _SOME_ROWS:
            some = np.random.default_rng(0).integers(0, len(X), _SOME_ROWS)
            values, counts = _counted(X[some, feature, None], 0, rows_of(weights, some))
        if len(values) <= n_codes:
            values, counts = _counted(X, feature, weights)
        points = _spread(values, counts, n_codes)
        first = np.searchsorted(values, _cuts(points), side="right")
        return cls(feature, np.add.reduceat(counts, np.append(0, first)), points, n_levels)

    def with_levels(self, n: int) -> Self:
        """Return the column with at most so many knots, on the same codes."""
        return replace(self, n_levels=min(n, self.n_levels))

    def has_codes_of(self, other: Term) -> bool:
        """Say whether rows have the same codes: those of the same points."""
        return isinstance(other, LevelColumn) and other.points is self.points

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
        return np.asarray(np.clip((at[:, None] - knots[:-1]) / np.diff(knots), 0.0, 1.0))

    @cached_property
    def shares(self) -> Array:
        """What part of a measure is around each ramp, of shape (2, n_weights)."""
        hats = -np.diff(self.functions, axis=1, prepend=1.0, append=0.0)
        of_knots = self.counts @ hats
        of_rows = (of_knots[:-1] + of_knots[1:]) / (2.0 * of_knots.sum())
        widths = np.diff(self._at[1])
        both: Array = np.vstack([of_rows, widths / max(widths.sum(), _TINY)])
        return np.maximum(both, _LEAST_SHARE)

    @property
    def steps(self) -> tuple[Array, NDArray[np.intp]]:
        """Numbers between which all have one code, and these codes: one more."""
        return self.cuts, np.arange(len(self.points))

    @cached_property
    def cuts(self) -> Array:
        """The last number of each code but the last, ascending."""
        return _cuts(self.points)


def _placed(X: Array, columns: Iterable[LevelColumn], n_threads: int) -> NDArray[np.uint16]:
    """Return the codes of rows, of shape (n_columns, n_rows)."""
    given = [(column.feature, column.cuts) for column in columns]
    return _histrs.level_codes(X, given, n_threads)


@dataclass(frozen=True)
class LevelCategories(_Column):
    """One column of categories: each of the most common is a level, and the others are one more.

    The last level is that of categories which training rows do not have, too: where no row is at
    it, its function is what the prior says.
    """

    categories: Array
    """The most common, ascending."""

    def has_codes_of(self, other: Term) -> bool:
        """Say whether rows have the same codes: those of the same categories."""
        return isinstance(other, LevelCategories) and other.categories is self.categories

    @classmethod
    def of(cls, X: Array, feature: int, weights: Array | None, n_levels: int) -> Self:
        """Return the levels of a column of training rows: at most so many."""
        values, counts = _counted(X, feature, weights)
        common = np.sort(np.argsort(-counts, kind="stable")[: n_levels - 1])
        rest = max(float(counts.sum() - counts[common].sum()), 0.0)
        return cls(feature, np.append(counts[common], rest), values[common])

    @property
    def points(self) -> Array:
        """A number for each code."""
        return np.arange(len(self.counts), dtype=np.float64)

    @cached_property
    def functions(self) -> Array:
        """Indicators of the codes."""
        return np.eye(len(self.counts))

    @cached_property
    def shares(self) -> Array:
        """What part of the variance of a function each level has: all are alike."""
        return np.ones((1, len(self.counts)))

    def evaluate(self, W: Array, out: Array) -> None:
        out[:] = W

    def codes(self, X: Array) -> NDArray[np.uint16]:
        """Return the code of each row."""
        return self._codes(X[:, self.feature])

    def _codes(self, values: Array) -> NDArray[np.uint16]:
        last = len(self.categories)
        codes = np.minimum(np.searchsorted(self.categories, values), max(last - 1, 0))
        is_known = np.isin(values, self.categories)
        return np.where(is_known, codes, last).astype(np.uint16)

    @property
    def steps(self) -> tuple[Array, NDArray[np.intp]]:
        """Numbers between which all have one code, and these codes: categories are whole."""
        cuts = np.unique(np.concatenate([self.categories - 0.5, self.categories + 0.5]))
        return cuts, self._codes(np.append(cuts, np.inf) - 0.5).astype(np.intp)


def _spread(values: Array, counts: Array, n: int) -> Array:
    """Return all of the distinct values, or `n`: evenly by rows, by values and along the line."""
    if len(values) <= n:
        return values
    # Differences of the largest numbers would overflow.
    halves = values / 2.0 - values[0] / 2.0
    passed = np.cumsum(counts) / counts.sum() + np.arange(len(values)) / len(values)
    passed += halves / halves[-1]
    chosen = np.searchsorted(passed, np.linspace(passed[0], passed[-1], n))
    return np.asarray(values[np.unique(np.minimum(chosen, len(values) - 1))])


def evenly(n: int, n_chosen: int) -> NDArray[np.intp]:
    """Return some of the numbers below `n`, evenly spaced from the first to the last."""
    return np.unique(np.round(np.linspace(0.0, n - 1.0, n_chosen)).astype(np.intp))


def _cuts(points: Array) -> Array:
    """Return the last value of each code but the last."""
    middle = points[:-1] / 2.0 + points[1:] / 2.0
    return np.asarray(np.where(middle < points[1:], middle, points[:-1]))


@dataclass(frozen=True)
class LevelPair(PickledByFields):
    """Two columns together: a code is a cell of a grid, and functions are products of ramps.

    Each ramp is less its mean over training rows. So a function has a mean of 0 over the rows of
    either column, as if they were independent, and holds no main effect.
    """

    first: LevelColumn | LevelCategories
    second: LevelColumn | LevelCategories

    @property
    def features(self) -> tuple[int, int]:
        """The columns of both."""
        return self.first.feature, self.second.feature

    def with_levels(self, n: int) -> Self:
        """Return the pair with at most so many knots of either column, on the same codes."""
        return replace(self, first=self.first.with_levels(n), second=self.second.with_levels(n))

    def has_codes_of(self, other: Term) -> bool:
        """Say whether rows have the same codes."""
        return isinstance(other, LevelPair) and (
            self.first.has_codes_of(other.first) and self.second.has_codes_of(other.second)
        )

    @cached_property
    def functions(self) -> Array:
        """Products at the cells, of shape (n_codes, n_weights)."""
        return np.asarray(np.kron(self.first.centred, self.second.centred).astype(np.float64))

    @cached_property
    def shares(self) -> Array:
        """What part of the rows is around each product, of shape (1, n_weights)."""
        return np.asarray(np.kron(self.first.shares[:1], self.second.shares[:1]).astype(np.float64))

    def evaluate(self, W: Array, out: Array) -> None:
        """Write functions with weights `W` at each cell, by one column after the other."""
        first, second = self.first.centred, self.second.centred
        (n, n_first), (m, n_second), n_outputs = first.shape, second.shape, W.shape[1]
        half = first @ W.reshape(n_first, n_second * n_outputs)
        np.matmul(second, half.reshape(n, n_second, n_outputs), out=out.reshape(n, m, n_outputs))


Term: TypeAlias = LevelColumn | LevelCategories | LevelPair


@dataclass(frozen=True)
class LevelKernel(PickledByFields, Parametrised):
    r"""A sum over columns of Brownian motions at knots, linear between them.

    A function of column `d` is :math:`\sum_l w_l \phi_l(x_d)` with ramps :math:`\phi_l` and
    independent :math:`w_l \sim N(0, \sum_k a_{dk} s_{kl})`. Here :math:`s_{kl}` is the fraction of
    a measure, of the rows or of the line, around each ramp. A function of a pair is a sum of
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
    multiplies: ClassVar[str] = "level_weights"
    ends_are_answers: ClassVar[frozenset[str]] = frozenset({"level_weights"})
    leaves_level: ClassVar[bool] = False

    def parameter(self, name: str) -> Any:
        """Return a parameter that can be learned."""
        return getattr(self, name)

    def _bounds(self) -> Mapping[str, Any]:
        return {"level_weights": self.bounds}

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

    def with_levels(self, n: int, n_of_pairs: int) -> Self:
        """Return the kernel with at most so many knots of columns, alone and in pairs.

        Codes stay the same.
        """
        terms = tuple(
            term.with_levels(n_of_pairs if isinstance(term, LevelPair) else n)
            for term in self.terms
        )
        return replace(self, terms=terms)

    def with_counts(self, counts: Array) -> Self:
        """Return the kernel with the number of training rows at each code, of each term."""
        made: dict[int, Any] = {}

        def counted(column: Any, counts: Array) -> Any:
            # A column that several pairs share stays one.
            return made.setdefault(id(column), replace(column, counts=counts))

        terms: list[Term] = []
        for term, codes, _ in self.parts:
            own = counts[codes]
            if isinstance(term, LevelPair):
                cells = own.reshape(len(term.first.points), -1)
                first = counted(term.first, cells.sum(axis=1))
                terms.append(LevelPair(first, counted(term.second, cells.sum(axis=0))))
            else:
                terms.append(counted(term, own))
        return replace(self, terms=tuple(terms))

    def with_pairs(self, pairs: Sequence[LevelPair], weight: float) -> Self:
        """Return the kernel with pairs, each of such a weight."""
        weights = np.append(self.level_weights, np.full(len(pairs), weight))
        return replace(self, terms=(*self.terms, *pairs), level_weights=weights)

    def with_parameters(self, values: Mapping[str, Any]) -> Self:
        """Return the kernel with some parameters replaced."""
        return replace(self, **values)

    @cached_property
    def n_codes(self) -> list[int]:
        """How many codes each term has."""
        return [len(term.functions) for term in self.terms]

    @property
    def _lines(self) -> list[tuple[int, LevelColumn]]:
        """The columns of numbers, with their places among the terms."""
        return [(k, term) for k, term in enumerate(self.terms) if isinstance(term, LevelColumn)]

    @property
    def signs(self) -> list[tuple[int, int]]:
        """The columns whose functions have a sign, and this."""
        return [(k, column.sign) for k, column in self._lines if column.sign != 0]

    @property
    def curves(self) -> list[tuple[int, Array]]:
        """The columns whose functions a fit made monotone, and these at each code."""
        found = [(k, column.curve) for k, column in self._lines]
        return [(k, curve) for k, curve in found if curve is not None]

    def with_curves(self, curves: Mapping[int, Array]) -> Self:
        """Return the kernel with monotone functions of some columns."""
        terms: list[Any] = list(self.terms)
        for k, curve in curves.items():
            terms[k] = replace(terms[k], curve=curve)
        return replace(self, terms=tuple(terms))

    @cached_property
    def parts(self) -> list[tuple[Term, slice, slice]]:
        """Each term, with its codes among all and its weights among all."""
        found, code, weight = [], 0, 0
        for term in self.terms:
            n_codes, n_weights = term.functions.shape
            codes, weights = slice(code, code + n_codes), slice(weight, weight + n_weights)
            found.append((term, codes, weights))
            code, weight = codes.stop, weights.stop
        return found

    @property
    def columns(self) -> list[tuple[LevelColumn | LevelCategories, slice, slice]]:
        """Parts that are no pairs."""
        parts = self.parts
        return [(term, c, w) for term, c, w in parts if not isinstance(term, LevelPair)]

    @cached_property
    def of_measures(self) -> Array:
        """What each of `level_weights` adds to the prior variances, of shape (n, n_weights)."""
        n_weights = self.parts[-1][2].stop
        found = np.zeros((len(self.level_weights), n_weights + 1))
        start = 0
        for term, _, weights in self.parts:
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

    def codes(self, X: Array, n_threads: int) -> NDArray[np.uint16]:
        """Return the codes of rows, of shape (n_terms, n_rows)."""
        lines = [column for _, column in self._lines]
        if len(lines) == len(self.terms):
            return _placed(X, lines, n_threads)
        found = np.empty((len(self.terms), len(X)), dtype=np.uint16)
        of_column = self._codes_of_columns(X, n_threads)
        for codes, term in zip(found, self.terms, strict=True):
            if isinstance(term, LevelPair):
                n_second = np.uint16(len(term.second.points))
                np.multiply(of_column[id(term.first)], n_second, out=codes)
                codes += of_column[id(term.second)]
            else:
                codes[:] = of_column[id(term)]
        return found

    def _codes_of_columns(self, X: Array, n_threads: int) -> dict[int, NDArray[np.uint16]]:
        """Return the codes of rows by each column, of its own or of pairs, by its identity."""
        columns: list[LevelColumn | LevelCategories] = []
        for term in self.terms:
            columns += [term.first, term.second] if isinstance(term, LevelPair) else [term]
        lines = {id(column): column for column in columns if isinstance(column, LevelColumn)}
        found = dict(zip(lines, _placed(X, lines.values(), n_threads), strict=True))
        of_labels = [column for column in columns if isinstance(column, LevelCategories)]
        return found | {id(column): column.codes(X) for column in of_labels}

    def has_codes_of(self, other: LevelKernel) -> bool:
        """Say whether rows have the same codes."""
        return len(self.terms) == len(other.terms) and all(
            a.has_codes_of(b) for a, b in zip(self.terms, other.terms, strict=True)
        )

    def to_codes(self, W: Array) -> Array:
        """Return functions with weights `W` at each code; the constant is of the first."""
        found = np.empty((self.parts[-1][1].stop, W.shape[1]))
        for term, codes, weights in self.parts:
            term.evaluate(W[weights], found[codes])
        found[: self.n_codes[0]] += W[-1]
        return found

    def to_weights(self, T: Array) -> Array:
        """Return the transpose of `to_codes`."""
        of_columns = [term.functions.T @ T[codes] for term, codes, _ in self.parts]
        return np.vstack([*of_columns, T[: self.n_codes[0]].sum(axis=0)])

    def squared(self) -> Array:
        """Return the prior variance at each code, whose sum over columns is that of a row."""
        found = np.concatenate(
            [term.functions**2 @ self.prior[weights] for term, _, weights in self.parts]
        )
        found[: self.n_codes[0]] += self.intercept_variance
        return found
