"""What a fitted model says of rows of a dask array, partition by partition where they lie."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from histrs._checks.validation import validate_data
from histrs._distributed.cluster import computed, lazy, placed
from histrs._distributed.rows import Part, as_rows, count_task_threads, partitions, stand_in


def answers(model: Any, method: str, X: Any, *, codes: bool = False) -> NDArray[Any]:
    """Return what a method of a fitted model returns for every row of a dask array, where it lies.

    With `codes`, rows are whole numbers that are taken as they are.
    """
    validate_data(model, stand_in(X), reset=False)
    answer, of_workers = lazy(_answer), placed(model)
    parts = partitions(X)
    return np.concatenate(
        computed([answer(of_workers, method, rows, codes, part) for rows, part in parts])
    )


def in_task(model: Any) -> Any:
    """Return a model on a worker, where its threads are counted."""
    here = copy(model)
    here.n_jobs = count_task_threads(model.n_jobs)
    return here


def _answer(model: Any, method: str, rows: Any, codes: bool, part: Part) -> NDArray[Any]:
    rows = np.asarray(rows) if codes else as_rows(rows)
    with part.naming_indices():
        found: NDArray[Any] = getattr(in_task(model), method)(rows)
    return found
