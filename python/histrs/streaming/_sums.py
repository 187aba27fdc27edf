"""Centred sums of rows and of products of rows: what the moments of a data set are made of."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas

from histrs._checks.memory import free_memory
from histrs._checks.sparse import is_sparse
from histrs._typing import Array
from histrs.streaming._weights import CountedWeights

# Rows of one symmetric product. A part of the results: sums are added block by block.
BLOCK_ROWS = 4096

OVERFLOW = "sums of rows overflow float64; divide the columns by a scale."

# What rounding may leave of a sum of squares whose rows are all taken away again.
_LOST = 1e-9

# Multiplications of one call of BLAS, a tenth of a second: a whole block of 700 features.
_LONGEST_PRODUCT = 1 << 31


@dataclass
class CentredSums:
    """Count, means and sums of products about the means, of rows `z` with targets `y`."""

    n: float
    """Sum of the weights of the rows: their number, where all weigh the same."""
    n_rows: float
    """Number of rows; one of more weight than 1 counts as that many."""
    mean: Array
    """Mean of the rows, (D,)."""
    scatter: Array
    """Sum of (z - mean)(z - mean)^T, (D, D): the upper triangle, in Fortran order."""
    y_mean: Array
    """Mean of the targets, (T,)."""
    cross: Array
    """Sum of (z - mean)(y - y_mean)^T, (D, T), in Fortran order."""
    y_squares: Array
    """Sum of (y - y_mean)^2, (T,)."""

    @classmethod
    def zeros(cls, n_features: int, n_targets: int) -> Self:
        """Return the sums of no rows.

        A ValueError says how many features fit in memory where these do not.
        """
        needed, free = 8.0 * n_features * (n_features + n_targets), free_memory()
        if needed > free:
            raise ValueError(
                f"the moments of {n_features:,} columns take {needed / 1e9:.3g} GB, the square of "
                f"their number, and {free / 1e9:.3g} GB are free: at most "
                f"{int((free / 8) ** 0.5):,} columns fit. Hash or select columns, or take a model "
                "that learns from the rows, such as BundleSVC."
            )
        return cls(
            0,
            0,
            np.zeros(n_features),
            np.zeros((n_features, n_features), order="F"),
            np.zeros(n_targets),
            np.zeros((n_features, n_targets), order="F"),
            np.zeros(n_targets),
        )

    @classmethod
    def stored(
        cls, n: float, n_rows: float, n_features: int, n_targets: int, parts: dict[str, Array]
    ) -> Self | None:
        """Return sums of a file, or None where no rows have such sums."""
        zeros = cls.zeros(n_features, n_targets)
        if any(part.shape != getattr(zeros, name).shape for name, part in parts.items()):
            return None
        sums = cls(n, n_rows, **parts)
        sums.scatter, sums.cross = map(np.asfortranarray, (sums.scatter, sums.cross))
        squares = np.concatenate([sums.scatter.diagonal(), sums.y_squares])
        if type(n) is int:
            counted = n == n_rows >= 0 and type(n_rows) is int
        else:
            # Weights make numbers of both.
            counted = all(type(k) is float and 0 <= k < math.inf for k in (n, n_rows))
        return sums if counted and np.all(squares >= 0) else None

    def copy(self) -> Self:
        """Return sums that share nothing with these."""
        parts: dict[str, Any] = {f.name: getattr(self, f.name) for f in fields(self)}
        arrays = {k: part.copy("K") for k, part in parts.items() if isinstance(part, np.ndarray)}
        return type(self)(**(parts | arrays))

    def ordered(self, order: NDArray[np.intp]) -> Self:
        """Return the sums of the same rows with their columns in another order."""
        scatter = np.asfortranarray(np.triu(full(self.scatter)[np.ix_(order, order)]))
        cross = np.asfortranarray(self.cross[order])
        return replace(self.copy(), mean=self.mean[order], scatter=scatter, cross=cross)

    def add_rows(self, Z: Any, Y: Array, weights: CountedWeights | None = None) -> None:
        """Add rows, in blocks from the first one on; a FloatingPointError if they are not finite.

        Blocks before the error have been added then. Rows of weight 0 are in no block.
        """
        used = None if weights is None else np.flatnonzero(weights.total > 0)
        n_used = Z.shape[0] if used is None else len(used)
        buffer = np.empty((min(BLOCK_ROWS, n_used) + 1, len(self.mean)))
        for start in range(0, n_used, BLOCK_ROWS):
            part: Any = slice(start, start + BLOCK_ROWS)
            part = part if used is None else used[part]
            block = Z[part]
            rows = buffer[: block.shape[0] + 1]
            if is_sparse(block) or block.dtype != np.float64 or not block.flags.c_contiguous:
                # Into the layout that columns are always summed in.
                rows[:-1] = block.toarray() if is_sparse(block) else block
                block = rows[:-1]
            with np.errstate(over="ignore", invalid="ignore"):
                self._add_block(block, rows, Y[part], weights and weights.part(part))
            self.check()

    def _add_block(
        self, block: Array, rows: Array, Y: Array, weights: CountedWeights | None
    ) -> None:
        """Add a block; `rows` is room for it and for the distance of the means."""
        n_block: float = len(block)
        n_rows: float = n_block
        if weights is None:
            mean, y_mean = block.mean(axis=0), Y.mean(axis=0)
        else:
            n_block, n_rows = float(weights.total.sum()), float(weights.copies.sum())
            shares = weights.total / n_block
            mean, y_mean = shares @ block, shares @ Y
        # One entry that is not finite is enough to make the mean so.
        if not np.isfinite(mean).all():
            raise FloatingPointError("the mean of a column is not finite")
        np.subtract(block, mean, out=rows[:-1])
        targets = np.vstack([Y - y_mean, y_mean - self.y_mean])
        if weights is not None:
            roots = np.sqrt(weights.total)[:, None]
            rows[:-1] *= roots
            targets[:-1] *= roots
        rows[-1] = mean - self.mean
        # Chan, Golub and LeVeque 1979: the step between the means counts as one more row.
        weight = np.sqrt(self.n * (n_block / (self.n + n_block)))
        rows[-1] *= weight
        targets[-1] *= weight
        # BLAS cannot be interrupted: of wide rows it is given some at a time.
        some = max(1, int(_LONGEST_PRODUCT / rows.shape[1] ** 2))
        for start in range(0, len(rows), some):
            part = rows[start : start + some].T
            self.scatter = blas.dsyrk(1.0, part, beta=1.0, c=self.scatter, overwrite_c=1)
        if targets.size:
            self.cross = blas.dgemm(
                1.0, rows.T, targets.T, trans_b=True, beta=1.0, c=self.cross, overwrite_c=1
            )
        self.y_squares += np.sum(targets**2, axis=0)
        share = n_block / (self.n + n_block)
        self.mean += share * (mean - self.mean)
        self.y_mean += share * (y_mean - self.y_mean)
        self.n += n_block
        self.n_rows += n_rows

    def merged(self, other: Self) -> Self:
        """Return the sums of the rows of both."""
        if not self.n or not other.n:
            return (self if self.n else other).copy()
        with np.errstate(over="ignore", invalid="ignore"):
            sums = self._merged(other)
        sums.check()
        return sums

    def _merged(self, other: Self) -> Self:
        n = self.n + other.n
        weight = self.n * (other.n / n)
        step, y_step = other.mean - self.mean, other.y_mean - self.y_mean
        scatter = self.scatter + other.scatter
        return type(self)(
            n,
            self.n_rows + other.n_rows,
            (self.n / n) * self.mean + (other.n / n) * other.mean,
            blas.dsyr(weight, step, a=scatter, overwrite_a=1),
            (self.n / n) * self.y_mean + (other.n / n) * other.y_mean,
            self.cross + other.cross + weight * np.outer(step, y_step),
            self.y_squares + other.y_squares + weight * y_step**2,
        )

    def without(self, other: Self) -> Self:
        """Return the sums of the rows that are not among those of `other`.

        A ValueError where there are no such rows.
        """
        n, n_rows = self.n - other.n, self.n_rows - other.n_rows
        # Sums of weights are rounded, numbers of rows are not.
        exact = isinstance(self.n, int) and isinstance(other.n, int)
        lost = 0.0 if exact else _LOST * self.n
        if n < -lost or n_rows < -lost:
            raise ValueError(
                f"cannot subtract {other.n} rows from {self.n}: subtract rows that were added."
            )
        if n <= lost or n_rows <= 0:
            return type(self).zeros(len(self.mean), len(self.y_mean))
        if other.n == 0:
            return self.copy()
        mean = self.mean + (other.n / n) * (self.mean - other.mean)
        y_mean = self.y_mean + (other.n / n) * (self.y_mean - other.y_mean)
        weight = n * (other.n / self.n)
        step, y_step = other.mean - mean, other.y_mean - y_mean
        scatter = blas.dsyr(-weight, step, a=self.scatter - other.scatter, overwrite_a=1)
        y_squares = self.y_squares - other.y_squares - weight * y_step**2
        squares = scatter.diagonal().copy()
        for left, before in ((squares, self.scatter.diagonal()), (y_squares, self.y_squares)):
            if np.any(left < -_LOST * before):
                raise ValueError(
                    "cannot subtract rows that were not added: some variance would be negative."
                )
        scatter[np.diag_indices_from(scatter)] = np.maximum(squares, 0.0)
        cross = self.cross - other.cross - weight * np.outer(step, y_step)
        return type(self)(
            n, n_rows, mean, scatter, y_mean, np.asfortranarray(cross), np.maximum(y_squares, 0.0)
        )

    def check(self) -> None:
        """Refuse sums that have overflowed; no product is larger than the squares."""
        if not all(
            np.isfinite(part).all()
            for part in (self.mean, self.scatter.diagonal(), self.y_mean, self.y_squares)
        ):
            raise ValueError(OVERFLOW)

    def with_targets(self, of_columns: NDArray[np.intp], value: float) -> Self:
        """Return the sums with these targets; -1 is a new one that had a value in all rows."""
        is_new = of_columns < 0
        return replace(
            self,
            y_mean=np.where(is_new, value, np.append(self.y_mean, 0.0)[of_columns]),
            y_squares=np.append(self.y_squares, 0.0)[of_columns],
            cross=np.asfortranarray(np.pad(self.cross, ((0, 0), (0, 1)))[:, of_columns]),
        )

    def without_targets(self) -> Self:
        """Return the sums of the rows alone; they share the arrays."""
        none = np.zeros(0)
        return type(self)(
            *(self.n, self.n_rows, self.mean, self.scatter),
            *(none, np.zeros((len(self.mean), 0)), none),
        )


def finite(n: float, *factors: Array, add: Array | float = 0.0) -> Array:
    """Return n times a product, and more; an overflow is an error."""
    with np.errstate(over="ignore", invalid="ignore"):
        total = np.asarray(n * math.prod(factors) + add)
    if not np.isfinite(total).all():
        raise ValueError(OVERFLOW)
    return total


def full(upper: Array) -> Array:
    """Return the symmetric matrix whose upper triangle is given."""
    return np.triu(upper) + np.triu(upper, 1).T
