"""Online updates: a system takes over what is known of the one before.

Sorted columns are merged or thinned out. A Cholesky factor is extended, or turned into that of the
rows that stay. A preconditioner keeps its knots or pivots, until so many rows have changed that
others would suit better.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import linalg, sparse

from histrs import _histrs
from histrs._solvers.block_cg import Array
from histrs._solvers.cholesky import CholeskyFactor
from histrs._solvers.preconditioners import Indices, Preconditioner
from histrs._solvers.row_scale import scaled
from histrs._sparse import is_sparse
from histrs._threads import blas_threads_at_most
from histrs._validation import Matrix, to_core
from histrs.gaussian_process._kernels.algebra import Views
from histrs.gaussian_process._row_weights import appended
from histrs.gaussian_process._system import KernelSystem

# Rows that may be added or removed, as part of all, before the preconditioner is made anew.
_STALE = 0.5
# Removing a larger part of the rows from a factor takes longer than factorising again.
_MAX_REMOVED = 0.2


def insert_rows(
    system: KernelSystem, X: Matrix, n_outputs: int, row_scale: Array | None = None
) -> KernelSystem:
    """Return the system with further rows behind its own.

    Parameters
    ----------
    system : KernelSystem
        The system before, which stays as it is.
    X : matrix of shape (n_rows, n_features)
        The rows, in canonical form.
    n_outputs : int
        How many targets will be solved for.
    row_scale : ndarray of shape (n_rows,), default=None
        Roots of the weights of the new rows; None for 1.

    Raises
    ------
    ValueError
        If an entry of `X` is not one of a histogram.
    """
    n_threads = system.n_threads
    # Reads every entry and names the first bad one.
    base = system.sorted_base().insert(to_core(X), n_threads)
    rows = system.kernel.rows(X, n_threads)
    plain = system.kernel.is_plain
    unused = plain or system.kernel.is_smooth
    if system.row_scale is not None and row_scale is None:
        row_scale = np.ones(X.shape[0])
    grown = replace(
        system,
        X=stacked(system.X, X),
        base_columns=base,
        transformed_columns=None if unused else system.columns.insert(to_core(rows), n_threads),
        pair_rows=None,
        smooth_rows=None,
        n_changed=system.n_changed + X.shape[0],
        row_scale=appended(system.row_scale, system.X.shape[0], row_scale),
    )
    if system.smooth is not None:
        return _with_all_anew(grown)
    known: dict[str, Any] = {
        "row_sums": np.append(system.row_sums, _histrs.row_sums(to_core(rows), n_threads))
    }
    if not plain and "rows" in vars(system):
        known["rows"] = stacked(system.rows, rows)
    if "factor" in vars(system) and grown.uses_cholesky(n_outputs):
        # Where that fails, factorising again finds out why.
        with contextlib.suppress(linalg.LinAlgError):
            known["factor"] = _grown_factor(system, rows, row_scale)
    if system.row_scale is None and row_scale is not None:
        # Whose preconditioner knows of no weights.
        system = replace(system)
    return _with(grown, known, system, lambda old: old.insert(rows, row_scale))


def _grown_factor(system: KernelSystem, rows: Matrix, row_scale: Array | None) -> CholeskyFactor:
    B = scaled(row_scale, system.cross_kernel(rows).T)
    C = scaled(row_scale, system.gram(rows))
    if row_scale is not None:
        C *= row_scale
    C[np.diag_indices_from(C)] += system.s
    return system.factor.insert(B, C)


def remove_rows(system: KernelSystem, removed: Indices, n_outputs: int) -> KernelSystem:
    """Return the system without some of its rows.

    Parameters
    ----------
    system : KernelSystem
        The system before, which stays as it is.
    removed : ndarray of int
        Which rows, in ascending order.
    n_outputs : int
        How many targets will be solved for.
    """
    kept = left_over(system.X.shape[0], removed)
    plain = system.kernel.is_plain
    unused = plain or system.kernel.is_smooth
    shrunk = replace(
        system,
        X=system.X[kept],
        base_columns=system.sorted_base().remove(removed, system.n_threads),
        transformed_columns=None if unused else system.columns.remove(removed, system.n_threads),
        pair_rows=None,
        smooth_rows=None,
        n_changed=system.n_changed + len(removed),
        row_scale=None if system.row_scale is None else system.row_scale[kept],
    )
    if system.smooth is not None:
        return _with_all_anew(shrunk)
    known: dict[str, Any] = {"row_sums": system.row_sums[kept]}
    if not plain and "rows" in vars(system):
        known["rows"] = system.rows[kept]
    few = len(removed) <= _MAX_REMOVED * len(kept)
    if few and "factor" in vars(system) and shrunk.uses_cholesky(n_outputs):
        known["factor"] = system.factor.remove(kept, removed)
    return _with(shrunk, known, system, lambda old: old.remove(kept, removed))


def _with_all_anew(changed: KernelSystem) -> KernelSystem:
    """Return a system of smooth functions, which are centred over its rows: all entries change."""
    return replace(changed, n_changed=0)


def _with(
    changed: KernelSystem,
    known: dict[str, Any],
    before: KernelSystem,
    carry_over: Callable[[Preconditioner], Preconditioner],
) -> KernelSystem:
    """Return the changed system with its properties as far as they are known."""
    old = vars(before).get("preconditioner")
    if old is not None and changed.n_changed <= _STALE * changed.X.shape[0]:
        # Threads of BLAS would spin while those of the core want the cores.
        with blas_threads_at_most(1):
            known["preconditioner"] = carry_over(old)
    else:
        changed = replace(changed, n_changed=0)
    vars(changed).update(known)
    return changed


def stacked(X: Any, below: Any) -> Any:
    """Return the rows of both, in the container of the first."""
    if isinstance(X, Views):
        return Views(*map(stacked, X.of, below.of))
    if not is_sparse(X):
        return np.vstack([X, below.toarray() if is_sparse(below) else below])
    both: Matrix = type(X)(sparse.vstack([X, sparse.csr_array(below)], format="csr"))
    return both


def left_over(n: int, removed: Indices) -> Indices:
    """Return the numbers below `n` that are not among others, in ascending order."""
    kept = np.ones(n, dtype=bool)
    kept[removed] = False
    return np.flatnonzero(kept).astype(np.int64)


def rows_to_forget(indices: ArrayLike, n: int) -> Indices:
    """Return row numbers in ascending order, checked.

    Raises
    ------
    ValueError
        If they are not integers, not those of rows, repeat, or leave nothing.
    """
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
