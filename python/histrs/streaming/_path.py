"""Ridge regression on principal components, for a path of penalties at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.linalg import blas

from histrs._checks.scale import may_overflow
from histrs._checks.sparse import is_sparse
from histrs._typing import Array
from histrs.streaming._classes import LeftOut
from histrs.streaming._moments import Moments
from histrs.streaming._principal import principal_directions
from histrs.streaming._rows import Chunk, checked
from histrs.streaming._sums import BLOCK_ROWS
from histrs.streaming._weights import CountedWeights, counted_weights

# What rounding may change in a sum of weights.
_ROUNDING = 1e-9
# Penalties of which one over does not overflow, and sums of them do not.
SMALLEST_ALPHA, _LARGEST = 1e-300, 1e300


@dataclass(frozen=True)
class RidgePath:
    """The regression in a basis in which its matrix is diagonal (Algorithm 3, steps 1 to 3)."""

    n: float
    """Sum of the weights of the rows with targets: their number, where all weigh the same."""
    n_rows: float
    """Number of rows with targets; one of more weight than 1 counts as that many."""
    mean: Array
    y_mean: Array
    y_squares: Array
    values: Array
    """Diagonal of the matrix H', (k,)."""
    basis: Array
    """Columns that span the principal directions, (D, k)."""
    projected: Array
    """v', (k, T)."""

    @classmethod
    def of(cls, moments: Moments, n_components: int) -> Self:
        """Decompose moments; the directions are those of all rows, with targets and without."""
        sums = moments._labelled_rows()
        values, basis = principal_directions(moments._all_rows().scatter, n_components)
        if moments._unlabelled is not None and moments._unlabelled.n:
            # H' of the rows with targets is not diagonal in the directions of all rows.
            inner = basis.T @ blas.dsymm(1.0, sums.scatter, basis)
            values, rotation = principal_directions(inner, n_components)
            basis = basis @ rotation
        kept = values > len(sums.scatter) * np.finfo(np.float64).eps * values[0]
        # Of directions without variance rounding is left, which small penalties would divide.
        kept[0] = True
        values, basis = values[kept], basis[:, kept]
        return cls(
            sums.n,
            sums.n_rows,
            sums.mean.copy(),
            sums.y_mean.copy(),
            sums.y_squares.copy(),
            values,
            basis,
            basis.T @ sums.cross,
        )

    def solve(self, alpha: float) -> tuple[Array, Array]:
        """Return coefficients of the features, (T, D), and intercepts, (T,)."""
        coefficients = (self.basis @ (self.projected / (self.values + alpha)[:, None])).T
        return coefficients, self.y_mean - coefficients @ self.mean

    def default_alphas(self, n_components: int) -> Array:
        """Return penalties for any units: from the sum of the squares of the rows downwards."""
        total = float(np.sum(self.values))
        # Where the model may interpolate, smaller penalties leave nothing but rounding.
        decades = 14 if self.n_rows > n_components + 1 else 10
        factors = np.logspace(-decades, 3, 2 * (decades + 3) + 1)
        if 0 < total < SMALLEST_ALPHA / factors[0] or total > _LARGEST / factors[-1]:
            raise ValueError(
                f"The squares of the centred features, times sample_weight, sum to {total:.3g}, "
                "and penalties relative to that are beyond the range of double precision: scale "
                "the features or sample_weight."
            )
        return (total if total > 0 else 1.0) * factors

    def variance(self) -> float:
        """Return the variance of the targets, as a mean over them."""
        return float(np.mean(self.y_squares) / self.n)

    def generalized_errors(self, alphas: Array) -> Array:
        """Return the generalized cross-validation errors, which need the moments alone."""
        shrunk = self.values[:, None] + alphas
        # In turn: squares of small penalties underflow, those of projections overflow.
        explained = self.values[:, None] / shrunk * ((self.values[:, None] + 2 * alphas) / shrunk)
        roots = np.sqrt(self.values)[:, None]
        parts = np.divide(
            self.projected, roots, out=np.zeros_like(self.projected), where=roots > 0.0
        )
        residual = np.sum(self.y_squares) - np.sum(parts**2, axis=1) @ explained
        # One degree of freedom is the intercept's.
        free = 1 - (1 + np.sum(self.values[:, None] / shrunk, axis=0)) / self.n_rows
        # The residual is a difference whose rounding, over the square of free, must stay small.
        usable = free > 1e-6
        errors = np.full(len(alphas), np.inf)
        mean_square = np.maximum(residual, 0.0) / (self.n * len(self.y_mean))
        with may_overflow():
            errors[usable] = mean_square[usable] / free[usable] ** 2
        return errors

    def leave_one_out_errors(self, chunks: Iterable[Chunk], alphas: Array) -> Array:
        """Return the mean squared errors of rows left out, for these directions.

        Of a weight of 1 or less the whole row is left out; of more, one of the equal rows that it
        stands for. A weight of a class is that of each of its rows.
        """
        inverse = 1.0 / (self.values[:, None] + alphas)
        errors = np.zeros(len(alphas))
        n_rows: float = 0
        for rows, targets, weights in self._projected_blocks(chunks):
            n_rows += len(targets) if weights is None else float(weights.copies.sum())
            with may_overflow():
                leverage = 1 / self.n + rows**2 @ inverse
                if weights is not None:
                    leverage *= weights.unit[:, None]
                for i in range(len(alphas)):
                    residual = targets - rows @ (self.projected * inverse[:, i : i + 1])
                    kept = np.maximum(1 - leverage[:, i], np.finfo(np.float64).eps)
                    squares = (residual / kept[:, None]) ** 2
                    if weights is not None:
                        squares = weights.total @ squares
                    errors[i] += np.sum(squares)
        # Sums of weights are rounded.
        if abs(n_rows - self.n_rows) > _ROUNDING * self.n_rows:
            raise ValueError(
                f"a second pass over the rows, which leaves out each in turn, found {n_rows} with "
                f"targets where the first found {self.n_rows}. Give an array, a path, a list or an "
                'object whose __iter__ begins again, or choose selection="gcv".'
            )
        # One beyond double precision is not the least.
        errors[~np.isfinite(errors)] = np.inf
        return errors / (self.n * len(self.y_mean))

    def left_out(self, chunks: Iterable[Chunk], alpha: float) -> LeftOut:
        """Return the scores of rows by models of all others; none of weight 0."""
        inverse = 1.0 / (self.values + alpha)
        found: list[tuple[Array, ...]] = []
        for rows, targets, weights in self._projected_blocks(chunks):
            leverage = 1 / self.n + rows**2 @ inverse
            if weights is not None:
                leverage *= weights.unit
            residual = targets - rows @ (self.projected * inverse[:, None])
            kept = np.maximum(1 - leverage, np.finfo(np.float64).eps)
            ones = np.ones(len(rows))
            counts = (ones, ones) if weights is None else (weights.total, weights.copies)
            targets = targets + self.y_mean
            found.append((targets - residual / kept[:, None], targets, *counts))
        if not found:
            raise ValueError(
                "a further pass over the rows, for probabilities, found none: give an array, a "
                "path, or a list or an object whose __iter__ begins again."
            )
        return LeftOut(*(np.concatenate(parts) for parts in zip(*found, strict=True)))

    def _projected_blocks(
        self, chunks: Iterable[Chunk]
    ) -> Iterator[tuple[Array, Array, CountedWeights | None]]:
        """Yield rows in the basis, their targets and weights; none of weight 0."""
        for Z, targets, sample_weight in chunks:
            if targets is None:
                continue
            Z = checked(Z)
            Y = np.asarray(targets, dtype=np.float64).reshape(np.shape(Z)[0], -1)
            weights = counted_weights(sample_weight, len(Y))
            if weights is not None:
                used = np.flatnonzero(weights.total > 0)
                Z, Y, weights = Z[used], Y[used], weights.part(used)
            for start in range(0, len(Y), BLOCK_ROWS):
                part = slice(start, start + BLOCK_ROWS)
                block = Z[part].toarray() if is_sparse(Z) else Z[part]
                projected = (block - self.mean) @ self.basis
                yield projected, Y[part] - self.y_mean, weights and weights.part(part)
