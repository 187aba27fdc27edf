"""Rows that come and go: a system takes over what is known of the one before.

Sorted columns are merged or thinned out. A Cholesky factor is extended, or turned into that of the
rows that stay. A preconditioner keeps its knots or pivots, until so many rows have changed that
others would suit better.
"""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import linalg

from histrs._solvers.cholesky import CholeskyFactor
from histrs._solvers.preconditioners import Indices
from histrs._solvers.row_scale import scaled
from histrs._threads import blas_threads_at_most
from histrs._typing import Array
from histrs.gaussian_process._bound.base import Bound
from histrs.gaussian_process._rows import appended
from histrs.gaussian_process._systems.system import System

# Rows that may be added or removed, as part of all, before the preconditioner is made anew.
_STALE = 0.5
# Removing a larger part of the rows from a factor takes longer than factorising again.
_MAX_REMOVED = 0.2


def insert_rows(
    system: System,
    X: Any,
    n_outputs: int,
    row_scale: Array | None = None,
    *,
    weights: Array | None = None,
    bound: Bound | None = None,
) -> System:
    """Return the system with further rows behind its own.

    Their weights, by which functions are centred, have the roots `row_scale` where systems are
    scaled; None is 1. `bound` is the kernel on all rows, if it is known.
    """
    bound = system.bound.inserted(X, weights) if bound is None else bound
    n_new = X.shape[0]
    if system.row_scale is not None and row_scale is None:
        row_scale = np.ones(n_new)
    grown = replace(
        system,
        bound=bound,
        n_changed=system.n_changed + n_new,
        row_scale=appended(system.row_scale, system.bound.n_rows, row_scale),
    )
    if _changes_whole(bound):
        return replace(grown, n_changed=0)
    known: dict[str, Any] = {}
    T = bound.rows_of(X)
    has_factor = isinstance(vars(system).get("factor"), CholeskyFactor)
    if has_factor and grown.uses_cholesky(n_outputs):
        # Where that fails, factorising again finds out why.
        with contextlib.suppress(linalg.LinAlgError):
            known["factor"] = _grown_factor(system, T, row_scale)
    if system.row_scale is None and row_scale is not None:
        # Whose preconditioner knows of no weights.
        system = replace(system)
    return _with(grown, known, system, "insert", T, row_scale)


def _grown_factor(system: System, T: Any, row_scale: Array | None) -> CholeskyFactor:
    B = scaled(row_scale, system.cross(T).T)
    C = scaled(row_scale, system.bound.gram(T))
    if row_scale is not None:
        C *= row_scale
    C[np.diag_indices_from(C)] += system.s
    grown: CholeskyFactor = system.factor.insert(B, C)
    return grown


def remove_rows(
    system: System, removed: Indices, n_outputs: int, *, bound: Bound | None = None
) -> System:
    """Return the system without some of its rows, which are in ascending order."""
    kept = left_over(system.bound.n_rows, removed)
    bound = system.bound.removed(kept, removed) if bound is None else bound
    shrunk = replace(
        system,
        bound=bound,
        n_changed=system.n_changed + len(removed),
        row_scale=None if system.row_scale is None else system.row_scale[kept],
    )
    if _changes_whole(bound):
        return replace(shrunk, n_changed=0)
    known: dict[str, Any] = {}
    few = len(removed) <= _MAX_REMOVED * len(kept)
    has_factor = isinstance(vars(system).get("factor"), CholeskyFactor)
    if few and has_factor and shrunk.uses_cholesky(n_outputs):
        known["factor"] = system.factor.remove(kept, removed)
    return _with(shrunk, known, system, "remove", kept, removed)


def _changes_whole(bound: Bound) -> bool:
    """Say whether one row changes every entry, as of functions that are centred."""
    return bool(getattr(bound.kernel, "is_smooth", False))


def _with(
    changed: System, known: dict[str, Any], before: System, change: str, *rows: Any
) -> System:
    """Return the changed system with its properties as far as they are known.

    `change` is the method by which a preconditioner follows, where it can.
    """
    carry_over = getattr(vars(before).get("preconditioner"), change, None)
    if carry_over is not None and changed.n_changed <= _STALE * changed.bound.n_rows:
        # Threads of BLAS would spin while those of the core want the cores.
        with blas_threads_at_most(1):
            known["preconditioner"] = carry_over(*rows)
    else:
        changed = replace(changed, n_changed=0)
    vars(changed).update(known)
    return changed


def left_over(n: int, removed: Indices) -> Indices:
    """Return the numbers below `n` that are not among others, in ascending order."""
    kept = np.ones(n, dtype=bool)
    kept[removed] = False
    return np.flatnonzero(kept).astype(np.int64)


def rows_to_forget(indices: ArrayLike, n: int) -> Indices:
    """Return row numbers in ascending order, each that of a row, and not those of all."""
    given: NDArray[Any] = np.asarray(indices)
    if given.size == 0:
        return np.empty(0, dtype=np.int64)
    if given.dtype.kind not in "iu" or given.ndim > 1:
        raise ValueError(
            f"indices must be one integer or a sequence of them, got {given.ndim} dimensions of "
            f"{given.dtype}; np.flatnonzero turns a mask into indices."
        )
    given = np.atleast_1d(given)
    outside = np.flatnonzero((given < 0) | (given >= n))
    if len(outside) > 0:
        raise ValueError(
            f"indices[{outside[0]}] = {given[outside[0]]} is not a training row: there are {n}, "
            f"numbered from 0 to {n - 1}."
        )
    rows, counts = np.unique(given, return_counts=True)
    if np.any(counts > 1):
        raise ValueError(f"indices name row {rows[counts > 1][0]} twice; name each once.")
    if len(rows) == n:
        raise ValueError(
            f"All {n} training rows would be forgotten: keep one at least, or start with a new "
            "estimator."
        )
    return rows.astype(np.int64)
