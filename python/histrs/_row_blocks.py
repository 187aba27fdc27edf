"""Rows that are converted or changed a few at a time, so that there is never a copy of all."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import gen_batches

from histrs._sparse import is_sparse

# Of a block of rows in double precision.
_BYTES = 1 << 20


class Part(NamedTuple):
    """Where the entries of a part of a matrix are in the whole."""

    row: int
    column: int

    def moved(self, message: str) -> str:
        """Return a message of the core with the index in the whole."""

        def index(found: re.Match[str]) -> str:
            row = int(found[1]) + self.row
            return f"X[{row}, {int(found[2]) + self.column}]" if found[2] else f"X[{row}]"

        return re.sub(r"\bX\[(\d+)(?:, (\d+))?\]", index, message)

    @contextmanager
    def naming_indices(self) -> Iterator[None]:
        """Name indices in the whole in errors of what is done with the part."""
        try:
            yield
        except ValueError as error:
            raise ValueError(self.moved(str(error))) from None


def in_row_blocks(X: Any, answer: Callable[[Any], NDArray[Any]]) -> NDArray[Any]:
    """Return what a function says of every row: of dense rows, a block of them at a time."""
    size = max(1, _BYTES // (8 * max(1, X.shape[1])))
    if is_sparse(X) or len(X) <= size:
        return answer(X)
    answers = []
    for rows in gen_batches(len(X), size):
        with Part(rows.start, 0).naming_indices():
            answers.append(answer(X[rows]))
    return np.concatenate(answers)
