"""How rows come in, by what a kernel takes: checked once, in the words of the argument."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from histrs import _histrs
from histrs._sparse import refuse_sparse
from histrs._validation import (
    HISTOGRAM_CHECKS,
    canonical,
    count_threads,
    to_core,
    validate_data,
    validate_fit,
)
from histrs.gaussian_process._kernels.base import Takes
from histrs.spd._distances import check_definite
from histrs.spd._stack import STACK_CHECKS, flattened, stacked


def rows_to_fit(
    model: Any, takes: Takes, X: Any, y: ArrayLike, *, reset: bool, **checks: Any
) -> tuple[Any, NDArray[Any]]:
    """Return training rows and targets."""
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
    return _checked(model, takes, X), y


def rows_to_predict(model: Any, takes: Takes, X: Any) -> Any:
    """Return rows of which something is asked."""
    if takes == "covariances":
        refuse_sparse(X, "X")
        return stacked(validate_data(model, flattened(X, model), reset=False, **STACK_CHECKS))
    if takes in ("anything", "numbers"):
        return validate_data(model, X, reset=False, dtype=[np.float64, np.float32])
    return _checked(model, takes, validate_data(model, X, reset=False, **HISTOGRAM_CHECKS))


def _checked(model: Any, takes: Takes, X: Any) -> Any:
    """Return rows of numbers; entries of histograms are looked at."""
    if takes == "histograms":
        X = canonical(X)
        _histrs.check_histograms(to_core(X), count_threads(model.n_jobs))
    return X


def set_input_tags(tags: Any, takes: Takes) -> None:
    """Say what rows may be."""
    tags.sparse = tags.positive_only = takes == "histograms"
    tags.three_d_array = takes == "covariances"


def _flat(model: Any, X: Any, *, reset: bool) -> Any:
    return flattened(X, None if reset else model)
