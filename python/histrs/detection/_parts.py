"""Where the parts of a component begin: on the strongest locations of its root."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from histrs._typing import Array
from histrs.detection._model import Component, Tables

# What a displacement of a cell costs before anything is known.
_FIRST_DEFORMATION = (0.0, 0.1, 0.0, 0.1)
# Rows and columns of cells of a part.
_SHAPE = (6, 6)


def with_parts(component: Component, n_parts: int, shares: Array | None) -> Component:
    """Return a component with parts that look as its root does there, twice as finely.

    `shares` says how frequent each codeword of each block is; None is for features.
    """
    fine = np.repeat(np.repeat(component.root, 2, axis=0), 2, axis=1)
    rows, columns = (min(pair) for pair in zip(_SHAPE, fine.shape[:2], strict=True))
    anchors = _strongest_locations(_energy(fine, shares), n_parts, (rows, columns))
    parts = [fine[y : y + rows, x : x + columns] for y, x in anchors]
    return replace(
        component,
        # Four cells of a part are where one of the root is.
        parts=(np.stack(parts) / 4).astype(np.float32),
        anchors=anchors,
        deformations=np.tile(_FIRST_DEFORMATION, (n_parts, 1)),
    )


def _energy(tables: Tables, shares: Array | None) -> Array:
    """Return the mean square of what each cell adds to a score where it is for the object."""
    squares = np.maximum(tables, 0.0).astype(np.float64) ** 2
    weighted = squares if shares is None else squares * shares
    return np.asarray(weighted.sum(axis=(2, 3)))


def _strongest_locations(energy: Array, n_parts: int, size: tuple[int, int]) -> NDArray[np.int64]:
    """Return corners of parts that cover most of the energy, one after the other."""
    energy = energy.copy()
    anchors = np.zeros((n_parts, 2), dtype=np.int64)
    h, w = size
    for anchor in anchors:
        sums = np.pad(energy.cumsum(axis=0).cumsum(axis=1), ((1, 0), (1, 0)))
        covered = sums[h:, w:] - sums[:-h, w:] - sums[h:, :-w] + sums[:-h, :-w]
        anchor[:] = np.unravel_index(np.argmax(covered), covered.shape)
        y, x = anchor
        energy[y : y + h, x : x + w] = 0.0
    return anchors
