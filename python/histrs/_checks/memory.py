"""How much memory there is."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path


def physical_memory() -> float:
    """Return the bytes of memory that this machine has, or 4 GB where it does not say."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):
        return 4e9


def free_memory() -> float:
    """Return the bytes that programs may still take, or all where the system does not say."""
    with suppress(OSError):
        found = re.search(r"MemAvailable: *(\d+) kB", Path("/proc/meminfo").read_text())
        if found is not None:
            return 1024.0 * int(found[1])
    return physical_memory()


def most_stored_rows(share: float) -> int:
    """Return for how many rows a part of the memory holds two bytes for every pair of them."""
    return int((share * physical_memory()) ** 0.5)
