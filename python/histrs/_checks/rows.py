"""Rows that were checked, and rows of which a few are handled at a time."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import gen_batches

from histrs._checks.sparse import is_sparse
from histrs._checks.validation import naming_rows
from histrs._distributed.rows import is_dask
from histrs._typing import Matrix

Made = TypeVar("Made")

# Of a block of rows in double precision, unless these would be fewer rows than pay.
_BYTES = 1 << 20
_FEWEST = 1024


class Checked:
    """Rows as the checks of arguments return them, and what was made of them.

    `metrics` and `spd` take them where users give arrays. They belong to one call: who keeps rows
    keeps the matrix, which others may change. Sparse rows are canonical.
    """

    def __init__(self, rows: Matrix) -> None:
        self.rows = rows
        self._made: dict[Hashable, Any] = {}

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the rows."""
        shape: tuple[int, ...] = self.rows.shape
        return shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Dtype of the rows."""
        dtype: np.dtype[Any] = self.rows.dtype
        return dtype

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    def __getitem__(self, indices: Any) -> Checked:
        """Return some of the rows, which are checked as well."""
        return Checked(self.rows[indices])

    def once(self, key: Hashable, make: Callable[[], Made]) -> Made:
        """Return what `make` does, which is called the first time only."""
        if key not in self._made:
            self._made[key] = make()
        made: Made = self._made[key]
        return made


def rows_of(X: Any) -> Any:
    """Return the rows themselves, checked or not."""
    return X.rows if isinstance(X, Checked) else X


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
