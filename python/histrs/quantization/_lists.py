"""Coarse lists of an index: a query looks at codes of the nearest ones alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from histrs._checks.scale import exponent_of
from histrs._typing import Array


def probed(
    X: Array, centres: Array, sizes: NDArray[np.intp], n_probes: int, k: int, *, inner: bool
) -> NDArray[np.bool_]:
    """Say which lists queries look into: the nearest ones, and as many as hold `k` rows."""
    exponent = exponent_of(centres)
    centres = np.ldexp(centres, -exponent)
    nearness = np.ldexp(X, -exponent) @ centres.T
    if not inner:
        nearness -= 0.5 * np.sum(centres**2, axis=1)
    order = np.argsort(-nearness, axis=1, kind="stable")
    held_before = np.cumsum(sizes[order], axis=1) - sizes[order]
    needed = (np.arange(len(sizes)) < n_probes) | (held_before < k)
    chosen = np.empty_like(needed)
    np.put_along_axis(chosen, order, needed, axis=1)
    return chosen
