"""Functions of one column: the components of its intersection kernel."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from histrs._checks.scale import exponent_of
from histrs._typing import Array

N_SHAPES = 8
"""Components of a column, which hold nine tenths of the variance of Brownian motion."""

# Cells of a column with more distinct values than that.
_N_CELLS = 64
# The least variance of a component, in units of the largest.
_LEAST = 1e-10


def shapes_of(x: Array) -> tuple[Array, NDArray[np.intp]]:
    """Return the leading components of the centred intersection kernel of one column, by cell.

    They are eigenvectors of `min(x_i, x_j)`, centred over the rows and times the roots of their
    eigenvalues, so that their outer products add up to the kernel. A column with many distinct
    values is cut into cells with about as many rows each, at most 127. The mean variance of a
    function is 1. There are 8 components, of zeros where there are fewer. The cell of each row
    comes second.
    """
    values, cells, counts = _cells(np.ldexp(x, -exponent_of(x)))
    # The smallest value is 0: what is below it would be a constant, which centring removes.
    heights = (values - values[0]) / (values[-1] - values[0])
    share = counts / len(x)
    kernel = np.minimum.outer(heights, heights)
    kernel = kernel - share @ kernel
    kernel -= (kernel @ share)[:, None]
    roots = np.sqrt(share)
    nodes, vectors = linalg.eigh(roots[:, None] * kernel * roots, check_finite=False)
    nodes, vectors = nodes[: -N_SHAPES - 1 : -1], vectors[:, : -N_SHAPES - 1 : -1]
    kept = nodes > _LEAST * nodes[0]
    scale = np.sqrt(nodes[kept] / np.sum(nodes[kept]))
    shapes = np.zeros((len(values), N_SHAPES))
    shapes[:, : np.sum(kept)] = vectors[:, kept] / roots[:, None] * scale
    return shapes, cells


def _cells(x: Array) -> tuple[Array, NDArray[np.intp], NDArray[np.intp]]:
    """Return the values of the cells in order, the cell of each row, and the rows of each cell."""
    values, cells, counts = np.unique(x, return_inverse=True, return_counts=True)
    if len(values) <= _N_CELLS:
        return np.asarray(values, dtype=np.float64), cells, counts
    edges = np.unique(np.quantile(x, np.linspace(0.0, 1.0, _N_CELLS + 1)[1:-1]))
    # A value that is an edge has a cell of its own: it may be that of nearly all rows.
    positions = np.searchsorted(edges, x) + np.searchsorted(edges, x, side="right")
    cells = np.unique(positions, return_inverse=True)[1]
    counts = np.bincount(cells)
    return np.bincount(cells, x / counts[cells]).astype(np.float64), cells, counts
