"""Distances between histograms whose bins are points: no matrix between all of these is made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.utils import gen_batches

from histrs._checks.validation import real_array
from histrs._typing import Array, Matrix
from histrs._warnings import warn

# Of a row of X, rows of Y and the costs between their bins, results of one row each.
Solve = Callable[[Matrix, Matrix, Array], tuple[NDArray[Any], ...]]

# Rows of Y whose bins are taken together: more have more bins, and fewer share fewer.
_BLOCK = 128


def check_positions(positions: ArrayLike | None, *sides: Matrix) -> Array:
    """Return where the bins of every side are, around their centre."""
    points = real_array(positions, "positions")
    n_bins = sides[0].shape[1]
    if points.ndim != 2 or len(points) != n_bins:
        raise ValueError(
            f"positions has shape {points.shape}, expected ({n_bins}, n_dimensions): a row for "
            "each column of X."
        )
    for side in sides[1:]:
        if side.shape[1] != n_bins:
            raise ValueError(
                f"X has {n_bins} columns but Y has {side.shape[1]}; give both the same bins."
            )
    if not np.isfinite(points).all():
        row, column = np.argwhere(~np.isfinite(points))[0]
        raise ValueError(
            f"positions[{row}, {column}] = {points[row, column]}: give finite numbers."
        )
    # Around the origin, from where squares have most digits.
    centred: Array = points - points.mean(axis=0)
    return centred


def takes_positions(M: Any, positions: ArrayLike | None) -> bool:
    """Whether costs are given by positions; one of both is given."""
    if (M is None) == (positions is None):
        raise ValueError(
            "Give either M, the costs between bins, or positions, the points of the bins (in "
            "metric_params if the metric has a name)."
        )
    return positions is not None


def by_supports(
    X: Matrix, Y: Matrix | None, positions: ArrayLike | None, solve: Solve, fills: tuple[float, ...]
) -> list[NDArray[Any]]:
    """Return what `solve` does of each row of `X` and all of `Y`, over bins with mass alone.

    Rows are divided by their sums. What concerns one without mass is left at `fills`, and the
    warning has its index.
    """
    points = check_positions(positions, *((X,) if Y is None else (X, Y)))
    X, filled = _of_mass_1(X, "X")
    other, filled_other = (X, filled) if Y is None else _of_mass_1(Y, "Y")
    results = [np.full((X.shape[0], other.shape[0]), fill) for fill in fills]
    supports = {i: _used(X[[i]]) for i in np.flatnonzero(filled)}
    sources = {i: X[[i]][:, support] for i, support in supports.items()}
    for block in gen_batches(other.shape[0], _BLOCK):
        columns = block.start + np.flatnonzero(filled_other[block])
        used = _used(other[columns])
        targets = other[columns][:, used]
        for i, support in supports.items():
            # Of one side with itself, each pair once.
            first = np.searchsorted(columns, i) if Y is None else 0
            if first == len(columns):
                continue
            found = solve(sources[i], targets[first:], _distances(points, support, used))
            for result, values in zip(results, found, strict=True):
                result[i, columns[first:]] = values[0]
                if Y is None:
                    result[columns[first:], i] = values[0]
    return results


def of_pairs_by_supports(
    X: Matrix,
    Y: Matrix,
    rows: NDArray[np.intp],
    columns: NDArray[np.intp],
    positions: ArrayLike,
    solve: Solve,
) -> Array:
    """Return the first result of `solve` of some pairs, all of which have mass."""
    points = check_positions(positions, X, Y)
    X, Y = _of_mass_1(X, "X")[0], _of_mass_1(Y, "Y")[0]
    values = np.empty(len(rows))
    for i in np.unique(rows):
        of_row = np.flatnonzero(rows == i)
        targets = Y[columns[of_row]]
        support, used = _used(X[[i]]), _used(targets)
        M = _distances(points, support, used)
        values[of_row] = solve(X[[i]][:, support], targets[:, used], M)[0][0]
    return values


def relaxed_bounds_by_supports(X: Matrix, Y: Matrix, positions: ArrayLike) -> Array:
    """Return bounds below the distances as `relaxed_bounds` has them; infinite without mass."""

    def solve(row: Matrix, targets: Matrix, M: Array) -> tuple[NDArray[Any], ...]:
        targets = sparse.csr_array(targets)
        # Rows of words of one text lie one after the other.
        costs = np.ascontiguousarray(M.T)[targets.indices]
        nearest = np.minimum.reduceat(costs, targets.indptr[:-1], axis=0)
        return (np.maximum(np.asarray(row @ nearest.T), targets @ M.min(axis=0)),)

    return by_supports(X, Y, positions, solve, (np.inf,))[0]


def _of_mass_1(X: Matrix, name: str) -> tuple[Matrix, NDArray[np.bool_]]:
    """Return rows divided by their sums, and which of them have one."""
    sums = np.asarray(X.sum(axis=1), dtype=np.float64).ravel()
    filled = sums > 0
    empty = np.flatnonzero(~filled)
    if len(empty) > 0:
        some = ", ".join(str(i) for i in empty[:5]) + (", ..." if len(empty) > 5 else "")
        warn(
            f"{len(empty)} of {X.shape[0]} rows of {name} have no mass, and are left out: their "
            f"distances are infinite (rows {some}).",
            UserWarning,
        )
    scale = 1.0 / np.where(filled, sums, 1.0)
    if sparse.issparse(X):
        return sparse.csr_array(sparse.diags_array(scale) @ X.astype(np.float64)), filled
    return np.asarray(X * scale[:, None]), filled


def _used(X: Matrix) -> NDArray[np.intp]:
    return np.flatnonzero(np.asarray((X > 0).sum(axis=0)).ravel())


def _distances(points: Array, rows: NDArray[np.intp], columns: NDArray[np.intp]) -> Array:
    """Return Euclidean distances, by a product, and exactly 0 of a bin to itself."""
    left, right = points[rows], points[columns]
    squares = left @ right.T
    squares *= -2.0
    squares += np.einsum("ij,ij->i", left, left)[:, None]
    squares += np.einsum("ij,ij->i", right, right)
    np.maximum(squares, 0.0, out=squares)
    squares[rows[:, None] == columns] = 0.0
    return np.sqrt(squares, out=squares)
