"""How files are written, for everything that saves: in one step, and never over a stranger's."""

from __future__ import annotations

import os
import re
import secrets
import stat
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

if sys.platform != "win32":
    import fcntl

_TEMPORARY = re.compile(r"\.histrs-[0-9a-f]{16}\.tmp")


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
