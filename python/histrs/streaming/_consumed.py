"""What a pass has consumed: a checksum of every chunk, which data must fit to go on."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from histrs._checks.sparse import is_sparse
from histrs.streaming._digest import feed


class Consumed:
    """Checksums of the chunks of a pass, those of an earlier run first.

    They are CRC-32 of the bytes, the dtype and the shape of rows, targets and weights. They take a
    tenth of the time of reading, and find changes that are not made on purpose.
    """

    def __init__(self, checksums: Sequence[int] = (), n_rows: float = 0, file: Any = "") -> None:
        self.checksums = list(checksums)
        self._n_held = len(self.checksums)
        self._n_rows = n_rows
        self._file = file
        self._n_taken = 0

    def take(self, Z: Any, targets: Any, weights: Any = None) -> bool:
        """Take note of the next chunk; say whether it is one of the earlier run.

        A ValueError says that it has the place of one, but is another.
        """
        checksum, number = _checksum(Z, targets, weights), self._n_taken
        self._n_taken += 1
        if number >= self._n_held:
            self.checksums.append(checksum)
            return False
        if checksum != self.checksums[number]:
            raise ValueError(
                f"the checkpoint holds {self._n_rows} rows in {self._n_held} chunks, and chunk "
                f"{number} of these data, counted from 0, is not the one that was consumed: now it "
                f"is {_description(Z, targets, weights)}. {self._cure()}"
            )
        return True

    def finish(self) -> None:
        """Refuse data that end before what the earlier run has consumed."""
        if self._n_taken < self._n_held:
            raise ValueError(
                f"the rows end after {self._n_taken} chunks, but the checkpoint holds "
                f"{self._n_held}: give them from their beginning, not what an earlier run has left "
                f"of an iterator. {self._cure()}"
            )

    def _cure(self) -> str:
        return (
            "Go on with the data that it was made of; or add new rows to its moments, with "
            f"Moments.load({str(self._file)!r}).update(rows); or delete the file to begin again."
        )


class _Crc:
    """A CRC-32 as hashlib would have it."""

    value = 0

    def update(self, data: Any) -> None:
        self.value = zlib.crc32(data, self.value)


def _checksum(Z: Any, targets: Any, weights: Any) -> int:
    digest = _Crc()
    for part in (Z, targets, weights):
        # A frame, say, becomes an array; lists may be of any things, images of several sizes too.
        as_it_is = part is None or is_sparse(part) or isinstance(part, list | tuple)
        feed(digest, part if as_it_is else np.asarray(part))
    return digest.value


def _description(Z: Any, targets: Any, weights: Any) -> str:
    parts = [
        f"{name} of shape {np.shape(part)} and dtype {getattr(part, 'dtype', type(part).__name__)}"
        for name, part in (("rows", Z), ("targets", targets), ("weights", weights))
        if part is not None
    ]
    return " with ".join(parts)
