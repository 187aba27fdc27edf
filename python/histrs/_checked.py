"""Rows that were checked, handed on so that nobody looks at them again."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

import numpy as np

from histrs._validation import Matrix

Made = TypeVar("Made")


class Checked:
    """Rows as the checks of arguments return them, and what was made of them.

    `metrics` and `spd` take them where users give arrays. They belong to one call: who keeps rows
    keeps the matrix, which others may change.

    Parameters
    ----------
    rows : matrix
        Of one of the dtypes of the core; a sparse one is sound and canonical.
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
