"""How much memory there is."""

from __future__ import annotations

import os


def physical_memory() -> float:
    """Return the bytes of memory that this machine has, or 4 GB where it does not say."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):
        return 4e9


def most_stored_rows(share: float) -> int:
    """Return for how many rows a part of the memory holds two bytes for every pair of them."""
    return int((share * physical_memory()) ** 0.5)
