"""Which matrix is nearly the inverse of an additive system, and of what size."""

from __future__ import annotations

from typing import Any

import numpy as np

from histrs._solvers.low_rank import LowRank, precision_of_factor
from histrs._typing import Array
from histrs.gaussian_process._bound.splines import SmoothTerm
from histrs.gaussian_process._options import PreconditionerName

# Preconditioning with knots factorises a matrix of all knots of all columns. With as many as the
# root of the number of rows asks for, the iterations do not grow with it.
_KNOTS_PER_ROOT_OF_ROWS = 6.5
_MAX_KNOTS = 6144
_MIN_KNOTS_PER_COLUMN = 8
_MAX_KNOTS_PER_COLUMN = 255
# More columns have so few knots each that a low-rank preconditioner does better.
_MAX_KNOT_COLUMNS = 256
MAX_RANK = 512
# Bytes of its factor at most, and the rank that it always may have: a lower one makes more
# iterations, each cheaper, in as much time.
_FACTOR_BYTES = 1 << 30
_MIN_RANK = 64


def of_splines(
    smooth: SmoothTerm, s: float, n_rows: int, n_threads: int, row_scale: Array | None
) -> LowRank:
    """Return some columns' approximation; smooth functions leave little beside it."""
    T = smooth.rows.T
    return LowRank(
        lambda rows: smooth.cross(T[rows]).T,
        smooth.diagonal,
        s,
        _rank(n_rows, np.float64),
        n_threads,
        row_scale,
    )


def name_of(name: PreconditionerName, n_columns: int) -> PreconditionerName:
    """Return the preconditioner, chosen by the number of columns if it is to be."""
    if name != "auto":
        return name
    return "knots" if n_columns <= _MAX_KNOT_COLUMNS else "pivoted-cholesky"


def n_knots_of(shape: tuple[int, int]) -> int:
    """Return the knots of a column."""
    n_rows, n_columns = shape
    wanted = min(_KNOTS_PER_ROOT_OF_ROWS * n_rows**0.5, _MAX_KNOTS) / max(n_columns, 1)
    return int(np.clip(wanted, _MIN_KNOTS_PER_COLUMN, _MAX_KNOTS_PER_COLUMN))


def rank_of(diagonal: Array, s: float, row_scale: Array | None) -> int:
    """Return how many columns a factor has room for, and a use."""
    return _rank(len(diagonal), precision_of_factor(diagonal, s, row_scale)[0])


def _rank(n_rows: int, dtype: type[np.floating[Any]]) -> int:
    fits = max(_MIN_RANK, _FACTOR_BYTES // (np.dtype(dtype).itemsize * max(n_rows, 1)))
    return int(min(MAX_RANK, fits, max(1, n_rows // 8)))
