"""Files that are written in one step, and named arrays in one: no pickle, but a checksum.

`magic | length of the header, 8 bytes | header, JSON | float64 arrays | SHA-256 of all before`,
numbers little-endian.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import secrets
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from histrs._typing import Array

if sys.platform != "win32":
    import fcntl

MAGIC = "histrs {kind} 1\n"
_LENGTH_BYTES = 8
_DIGEST_BYTES = hashlib.sha256().digest_size

_TEMPORARY = re.compile(r"\.histrs-[0-9a-f]{16}\.tmp")

Content = tuple[dict[str, Any], dict[str, Array]]


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


def save(path: Path, parts: Iterable[Any], check: Callable[[Path], object]) -> None:
    """Write or replace a file: a process killed at any time leaves the old one, or the new.

    `check` is called with the place if there is a file, and raises where it must not be replaced.
    A link stays a link, and its target is replaced; the mode of an old file is kept. Temporary
    files that killed processes have left in the folder are removed.
    """
    path = Path(os.path.realpath(path))
    mode = None
    if path.exists():
        if not path.is_file():
            raise ValueError(f"{path} is not a regular file; nothing was written.")
        check(path)
        mode = stat.S_IMODE(path.stat().st_mode)
    _remove_abandoned(path.parent)
    descriptor, name = _temporary(path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            for part in parts:
                file.write(part)
            file.flush()
            if mode is not None:
                name.chmod(mode)
            os.fsync(file.fileno())
            # The lock, which says that the file is not abandoned, ends with it.
            if sys.platform != "win32":
                name.replace(path)
        if sys.platform == "win32":
            name.replace(path)
    except BaseException:
        name.unlink(missing_ok=True)
        raise
    _sync_directory(path.parent)


def _temporary(folder: Path) -> tuple[int, Path]:
    """Create a file that is locked for as long as it is open."""
    while True:
        name = folder / f".histrs-{secrets.token_hex(8)}.tmp"
        # Unlike that of `tempfile`, the mode is what the umask leaves.
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_BINARY", 0)
        descriptor = os.open(name, flags, 0o666)
        if sys.platform != "win32":
            _lock(descriptor, fcntl.LOCK_EX)
        # Another process may have removed it before it was locked.
        if name.exists():
            return descriptor, name
        os.close(descriptor)


def _remove_abandoned(folder: Path) -> None:
    """Remove temporary files that no process holds."""
    for name in folder.iterdir():
        if not _TEMPORARY.fullmatch(name.name):
            continue
        try:
            if sys.platform == "win32":  # where an open file cannot be removed
                name.unlink()
                continue
            descriptor = os.open(name, os.O_RDONLY)
            try:
                if _lock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB):
                    name.unlink()
            finally:
                os.close(descriptor)
        except OSError:
            continue  # another's, or gone by now


def _lock(descriptor: int, operation: int) -> bool:
    assert sys.platform != "win32"
    try:
        fcntl.flock(descriptor, operation)
    except OSError:
        return False
    return True


def _sync_directory(folder: Path) -> None:
    if os.name == "nt":  # directories cannot be opened there
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
