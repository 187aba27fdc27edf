"""Rows of vectors, and of symmetric matrices, times a number each."""

from __future__ import annotations

from histrs._typing import Array


def scaled(scale: Array | None, V: Array) -> Array:
    """Return the rows of `V`, each multiplied by its number; None is 1 for all."""
    return V if scale is None else scale[:, None] * V


def squared(scale: Array | None) -> Array | None:
    """Return the squares; None is 1 for all."""
    return None if scale is None else scale**2


def scale_both_sides(scale: Array | None, K: Array) -> None:
    """Multiply the rows and the columns of a matrix by their numbers, in place; None is 1."""
    if scale is not None:
        K *= scale
        K *= scale[:, None]
