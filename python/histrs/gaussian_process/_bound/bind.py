"""Kernels meet their rows: by products, as a matrix, or in few bytes."""

from __future__ import annotations

from typing import Any

from histrs import _histrs
from histrs._checks.validation import count_threads
from histrs._distributed.rows import is_dask
from histrs._typing import Array
from histrs.gaussian_process._bound.additive import MinimaBound
from histrs.gaussian_process._bound.all_pairs import MatrixBound, StoredBound
from histrs.gaussian_process._bound.base import Bound
from histrs.gaussian_process._bound.levels import LevelBound
from histrs.gaussian_process._distributed.bound import DistributedBound
from histrs.gaussian_process._kernels.base import Kernel
from histrs.gaussian_process._kernels.generalized import GeneralizedKernel
from histrs.gaussian_process._kernels.levels import LevelKernel
from histrs.gaussian_process._options import Solver


def bind(
    kernel: GeneralizedKernel | LevelKernel | Kernel,
    X: Any,
    weights: Array | None,
    solver: Solver,
    n_jobs: int | None,
    base: _histrs.SortedColumns | None = None,
) -> Bound:
    """Return a kernel on its training rows, as the solver asks or as suits.

    Parameters
    ----------
    kernel : GeneralizedKernel, LevelKernel or Kernel
        The kernel of a fit.
    X : rows
        Training rows, as a fit keeps them.
    weights : ndarray of shape (n_rows,) or None
        Weights of the rows, by which functions are centred; None for 1.
    solver : Solver
        How systems are solved.
    n_jobs : int or None
        Threads.
    base : SortedColumns, default=None
        The columns of an additive kernel, where they are sorted already.
    """
    n_threads = count_threads(n_jobs)
    if isinstance(kernel, GeneralizedKernel):
        given: dict[str, Any] = {"X": X, "kernel": kernel, "n_threads": n_threads}
        if is_dask(X):
            return DistributedBound(n_jobs=n_jobs, base=base, **given)
        return MinimaBound(weights=weights, base=base, **given)
    if isinstance(kernel, LevelKernel):
        return LevelBound(X=X, kernel=kernel, n_threads=n_threads)
    kind = StoredBound if keeps_all_pairs(kernel, X.shape[0], solver) else MatrixBound
    return kind(X=X, kernel=kernel, n_threads=n_threads)


def keeps_all_pairs(kernel: Kernel, n_rows: int, solver: Solver) -> bool:
    """Say whether all pairs of so many rows are kept in few bytes, and nothing is factorised."""
    if solver.name == "auto":
        return kernel.can_be_stored and n_rows > kernel.most_factorised
    if solver.name == "cg" and not kernel.can_be_stored:
        raise ValueError(
            f"solver='cg' multiplies what is kept of all pairs of rows in few bytes, and "
            f"{kernel!r} has no such thing: set solver='auto'."
        )
    return solver.name == "cg"
