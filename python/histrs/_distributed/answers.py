"""What a fitted model says of rows of a dask array, partition by partition where they lie."""

from copy import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from histrs._distributed.cluster import computed, lazy, placed
from histrs._distributed.rows import Part, as_rows, count_task_threads, stand_in
from histrs._validation import validate_data


def answers(model: Any, method: str, X: Any, *, codes: bool = False) -> NDArray[Any]:
    """Return what a method of a fitted model returns for every row; rows stay where they are.

    Parameters
    ----------
    model : estimator
        The model, whose method takes rows of NumPy.
    method : str
        Its name.
    X : dask array of shape (n_samples, n_features)
        Rows.
    codes : bool, default=False
        Whether rows are whole numbers that are taken as they are.
    """
    validate_data(model, stand_in(X), reset=False)
    answer, of_workers = lazy(_answer), placed(for_tasks(model))
    parts = zip(partitions(X), starts(X), strict=True)
    return np.concatenate(
        computed([answer(of_workers, method, rows, codes, start) for rows, start in parts])
    )


def for_tasks(model: Any) -> Any:
    """Return a model that is sent to the workers: threads are counted there."""
    sent = copy(model)
    sent.__dict__.pop("_warm", None)
    return sent


def in_task(model: Any) -> Any:
    """Return the model on a worker."""
    here = copy(model)
    here.n_jobs = count_task_threads(model.n_jobs)
    return here


def partitions(X: Any) -> list[Any]:
    """Return the partitions of rows, whole rows each, delayed."""
    # Shuffles that know of one another would start anew with every worker that is lost.
    rows = X.rechunk({1: -1}, method="tasks") if X.numblocks[1] > 1 else X
    return list(rows.to_delayed().ravel())


def starts(X: Any) -> list[int]:
    """Return the first row of each partition; 0 where sizes are unknown."""
    edges = np.cumsum([0, *X.chunks[0][:-1]])
    return [0 if np.isnan(edge) else int(edge) for edge in edges]


def _answer(model: Any, method: str, rows: Any, codes: bool, start: int) -> NDArray[Any]:
    try:
        found: NDArray[Any] = getattr(in_task(model), method)(
            np.asarray(rows) if codes else as_rows(rows)
        )
    except ValueError as error:
        raise ValueError(Part(start, 0).moved(str(error))) from None
    return found
