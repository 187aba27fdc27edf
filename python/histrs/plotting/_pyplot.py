"""Matplotlib, where it is installed."""

from __future__ import annotations

from typing import Any


def import_pyplot() -> Any:
    """Return `matplotlib.pyplot`, or say how to install it."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(
            'histrs.plotting needs Matplotlib, which is not installed: pip install "histrs[plot]"'
        ) from error
    return plt
