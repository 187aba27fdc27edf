"""Optimised product quantisation: the rotation after which blocks of columns lose least."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from histrs._checks.scale import exponent_of, may_overflow
from histrs._checks.sparse import is_sparse
from histrs._threads import blas_threads_at_most, in_threads, leavable
from histrs._typing import Array, Matrix
from histrs.quantization import _codebooks
from histrs.quantization._metrics import METRICS, sums_by_code

# Rows that are rotated at a time: the same whatever the number of threads, as are then the bits.
_ROWS = 1024
# Alternation ends where the error falls by less than this part of it.
_TOL = 1e-4
# Rounds after which the better of two starts goes on.
_TRIED = 3


def rotated(
    rows: Matrix, rotation: NDArray[Any] | None, n_threads: int, first: int = 0
) -> NDArray[Any]:
    """Return finite rows, dense and times a matrix in their precision; without one, a copy.

    Errors count rows from `first` on.
    """
    if rotation is None:
        copy: Any = rows
        return np.array(copy.toarray() if is_sparse(rows) else rows)
    matrix = rotation.astype(rows.dtype, copy=False)

    def part(start: int) -> NDArray[Any]:
        with may_overflow():
            product: NDArray[Any] = np.asarray(rows[start : start + _ROWS] @ matrix)
        check_range(product, first + start, "rotated")
        return product

    starts = range(0, rows.shape[0], _ROWS)
    if len(starts) == 0:
        return np.empty((0, rotation.shape[1]), dtype=rows.dtype)
    with blas_threads_at_most(1):
        return np.concatenate(in_threads(part, starts, n_threads=n_threads))


def check_range(values: NDArray[Any], first: int, what: str) -> None:
    """Refuse what was computed of rows from `first` on and overflowed."""
    bad = np.flatnonzero(~np.isfinite(values).all(axis=1))
    if len(bad) > 0:
        raise ValueError(
            f"X[{first + bad[0]}], {what}, exceeds the range of {values.dtype}: scale X down, or "
            "give float64."
        )


def by_eigenvalues(X: Array, offsets: NDArray[np.int64]) -> Array:
    """Return the principal axes, dealt out so that blocks have nearly equal products of variances.

    This is the parametric solution of optimised product quantisation, for rows of a Gaussian
    distribution; the greatest variances go first, each to the block of least product with room.
    """
    centred = X - X.mean(axis=0)
    variances, axes = leavable(np.linalg.eigh, centred.T @ centred)
    largest = variances[-1]
    # Above rounding, and relative to the least of them: a product then grows with every factor.
    floor = max(largest * np.finfo(np.float64).eps, np.finfo(np.float64).tiny)
    logs = np.log(np.maximum(variances, floor))
    logs -= logs.min()
    room = np.diff(offsets)
    products = np.zeros(len(room))
    next_column = offsets[:-1].copy()
    order = np.empty(X.shape[1], dtype=np.intp)
    for axis in np.argsort(-logs, kind="stable"):
        block = int(np.argmin(np.where(room > 0, products, np.inf)))
        order[next_column[block]] = axis
        next_column[block] += 1
        room[block] -= 1
        products[block] += logs[axis]
    dealt: Array = axes[:, order]
    return dealt


def learn(
    X: Array,
    offsets: NDArray[np.int64],
    n_codes: int,
    algorithm: str,
    max_iter: int,
    rng: np.random.RandomState,
    n_threads: int,
    encode: Callable[[Array, Array], NDArray[Any]],
    progress: Callable[[str], None],
) -> tuple[Array, Array, int]:
    """Return an orthogonal matrix, codebooks of rows times it, and the iterations they took.

    Codes, codewords and the matrix are improved in turn. One start is the parametric solution, and
    one is the rows as they are. The second may be better if columns are in a meaningful order, such
    as pixels. After a few rounds the better of the two goes on.
    """
    exponent = exponent_of(X)
    X = np.ldexp(X, -exponent)
    with blas_threads_at_most(1):
        starts = [np.eye(X.shape[1]), by_eigenvalues(X, offsets)]
    runs, n_iter = [], 0
    for rotation in starts:
        codebooks, n_means = _codebooks.learn(
            rotated(X, rotation, n_threads),
            offsets,
            n_codes,
            METRICS["euclidean"],
            algorithm,
            max_iter,
            rng,
            n_threads,
            progress,
        )
        run = _Alternation(X, offsets, rotation, codebooks, encode, n_threads, progress)
        runs.append(run)
        run.improve(min(max_iter, _TRIED))
        n_iter = max(n_iter, n_means)
    best = min(runs, key=lambda run: run.error)
    best.improve(max_iter - best.n_rounds)
    return best.rotation, np.ldexp(best.codebooks, exponent), max(n_iter, best.n_rounds)


class _Alternation:
    """A rotation and codebooks, improved in turn (Ge et al. 2013, section 3.1)."""

    def __init__(
        self,
        X: Array,
        offsets: NDArray[np.int64],
        rotation: Array,
        codebooks: Array,
        encode: Callable[[Array, Array], NDArray[Any]],
        n_threads: int,
        progress: Callable[[str], None],
    ) -> None:
        self._progress = progress
        self._X, self._offsets, self._encode, self._n_threads = X, offsets, encode, n_threads
        self._squares = float(np.sum(X**2))
        self._ended = False
        self.rotation, self.codebooks = rotation, codebooks
        self.error, self.n_rounds = np.inf, 0

    def improve(self, n_rounds: int) -> None:
        """Take so many rounds, or fewer where the error hardly falls any more."""
        for _ in range(n_rounds):
            if self._ended:
                return
            self.n_rounds += 1
            Y = rotated(self._X, self.rotation, self._n_threads)
            codes = self._encode(Y, self.codebooks)
            with blas_threads_at_most(1):
                self.codebooks, product, squares = _updated(
                    self._X, codes, self.codebooks, self.rotation, self._offsets
                )
                # The orthogonal matrix that takes X nearest to what codes stand for.
                left, values, right = leavable(np.linalg.svd, product)
            self.rotation = left @ right
            before, self.error = self.error, self._squares + squares - 2 * float(values.sum())
            self._progress(f"rotation, round {self.n_rounds}")
            self._ended = before - self.error <= _TOL * max(self.error, 0.0)


def _updated(
    X: Array, codes: NDArray[Any], codebooks: Array, rotation: Array, offsets: NDArray[np.int64]
) -> tuple[Array, Array, float]:
    """Return the means of rotated rows, `X^T Y` with the rows `Y` they stand for, and `|Y|^2`."""
    codebooks, product, squares = codebooks.copy(), np.empty_like(rotation), 0.0
    n_codes = codebooks.shape[1]
    for m, (start, stop) in enumerate(pairwise(offsets)):
        sums = sums_by_code(X, codes[:, m], n_codes)
        counts = np.bincount(codes[:, m], minlength=n_codes)
        used = counts > 0
        centres = codebooks[m, :, : stop - start]
        centres[used] = (sums[used] @ rotation[:, start:stop]) / counts[used, None]
        product[:, start:stop] = sums.T @ centres
        squares += float(counts @ np.sum(centres**2, axis=1))
    return codebooks, product, squares
