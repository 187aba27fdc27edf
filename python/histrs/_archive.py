"""Files that are written in one step, and named arrays in one: the layout of safetensors.

`length of the header, 8 bytes | header, JSON | arrays`, numbers little-endian. `docs/format.md`
describes it.
"""

from __future__ import annotations

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
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

if sys.platform != "win32":
    import fcntl

_VERSION = "1"
_LENGTH_BYTES = 8
# What a header begins with, before the digits of the checksum, which is taken with zeros there.
_BEGINNING = b'{"__metadata__":{"crc32":"'
_ZEROS = b"00000000"
_DIGITS = slice(_LENGTH_BYTES + len(_BEGINNING), _LENGTH_BYTES + len(_BEGINNING) + len(_ZEROS))
_DTYPES = {"F64": "<f8", "F32": "<f4", "I64": "<i8", "U8": "|u1"}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}

_TEMPORARY = re.compile(r"\.histrs-[0-9a-f]{16}\.tmp")

Content = tuple[dict[str, Any], dict[str, NDArray[Any]]]


def write(
    path: Path,
    header: Mapping[str, Any],
    arrays: Mapping[str, NDArray[Any]],
    kind: str,
    check: Callable[[Path], object],
) -> None:
    """Write the file, or replace one that `check`, which reads it, does not refuse."""
    save(path, _parts(header, arrays, kind), check)


def _parts(header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], kind: str) -> list[Any]:
    """Return the file in parts, each array on a multiple of the size of its entries."""
    described: dict[str, Any] = {
        "__metadata__": {"crc32": _ZEROS.decode(), "kind": kind, "version": _VERSION}
        | {name: json.dumps(value) for name, value in header.items()}
    }
    parts, end = [], 0
    for name, array in sorted(arrays.items(), key=lambda item: -item[1].itemsize):
        little = np.asarray(array, dtype=array.dtype.newbyteorder("<"), order="C")
        start, end = end, end + little.nbytes
        described[name] = {
            "dtype": _NAMES[little.dtype.str],
            "shape": array.shape,
            "data_offsets": [start, end],
        }
        parts.append(little.data.cast("B") if little.size else b"")
    text = json.dumps(described, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    head = bytearray(len(text).to_bytes(_LENGTH_BYTES, "little") + text)
    checksum = 0
    for part in (head, *parts):
        checksum = crc32(part, checksum)
    head[_DIGITS] = f"{checksum:08x}".encode()
    return [head, *parts]


@contextmanager
def opened(path: Path, kind: str) -> Iterator[Content]:
    """Yield the header and the arrays; what the block finds wrong with them is the file's fault.

    A ValueError says that the file is not one of ours, or what is wrong with it. The arrays are
    finite, and have the shapes that the file names; whether they fit is for the block to `require`.
    """
    content = memoryview(path.read_bytes())
    if content[_LENGTH_BYTES : _DIGITS.start] != _BEGINNING:
        raise _foreign(path, kind)
    try:
        header, arrays = _parsed(content)
        if header.pop("kind") != kind:
            raise _ForeignError
        yield header, arrays
    except _ForeignError:
        raise _foreign(path, kind) from None
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
        raise _damaged(path, f"its header is not that of a {kind} file") from error


def require(condition: object, complaint: str) -> None:
    """Refuse the file that is open if the condition is false."""
    if not condition:
        raise _DamageError(complaint)


class _DamageError(Exception):
    """What is wrong with a file."""


class _ForeignError(Exception):
    """The file is of another kind."""


def _foreign(path: Path, kind: str) -> ValueError:
    return ValueError(f"{path} holds no {kind} of histrs; nothing was read or overwritten.")


def _damaged(path: Path, complaint: str) -> ValueError:
    return ValueError(
        f"{path} is damaged: {complaint}. It was not overwritten; restore a copy, or delete it to "
        "begin again."
    )


def _parsed(content: memoryview) -> Content:
    checksum = crc32(content[_DIGITS.stop :], crc32(_ZEROS, crc32(content[: _DIGITS.start])))
    require(content[_DIGITS] == f"{checksum:08x}".encode(), "its checksum does not fit")
    end = _LENGTH_BYTES + int.from_bytes(content[:_LENGTH_BYTES], "little")
    described, data = json.loads(bytes(content[_LENGTH_BYTES:end])), content[end:]
    header = described.pop("__metadata__")
    del header["crc32"]
    require(header.pop("version") == _VERSION, "this version of histrs does not know its format")
    kind = header.pop("kind")
    header = {name: json.loads(text) for name, text in header.items()}
    arrays, place = {}, 0
    for name, array in sorted(described.items(), key=lambda item: item[1]["data_offsets"]):
        (start, stop), shape = array["data_offsets"], array["shape"]
        dtype = np.dtype(_DTYPES[array["dtype"]])
        require(all(is_count(length) for length in shape), f"{name} has the shape {shape}")
        size = dtype.itemsize * math.prod(shape)
        complaint = f"{name} does not follow the array before it"
        require(start == place and stop - start == size, complaint)
        require(stop <= len(data), f"it ends before {name} of shape {shape}")
        values = np.frombuffer(data[start:stop], dtype=dtype).reshape(shape)
        require(np.isfinite(values).all(), f"{name} is not finite")
        arrays[name] = values.astype(dtype.newbyteorder("="))
        place = stop
    require(place == len(data), "bytes follow its last array")
    return {**header, "kind": kind}, arrays


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
