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

__all__ = [
    "bytes_to_predict",
    "check_entries",
    "refuse_distributed",
    "rows_to_fit",
    "rows_to_predict",
    "set_input_tags",
    "takes_of",
]


def takes_of(kernel: Any) -> Takes:
    """Return what rows of a kernel may be; additive ones take histograms."""
    takes: Takes = getattr(kernel, "takes", "histograms")
    return takes


def rows_to_fit(
    model: Any, takes: Takes, X: Any, y: ArrayLike, *, reset: bool, **checks: Any
) -> tuple[Any, NDArray[Any]]:
    """Return training rows and targets; entries of histograms are looked at later."""
    if is_dask(X):
        _refuse_dask(model)
        return arrays.rows_to_fit(model, X, y, reset=reset, **checks)
    if takes == "covariances":
        refuse_sparse(X, "X")
        flat, y = validate_fit(model, _flat(model, X, reset=reset), y, reset=reset, **checks)
        stack = stacked(np.asarray(flat))
        # Before equal matrices are one, so that what is named is where it is in the argument.
        check_definite(stack, model.n_jobs)
        return stack, y
    if takes in ("anything", "numbers"):
        X, y = validate_data(model, X, y, reset=reset, dtype=np.float64, **checks)
        return X, y
    X, y = validate_fit(model, X, y, reset=reset, **checks)
    return canonical(X) if takes == "histograms" else X, y


def check_entries(model: Any, takes: Takes, X: Any) -> None:
    """Refuse entries that are no histograms', where those are asked for."""
    if takes != "histograms":
        return
    if is_dask(X):
        arrays.check_entries(X)
        return
    _histrs.check_histograms(to_core(X), count_threads(model.n_jobs))


def rows_to_predict(model: Any, takes: Takes, X: Any) -> Any:
    """Return rows of which something is asked."""
    if is_dask(X) and is_dask(getattr(model, "X_fit_", None)):
        return arrays.rows_to_predict(model, X)
    if takes == "covariances":
        refuse_sparse(X, "X")
        return stacked(validate_data(model, flattened(X, model), reset=False, **STACK_CHECKS))
    if takes in ("anything", "numbers"):
        return validate_data(model, X, reset=False, dtype=[np.float64, np.float32])
    X = validate_data(model, X, reset=False, **HISTOGRAM_CHECKS)
    if takes != "histograms":
        return X
    X = canonical(X)
    if not is_additive(model):
        # Additive kernels look at entries as they read them.
        check_entries(model, takes, X)
    return X


def bytes_to_predict(model: Any, X: Any) -> Any:
    """Return rows of bytes, which tables take as they are."""
    return validate_data(model, X, reset=False, **{**HISTOGRAM_CHECKS, "dtype": np.uint8})


def set_input_tags(tags: Any, takes: Takes) -> None:
    """Say what rows may be."""
    tags.sparse = tags.positive_only = takes == "histograms"
    tags.three_d_array = takes == "covariances"


def is_additive(model: Any) -> bool:
    """Say whether the kernel of a fit is never formed."""
    return not hasattr(vars(model).get("kernel_"), "takes")


def _refuse_dask(model: Any) -> None:
    if model._terms() is None:
        raise ValueError(
            f"A dask array goes without {model._asked()[1]!r}, which keeps all pairs of rows: give "
            "X as a NumPy array, or take Intersection."
        )


def _flat(model: Any, X: Any, *, reset: bool) -> Any:
    return flattened(X, None if reset else model)
