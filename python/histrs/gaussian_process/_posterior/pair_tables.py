"""The functions of pairs as plain tables."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from histrs._typing import Array
from histrs.gaussian_process._bound.pairs import cell_among
from histrs.gaussian_process._posterior.posterior import Posterior


@dataclass(frozen=True)
class PairTable:
    """A function of two features: bilinear between the nodes of a grid, and constant beyond."""

    features: tuple[int, int]
    """Indices of the features."""
    nodes: tuple[Array, Array]
    """Values of both, ascending."""
    values: Array
    """The function at the nodes, of shape (n_nodes, n_nodes', n_outputs)."""

    def scores(self, X: Array) -> Array:
        """Return the function of rows, of shape (n_samples, n_outputs)."""
        (i, j), (nodes_i, nodes_j) = self.features, self.nodes
        (a, u), (b, v) = cell_among(X[:, i], nodes_i), cell_among(X[:, j], nodes_j)
        c, d = np.minimum(a + 1, len(nodes_i) - 1), np.minimum(b + 1, len(nodes_j) - 1)
        u, v, f = u[:, None], v[:, None], self.values
        lower = (1.0 - v) * f[a, b] + v * f[a, d]
        upper = (1.0 - v) * f[c, b] + v * f[c, d]
        scores: Array = (1.0 - u) * lower + u * upper
        return scores


def pair_tables(posterior: Posterior, readout: str) -> tuple[PairTable, ...]:
    """Return what each pair adds to a readout, as a table."""
    if posterior.pairs is None:
        return ()
    kernel = posterior.pairs.kernel
    of_cells = posterior.pair_cells(readout)
    found = []
    for k, (features, (i, j)) in enumerate(zip(kernel.pairs, kernel.indices, strict=True)):
        values = of_cells[kernel.starts[k] : kernel.starts[k + 1]]
        grid = values.reshape(*kernel.shapes[k], values.shape[1])
        pair = (int(features[0]), int(features[1]))
        found.append(PairTable(pair, (kernel.knots[i], kernel.knots[j]), grid))
    return tuple(found)
