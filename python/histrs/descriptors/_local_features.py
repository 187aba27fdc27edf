"""Sets of local features: how they come, and the cells of the image they lie in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from histrs._checks.scale import check_squares
from histrs._checks.validation import validate_data

Float: TypeAlias = NDArray[Any]
Sets: TypeAlias = ArrayLike | Sequence[ArrayLike]
Grid: TypeAlias = int | tuple[int, int]

# Local features that are encoded at once.
_BLOCK = 2**14
_N_COORDINATES = 2


class LocalFeatures(NamedTuple):
    """The features of all images one below the other, and where those of each begin."""

    features: Float
    """(n_local, n_features), without the positions."""
    positions: Float | None
    """(n_local, 2), in [0, 1]; None where they are not known."""
    offsets: NDArray[np.int64]
    """(n_images + 1,)."""

    @classmethod
    def of(cls, estimator: Any, X: Sets, *, positions: bool, reset: bool) -> Self:
        """Check the input of an estimator, and set or check its number of features."""
        sets = _as_sets(X)
        if sets is None:
            stacked = validate_data(estimator, X, dtype=_DTYPES, reset=reset)
            offsets = np.arange(len(stacked) + 1)
        else:
            offsets = np.append(0, np.cumsum([len(features) for features in sets]))
            stacked = np.concatenate(sets)
            checks = {"ensure_all_finite": False, "ensure_min_samples": int(reset)}
            stacked = validate_data(estimator, stacked, dtype=_DTYPES, reset=reset, **checks)
            _check_finite(stacked, offsets)
        check_squares(stacked)
        if not positions:
            return cls(stacked, None, offsets)
        return cls(*_split_positions(stacked, offsets), offsets)

    def sample(self, max_samples: int, random: np.random.RandomState) -> Float:
        """Return at most so many features, drawn without replacement, in their order."""
        if len(self.features) <= max_samples:
            return self.features
        rows = random.choice(len(self.features), int(max_samples), replace=False)
        return self.features[np.sort(rows)]

    def encode(
        self,
        grids: Sequence[tuple[int, int]],
        prepare: Callable[[Float], Any],
        encode: Callable[[Any, NDArray[np.intp]], Float],
        width: int,
    ) -> Float:
        """Encode every cell of every image: `(n_images, n_cells, width)`.

        `prepare` sees the features of a few images at a time; `encode` what it returned, and
        which of the features to encode, at least one. A cell without features is encoded by
        zeros.
        """
        n_cells = sum(rows * columns for rows, columns in grids)
        out = np.zeros((len(self.offsets) - 1, n_cells, width))
        first = 0
        while first < len(out):
            limit = self.offsets[first] + _BLOCK
            last = max(first + 1, int(np.searchsorted(self.offsets, limit, side="right")) - 1)
            start, end = self.offsets[first], self.offsets[last]
            prepared = prepare(self.features[start:end]) if end > start else None
            for image in range(first, last):
                own = np.arange(self.offsets[image], self.offsets[image + 1])
                for cell, members in self._cells(own, grids):
                    out[image, cell] = encode(prepared, members - start)
            first = last
        return out

    def _cells(
        self, own: NDArray[np.int64], grids: Sequence[tuple[int, int]]
    ) -> list[tuple[int, NDArray[np.int64]]]:
        """Return the cells that have features, with these."""
        cells, first = [], 0
        for rows, columns in grids:
            number = np.zeros(len(own), dtype=np.int64)
            if self.positions is not None:
                shape = np.array([rows, columns])
                # The far border belongs to the last cell.
                position = np.minimum((self.positions[own] * shape).astype(np.int64), shape - 1)
                number = position[:, 0] * columns + position[:, 1]
            cells += [(first + int(cell), own[number == cell]) for cell in np.unique(number)]
            first += rows * columns
        return cells


# The shorter side of the smallest image that is taken for one.
_PIXELS = 8
_DTYPES = [np.float64, np.float32]


def _as_sets(X: Sets) -> list[Float] | None:
    """Return the sets of a list, an array of objects or a stack; None for a plain matrix."""
    if isinstance(X, np.ndarray) and X.dtype != object:
        _check_no_images(X)
        return list(X) if X.ndim == 3 else None
    if not isinstance(X, (list, tuple, np.ndarray)) or not len(X):
        return None
    if np.ndim(X[0]) != 2:
        return None
    sets = [np.asarray(features) for features in X]
    n_columns = sets[0].shape[1]
    for i, features in enumerate(sets):
        if features.ndim != 2 or features.shape[1] != n_columns:
            raise ValueError(
                f"X[{i}] has shape {features.shape}: the local features of every image are an "
                f"array of shape (n_local, {n_columns}), one per row; for none, give "
                f"np.empty((0, {n_columns}))."
            )
    return sets


def _check_no_images(X: Float) -> None:
    """Refuse a stack in which an image looks like its pixels rather than like its features."""
    sides = sorted(X.shape[1:3])
    pixels = X.ndim == 3 and sides[0] >= _PIXELS and sides[1] <= 2 * sides[0]
    if X.ndim == 4 or pixels:
        raise ValueError(
            f"X has shape {X.shape}, like a stack of images: local features are wanted, an array "
            "(n_local, n_features) for every image. Describe patches or interest points of the "
            "images first; if these are local features, give list(X)."
        )


def _check_finite(stacked: Float, offsets: NDArray[np.int64]) -> None:
    is_finite = np.isfinite(stacked)
    if not is_finite.all():
        row, column = np.argwhere(~is_finite)[0]
        image = int(np.searchsorted(offsets, row, side="right")) - 1
        raise ValueError(
            f"X[{image}][{row - offsets[image]}, {column}] = {stacked[row, column]}: Input X "
            "contains NaN or infinity; drop the local feature."
        )


def _split_positions(stacked: Float, offsets: NDArray[np.int64]) -> tuple[Float, Float]:
    """Return the features and, in front of them, the positions."""
    if stacked.shape[1] <= _N_COORDINATES:
        raise ValueError(
            f"X has {stacked.shape[1]} feature(s) a row: with positions=True the first two are "
            "the position, and at least one more describes it."
        )
    positions = stacked[:, :_N_COORDINATES]
    bad = np.argwhere((positions < 0) | (positions > 1))
    if len(bad):
        row, column = bad[0]
        image = int(np.searchsorted(offsets, row, side="right")) - 1
        raise ValueError(
            f"X[{image}][{row - offsets[image]}, {column}] = {positions[row, column]}: positions "
            "lie in [0, 1]; divide by the height and the width of the image."
        )
    return stacked[:, _N_COORDINATES:], positions


def grids_of(pyramid: Sequence[Grid], *, positions: bool) -> list[tuple[int, int]]:
    """Return the rows and columns of cells of every level."""
    grids = []
    for level in pyramid:
        shape = np.atleast_1d(np.asarray(level))
        if shape.dtype.kind not in "iu" or shape.size > 2 or shape.ndim > 1 or shape.min() < 1:
            raise ValueError(
                f"pyramid = {pyramid!r}: a level is a positive integer, or a pair of them for "
                "rows and columns of cells."
            )
        grids.append((int(shape[0]), int(shape[-1])))
    if not grids:
        raise ValueError("pyramid = (): give at least one level; (1,) is the whole image.")
    if not positions and any(grid != (1, 1) for grid in grids):
        raise ValueError(
            f"pyramid = {pyramid!r} has cells, and needs the positions of features: put them in "
            "the first two columns of X, and set positions=True."
        )
    return grids
