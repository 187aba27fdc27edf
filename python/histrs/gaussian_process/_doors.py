"""How rows come in, by what a kernel takes: checked once, in the words of the argument."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from histrs import _histrs
from histrs._checks.sparse import refuse_sparse
from histrs._checks.validation import (
    HISTOGRAM_CHECKS,
    canonical,
    count_threads,
    to_core,
    validate_data,
    validate_fit,
)
from histrs._distributed.rows import is_dask
from histrs.gaussian_process._distributed import arrays
from histrs.gaussian_process._distributed.arrays import refuse_distributed
from histrs.gaussian_process._kernels.base import Takes
from histrs.spd._distances import check_definite
from histrs.spd._stack import STACK_CHECKS, flattened, stacked

__all__ = ["check_entries", "refuse_distributed", "rows_to_fit", "rows_to_predict", "takes_of"]


def takes_of(model: Any, *, reset: bool = False) -> Takes:
    """Return what rows may be: as the kernel of a fit says, or that which is asked for."""
    # Where targets miss different rows, each of their fits has a kernel.
    kernel = None if reset else vars(model).get("kernel_")
    kernel = model._asked.kernel if kernel is None else kernel
    takes: Takes = getattr(kernel, "takes", "histograms")
    return takes


def rows_to_fit(
    model: Any, X: Any, y: ArrayLike, *, reset: bool, **checks: Any
) -> tuple[Any, NDArray[Any]]:
    """Return training rows and targets; entries of histograms are looked at later."""
    takes = takes_of(model, reset=reset)
    if is_dask(X):
        if model._asked.terms is None:
            raise ValueError(
                f"A dask array does not work with {model._asked.kernel!r}, which keeps all pairs "
                "of rows: give X as a NumPy array, or use Intersection."
            )
        return arrays.rows_to_fit(model, X, y, reset=reset, **checks)
    if takes == "covariances":
        refuse_sparse(X, "X")
        flat = flattened(X, None if reset else model)
        flat, y = validate_fit(model, flat, y, reset=reset, **checks)
        stack = stacked(np.asarray(flat))
        # Before equal matrices are one, so that what is named is where it is in the argument.
        check_definite(stack, model.n_jobs)
        return stack, y
    if takes == "numbers" and model._asked.terms is not None:
        # Functions on levels look numbers up, in whatever precision, and keep codes.
        X, y = validate_data(model, X, y, reset=reset, dtype=(np.float64, np.float32), **checks)
        return X, y
    # What a model keeps is its own.
    if takes in ("anything", "numbers"):
        X, y = validate_data(model, X, y, reset=reset, dtype=np.float64, copy=True, **checks)
        return X, y
    X, y = validate_fit(model, X, y, reset=reset, copy=True, **checks)
    return canonical(X), y


def check_entries(model: Any, X: Any) -> None:
    """Refuse entries that are no histograms', where those are asked for."""
    if takes_of(model) != "histograms":
        return
    if is_dask(X):
        arrays.check_entries(X)
        return
    _histrs.check_histograms(to_core(X), count_threads(model.n_jobs))


def rows_to_predict(model: Any, X: Any, *, as_bytes: bool = False) -> Any:
    """Return rows of which something is asked; tables take `as_bytes` what are bytes."""
    if as_bytes:
        return validate_data(model, X, reset=False, **{**HISTOGRAM_CHECKS, "dtype": np.uint8})
    if is_dask(X) and is_dask(getattr(model, "X_fit_", None)):
        return arrays.rows_to_predict(model, X)
    takes = takes_of(model)
    if takes == "covariances":
        refuse_sparse(X, "X")
        return stacked(validate_data(model, flattened(X, model), reset=False, **STACK_CHECKS))
    if takes in ("anything", "numbers"):
        return validate_data(model, X, reset=False, dtype=[np.float64, np.float32])
    X = canonical(validate_data(model, X, reset=False, **HISTOGRAM_CHECKS))
    if hasattr(vars(model).get("kernel_"), "takes"):
        # Additive kernels look at entries as they read them.
        check_entries(model, X)
    return X
