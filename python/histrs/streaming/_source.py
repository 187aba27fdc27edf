"""A pass over rows: where they come from, what is made of a chunk, threads and progress."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from inspect import signature
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples

from histrs._checks.validation import count_threads, with_rows_named
from histrs._progress import RowsProgress
from histrs._threads import blas_threads_at_most
from histrs.streaming._consumed import Consumed
from histrs.streaming._names import ColumnNames
from histrs.streaming._readers import RowReader, reader_of
from histrs.streaming._rows import Chunk, Rows
from histrs.streaming._sums import BLOCK_ROWS
from histrs.streaming._weights import counted_weights

CHUNK_SIZE = BLOCK_ROWS


def unchanged(targets: Any) -> Any:
    """Return targets as they are."""
    return targets


@contextmanager
def in_chunk(number: int, source: RowSource) -> Iterator[None]:
    """Say in errors which chunk is bad, or which row where all chunks are of one size."""
    try:
        yield
    except ValueError as error:
        if source.reader.has_own_chunks:
            raise ValueError(f"in chunk {number}, counted from 0: {error}") from error
        first = number * source.chunk_size
        raise ValueError(with_rows_named(str(error), lambda row: row + first)) from error


@dataclass(frozen=True)
class RowSource:
    """Rows and targets, what is made of a chunk of them, and how a pass is made."""

    rows: Rows
    targets: Any = None
    feature_map: Any = None
    weights: Any = None
    encode: Callable[[Any], Any] = unchanged
    """What is made of targets."""
    weigh: Callable[[Any, Any], Any] | None = None
    """What is made of weights, and of targets before they are encoded."""
    chunk_size: int = CHUNK_SIZE
    n_jobs: int | None = None
    verbose: int = 0
    step: int = 1
    """Every so many rows are read."""
    checkpoint: Path | None = None
    """A file for the moments of the first pass so far."""
    names: ColumnNames = field(default_factory=ColumnNames)
    """Those of the columns, once there are any; a feature map knows them."""

    def __post_init__(self) -> None:
        if self.feature_map is not None and self.names.known is None:
            object.__setattr__(self, "names", ColumnNames.of_map(self.feature_map))
        if self.chunk_size < 1:
            raise ValueError(f"chunk_size = {self.chunk_size}: must be at least 1.")

    @property
    def feature_names(self) -> list[str] | None:
        """Names of the features; those of a map have none."""
        return None if self.feature_map is not None else self.names.known

    @property
    def reader(self) -> RowReader:
        """What reads rows of this kind."""
        return reader_of(self.rows)

    def check_rereadable(self, what: str) -> None:
        """Refuse an iterator, which has one pass, for what needs more."""
        if self.reader.has_one_pass:
            raise ValueError(
                f"{what} needs more than one pass over the rows, and an iterator has one: give an "
                "array, a path, or a list or an object whose __iter__ begins again."
            )

    def is_at_hand(self) -> bool:
        """Say whether a further pass is possible, and reads the rows where they are."""
        return not self.reader.has_one_pass and not self.reader.is_distributed

    def chunks(self, what: str, consumed: Consumed | None = None) -> Iterator[Chunk]:
        """Yield rows as the model sees them and their targets; `what` names the pass.

        Random features of a chunk take the memory of those of the chunk before. Rows that
        an earlier run has consumed are compared with it, and left out.
        """
        n_seen = 0
        features = _Features(self.feature_map, self.names)
        # Looked up once a pass: limits cost more than a small chunk.
        with RowsProgress(what, self._n_chunks(), self.verbose) as progress, self._limits():
            for Z, targets, weights in self._chunks():
                if consumed is not None and consumed.take(Z, targets, weights):
                    progress(np.shape(Z)[0])
                    continue
                encoded = None if targets is None else self.encode(targets)
                weights = self._weighed(targets, weights)
                if self.step > 1:
                    weights = counted_weights(weights, _num_samples(Z))
                    used = _used(Z, weights)
                    kept = used[-n_seen % self.step :: self.step]
                    n_seen += len(used)
                    if not len(kept):
                        continue
                    Z = _safe_indexing(Z, kept)
                    encoded = None if encoded is None else np.asarray(encoded)[kept]
                    weights = weights and weights.part(kept)
                Z = features.of(Z)
                yield Z, encoded, weights
                progress(np.shape(Z)[0])
            if consumed is not None:
                consumed.finish()

    def _weighed(self, targets: Any, weights: Any) -> Any:
        """Return the weights of rows whose targets are not encoded."""
        return weights if targets is None or self.weigh is None else self.weigh(targets, weights)

    def _chunks(self) -> Iterator[Chunk]:
        return self.reader.chunks(self.targets, self.weights, self.chunk_size, self.names)

    def first_row(self) -> Any:
        """Return the first row before it is mapped, as a matrix."""
        for Z, *_ in self._chunks():
            return Z[:1]
        raise ValueError("there are no rows: give at least one.")

    def first_used(self) -> int:
        """Return the index of the first row of positive weight, of an array; 0 if none has one."""
        weights = self._weighed(self.targets, self.weights)
        used = _used(self.rows, weights)
        return int(used[0]) if len(used) > 0 else 0

    def without_rows(self) -> Self:
        """Return how a pass is made, to be sent to where the rows are."""
        return replace(self, rows=None, targets=None, weights=None, verbose=0)

    def thinned(self, n_rows: float, most: int) -> Self:
        """Return a source that reads about `most` rows, each as far from the next.

        Of rows without weights there are `n_rows`. Others are counted: those of weight 0 are not
        read, and one of weight 1000 is one row to read.
        """
        if n_rows > most and not isinstance(n_rows, int):
            # In a pass that maps none.
            n_rows = sum(len(_used(Z, self._weighed(*rest))) for Z, *rest in self._chunks())
        return replace(self, step=max(1, int(n_rows // most)))

    def copied(self) -> Self:
        """Return a source of rows and weights, arrays both, that the caller cannot change."""
        weights = None if self.weights is None else np.array(self.weights)
        return replace(self, rows=self.rows.copy(), weights=weights)

    def with_rows(self, rows: Rows) -> Self:
        """Return the source of other rows."""
        return replace(self, rows=rows)

    def _n_chunks(self) -> int | None:
        n_rows = self.reader.n_rows
        return None if n_rows is None else -(-n_rows // self.chunk_size)

    def _limits(self) -> AbstractContextManager[Any]:
        if self.n_jobs is None:
            return nullcontext()
        return blas_threads_at_most(count_threads(self.n_jobs))


class _Features:
    """What a map makes of chunks, one after the other."""

    def __init__(self, feature_map: Any, names: ColumnNames) -> None:
        self._map, self._names = feature_map, names
        # A map may write into the memory of the chunk before.
        self._writes = (
            feature_map is not None and "out" in signature(feature_map.transform).parameters
        )
        self._memory: Any = None

    def of(self, Z: Any) -> Any:
        """Return the features of a chunk, in the memory of those of the last one where possible."""
        if self._map is None:
            return Z
        with self._names.quiet():
            if not self._writes:
                return self._map.transform(Z)
            n_rows, memory = _num_samples(Z), self._memory
            dtype = getattr(Z, "dtype", None)
            if memory is not None and memory.dtype == dtype and n_rows <= len(memory):
                return self._map.transform(Z, out=memory[:n_rows])
            self._memory = self._map.transform(Z)
            return self._memory


def _used(Z: Any, weights: Any) -> NDArray[np.intp]:
    """Return the indices of the rows of a chunk that have a positive weight."""
    n_rows = _num_samples(Z)
    checked = counted_weights(weights, n_rows)
    return np.arange(n_rows) if checked is None else np.flatnonzero(checked.total > 0)
