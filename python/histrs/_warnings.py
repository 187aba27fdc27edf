"""Warnings that point at the line of the caller."""

from __future__ import annotations

import sys
import warnings
from types import FrameType

# Whose frames lie between the caller and the place that warns: pipelines, searches, decorators.
_LIBRARIES = {"histrs", "sklearn", "joblib", "scipy", "numpy", "contextlib", "functools"}


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn of what the caller did, at the first line above that is not a library's.

    In a thread that a library started there is none; then the outermost line is named.
    """
    level = 2  # that of the caller of this function
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_back is not None and _is_library(frame):
        frame = frame.f_back
        level += 1
    warnings.warn(message, category, stacklevel=level)


def _is_library(frame: FrameType) -> bool:
    name = frame.f_globals.get("__name__", "")
    return isinstance(name, str) and name.partition(".")[0] in _LIBRARIES
