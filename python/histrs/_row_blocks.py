"""Rows that are converted or changed a few at a time, so that there is never a copy of all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import gen_batches

from histrs._dask import is_dask
from histrs._sparse import is_sparse
from histrs._validation import naming_rows

# Of a block of rows in double precision, unless these would be fewer rows than pay.
_BYTES = 1 << 20
_FEWEST = 1024


def in_row_blocks(X: Any, answer: Callable[[Any], NDArray[Any]]) -> NDArray[Any]:
    """Return what a function says of every row: of dense rows, a block of them at a time."""
    size = max(_FEWEST, _BYTES // (8 * max(1, X.shape[1])))
    if is_sparse(X) or is_dask(X) or len(X) <= size:
        return answer(X)
    answers = []
    for rows in gen_batches(len(X), size):
        with naming_rows(np.arange(rows.start, rows.stop)):
            answers.append(answer(X[rows]))
    return np.concatenate(answers)
