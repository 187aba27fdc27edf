"""The rows of a dask array, whose features workers keep and read in every pass."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from histrs._checks.sparse import is_sparse
from histrs._distributed.answers import in_task
from histrs._distributed.cluster import computed, delayed_call, kept, lazy, placed, total
from histrs._distributed.rows import Part, as_rows, partitions, rows_of_blocks
from histrs._typing import Array
from histrs.svm._rows import Rows

Indices = NDArray[np.intp]


class DaskRows(NamedTuple):
    """Rows of a dask array, of which some are used."""

    array: Any
    used: Indices

    def features(self, model: Any) -> DistributedRows:
        """Return what workers keep of them, for a model whose feature map is fitted."""
        edges = [0, *np.cumsum(self.array.chunks[0]).tolist()]

        def delayed() -> list[Any]:
            make, of_workers = lazy(_RowBlock.of), placed(model)
            return [make(rows, of_workers, part) for rows, part in partitions(self.array)]

        rows = DistributedRows(delayed, edges)
        return rows if len(self.used) == edges[-1] else rows.part(self.used)


class _RowBlock:
    """The features of a partition, as a worker keeps them."""

    def __init__(self, rows: Rows, n_bytes: int) -> None:
        self._rows, self._n_bytes = rows, n_bytes

    @classmethod
    def of(cls, rows: Any, model: Any, part: Part) -> _RowBlock:
        """Return the features of rows that are to be checked."""
        model = in_task(model)
        rows = np.asarray(rows) if model._takes_codes() else as_rows(rows)
        with part.naming_indices():
            features = model._features(model._check_entries(rows, model.feature_map_))
        return cls(model._rows(features), _n_bytes(features))

    def __sizeof__(self) -> int:
        """Return the bytes that a worker needs for it."""
        return self._n_bytes

    def width(self) -> int:
        """Return the number of coordinates of a model."""
        return self._rows.width

    def scores(self, V: Array) -> Array:
        """Return the scores of its rows."""
        return self._rows.scores(V)

    def gradients(self, G: Array) -> Array:
        """Return what its rows add to gradients, both forms of them."""
        return np.stack(self._rows.gradients(G))

    def coef(self, V: Array) -> Array:
        """Return models in the space of the features."""
        return self._rows.coef(V)

    def part(self, rows: Indices) -> _RowBlock:
        """Return some of its rows."""
        share = len(rows) / max(1, len(self._rows))
        return _RowBlock(self._rows.part(rows), int(share * self._n_bytes))


def _n_bytes(features: Any) -> int:
    if is_sparse(features):
        features = features.tocsr()
        return int(features.data.nbytes + features.indices.nbytes + features.indptr.nbytes)
    return int(features.nbytes)


class DistributedRows:
    """Rows that lie on the workers: it has the methods of `Rows`, which are sums over blocks.

    A number for each row and problem is here, and no features. `delayed` returns the blocks, which
    begin and end at `edges`.
    """

    def __init__(self, delayed: Callable[[], list[Any]], edges: list[int]) -> None:
        self._delayed, self._edges = delayed, edges
        self._kept: list[Any] | None = None
        self._width: int | None = None

    def __len__(self) -> int:
        return self._edges[-1]

    @property
    def width(self) -> int:
        if self._width is None:
            self._width = int(computed(delayed_call(self._blocks[0], "width")))
        return self._width

    def scores(self, V: Array, out: Array | None = None) -> Array:
        out = np.empty((len(V), len(self))) if out is None else out
        models = placed(V)
        found = computed([delayed_call(block, "scores", models) for block in self._blocks])
        for (a, b), scores in zip(pairwise(self._edges), found, strict=True):
            out[:, a:b] = scores
        return out

    def gradients(self, G: Array) -> tuple[Array, Array]:
        pairs = zip(self._blocks, pairwise(self._edges), strict=True)
        a, product = computed(
            total(
                [
                    delayed_call(block, "gradients", np.ascontiguousarray(G[:, start:end]))
                    for block, (start, end) in pairs
                ]
            )
        )
        return a, product

    def coef(self, V: Array) -> Array:
        return cast(Array, computed(delayed_call(self._blocks[0], "coef", V)))

    def part(self, rows: Indices) -> DistributedRows:
        some, edges = rows_of_blocks(rows, self._edges)
        blocks = self._blocks
        return DistributedRows(
            lambda: [delayed_call(blocks[k], "part", local) for k, local in some], edges
        )

    @property
    def _blocks(self) -> list[Any]:
        """The blocks, which stay on the workers as long as this is there."""
        if self._kept is None:
            self._kept = kept(self._delayed())
        return self._kept
