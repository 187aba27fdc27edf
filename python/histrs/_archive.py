"""Named arrays in one file, without pickle: a header, the raw numbers, a checksum.

`magic | length of the header, 8 bytes | header, JSON | float64 arrays | SHA-256 of all before`,
numbers little-endian.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from histrs._saving import save

MAGIC = "histrs {kind} 1\n"
_LENGTH_BYTES = 8
_DIGEST_BYTES = hashlib.sha256().digest_size

Content = tuple[dict[str, Any], dict[str, NDArray[np.float64]]]


def write(
    path: Path,
    header: Mapping[str, Any],
    arrays: Mapping[str, NDArray[Any]],
    kind: str,
    check: Callable[[Path], object],
) -> None:
    """Write the file, or replace one that `check`, which reads it, does not refuse."""
    save(path, _parts(header, arrays, kind), check)


def _parts(
    header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], kind: str
) -> Iterator[Any]:
    digest = hashlib.sha256()
    for part in _content(header, arrays, kind):
        digest.update(part)
        yield part
    yield digest.digest()


def _content(
    header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], kind: str
) -> Iterator[Any]:
    shapes = {name: array.shape for name, array in arrays.items()}
    text = json.dumps({**header, "shapes": shapes}).encode()
    yield MAGIC.format(kind=kind).encode()
    yield len(text).to_bytes(_LENGTH_BYTES, "little")
    yield text
    for array in arrays.values():
        yield np.ascontiguousarray(array, dtype="<f8").data.cast("B") if array.size else b""


@contextmanager
def opened(path: Path, kind: str) -> Iterator[Content]:
    """Yield the header and the arrays; what the block finds wrong with them is the file's fault.

    A ValueError says that the file is not one of ours, or what is wrong with it. The arrays are
    finite, and have the shapes that the file names; whether they fit is for the block to `require`.
    """
    content = memoryview(path.read_bytes())
    magic = MAGIC.format(kind=kind).encode()
    if content[: len(magic)] != magic:
        raise ValueError(f"{path} is not a file of {kind}; nothing was read or overwritten.")
    body, digest = content[:-_DIGEST_BYTES], content[-_DIGEST_BYTES:]
    try:
        require(hashlib.sha256(body).digest() == digest, "its checksum does not fit")
        yield _parsed(body, len(magic))
    except _DamageError as error:
        raise _damaged(path, str(error)) from None
    except (
        KeyError,
        TypeError,
        ValueError,
        OverflowError,
        AttributeError,
        RecursionError,
    ) as error:
        raise _damaged(path, f"its header is not that of {kind}") from error


def require(condition: object, complaint: str) -> None:
    """Refuse the file that is open if the condition is false."""
    if not condition:
        raise _DamageError(complaint)


class _DamageError(Exception):
    """What is wrong with a file."""


def _damaged(path: Path, complaint: str) -> ValueError:
    return ValueError(
        f"{path} is damaged: {complaint}. It was not overwritten; restore a copy, or delete it to "
        "begin again."
    )


def _parsed(body: memoryview, start: int) -> Content:
    start += _LENGTH_BYTES
    end = start + int.from_bytes(body[start - _LENGTH_BYTES : start], "little")
    header = json.loads(bytes(body[start:end]))
    arrays = {}
    for name, shape in header.pop("shapes").items():
        require(all(is_count(length) for length in shape), f"{name} has the shape {shape}")
        stop = end + 8 * math.prod(shape)
        require(stop <= len(body), f"it ends before {name} of shape {shape}")
        values = np.frombuffer(body[end:stop], dtype="<f8")
        require(np.isfinite(values).all(), f"{name} is not finite")
        arrays[name] = values.reshape(shape).astype(np.float64)
        end = stop
    require(end == len(body), "there is more behind its arrays")
    return header, arrays


def is_count(value: object) -> bool:
    """Say whether a value of a header is a number of things."""
    return type(value) is int and 0 <= value < 2**63
