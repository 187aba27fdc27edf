"""Windows of cells as rows of a support vector machine: codes or features, beside displacements."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from histrs._typing import Array
from histrs.quantization import ProductQuantizer
from histrs.quantization._metrics import inner_product
from histrs.svm._rows import CodeRows, FeatureRows, Rows


class JointRows:
    """Rows of several kinds side by side, all of one length; their inner products add up."""

    def __init__(self, parts: list[Rows]) -> None:
        self._parts = parts
        edges = np.cumsum([0, *(part.width for part in parts)]).tolist()
        self._indices = [slice(*pair) for pair in pairwise(edges)]
        self.width = edges[-1]

    def __len__(self) -> int:
        return len(self._parts[0])

    def split(self, V: Array) -> list[Array]:
        """Return the models of each kind."""
        return [np.ascontiguousarray(V[:, index]) for index in self._indices]

    def scores(self, V: Array, out: Array | None = None) -> Array:
        first, *rest = zip(self._parts, self.split(V), strict=True)
        out = first[0].scores(first[1], out)
        for part, model in rest:
            out += part.scores(model)
        return out

    def gradients(self, G: Array) -> tuple[Array, Array]:
        found = [part.gradients(G) for part in self._parts]
        return np.hstack([a for a, _ in found]), np.hstack([product for _, product in found])

    def coef(self, V: Array) -> Array:
        found = zip(self._parts, self.split(V), strict=True)
        return np.hstack([part.coef(model) for part, model in found])

    def part(self, rows: NDArray[np.intp]) -> JointRows:
        return JointRows([part.part(rows) for part in self._parts])


def window_rows(windows: NDArray[Any], quantizer: ProductQuantizer | None, n_threads: int) -> Rows:
    """Return windows of cells as rows: of codes, all cells share the codebooks of one."""
    if quantizer is None:
        return FeatureRows(windows, None)
    codebooks = quantizer.codebooks_.astype(np.float64)
    n_cells = windows.shape[1] // len(codebooks)
    product = inner_product(
        np.tile(codebooks, (n_cells, 1, 1)), quantizer.metric_, n_threads, quantizer.n_levels_
    )
    return CodeRows(windows, product, codebooks.shape[1], np.dtype(np.float32), n_threads)
