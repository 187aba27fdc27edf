"""Named arrays in one file, without pickle: a header, the raw numbers, a checksum.

`magic | length of the header, 8 bytes | header, JSON | float64 arrays | SHA-256 of all before`,
numbers little-endian.
"""

import hashlib
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

MAGIC = "histrs {kind} 1\n"
_LENGTH_BYTES = 8
_DIGEST_BYTES = hashlib.sha256().digest_size


def write(
    path: Path,
    header: Mapping[str, Any],
    arrays: Mapping[str, NDArray[Any]],
    kind: str = "moments",
) -> None:
    """Write or replace the file in one step: a killed process leaves the old one, or the new."""
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            digest = hashlib.sha256()
            for part in _parts(header, arrays, kind):
                digest.update(part)
                file.write(part)
            file.write(digest.digest())
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    _sync_directory(path.parent)


def _parts(
    header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], kind: str
) -> Iterator[Any]:
    shapes = {name: array.shape for name, array in arrays.items()}
    text = json.dumps({**header, "shapes": shapes}).encode()
    yield MAGIC.format(kind=kind).encode()
    yield len(text).to_bytes(_LENGTH_BYTES, "little")
    yield text
    for array in arrays.values():
        yield np.ascontiguousarray(array, dtype="<f8").data.cast("B") if array.size else b""


def _sync_directory(folder: Path) -> None:
    if os.name == "nt":  # directories cannot be opened there
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read(
    path: Path, kind: str = "moments"
) -> tuple[dict[str, Any], dict[str, NDArray[np.float64]]]:
    """Return the header and the arrays; a ValueError says that the file is not one of ours."""
    content = memoryview(path.read_bytes())
    magic = MAGIC.format(kind=kind).encode()
    if content[: len(magic)] != magic:
        raise ValueError(f"{path} is not a file of {kind}; nothing was read or overwritten.")
    body, digest = content[:-_DIGEST_BYTES], content[-_DIGEST_BYTES:]
    if hashlib.sha256(body).digest() != digest:
        raise ValueError(
            f"{path} is damaged: its checksum does not fit. It was not overwritten; restore a "
            "copy, or delete it to begin again."
        )
    start = len(magic) + _LENGTH_BYTES
    end = start + int.from_bytes(body[len(magic) : start], "little")
    header = json.loads(bytes(body[start:end]))
    arrays = {}
    for name, shape in header.pop("shapes").items():
        size = int(np.prod(shape))
        values = np.frombuffer(body, dtype="<f8", count=size, offset=end)
        arrays[name] = values.reshape(shape).astype(np.float64)
        end += 8 * size
    return header, arrays
