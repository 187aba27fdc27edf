"""Codes that are expanded to codewords whenever they are read: the peer of delayed expansion."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from histrs import _histrs
from histrs._checks.validation import count_threads
from histrs._typing import Array
from histrs.quantization._inner_product import FactoredProduct
from histrs.svm import BundleSVC
from histrs.svm._composition import quantizer_of
from histrs.svm._rows import Rows

# Rows that are expanded at a time.
_CHUNK = 2048


class ImmediateSVC(BundleSVC):
    """`BundleSVC` of the codes of a quantizer, with immediate expansion: same models, more time."""

    def _rows_without_intercept(self, features: Any) -> Rows:
        quantizer = quantizer_of(self.feature_map_)
        assert quantizer is not None
        n_threads = count_threads(self.n_jobs)
        product, dtype = quantizer.inner_product_, quantizer.codebooks_.dtype
        assert isinstance(product, FactoredProduct)
        return ExpandedRows(features, product, dtype, n_threads)


class ExpandedRows:
    """Codes of a product quantizer, expanded whenever they are read: immediate expansion.

    Parameters
    ----------
    codes : ndarray of shape (n, n_blocks)
        The codes.
    product : FactoredProduct
        The inner product of the codewords.
    dtype : dtype
        Of the expanded rows: the precision of the codewords.
    n_threads : int
        Threads.
    """

    def __init__(
        self, codes: NDArray[Any], product: FactoredProduct, dtype: np.dtype[Any], n_threads: int
    ) -> None:
        self._arguments = product, dtype, n_threads
        self._codes = codes
        self._product, self._dtype, self._n_threads = self._arguments
        self._codewords = product.factor.astype(dtype, copy=False)
        n_blocks, n_codes, size = product.factor.shape
        self._shape = n_blocks, n_codes
        self._offsets = size * np.arange(n_blocks + 1, dtype=np.int64)
        self.width = n_blocks * size

    def __len__(self) -> int:
        return len(self._codes)

    def scores(self, V: Array, out: Array | None = None) -> Array:
        out = np.empty((len(V), len(self))) if out is None else out
        V = V.astype(self._dtype, copy=False)
        for part, rows in self._expanded():
            out[:, part] = V @ rows.T
        return out

    def gradients(self, G: Array) -> tuple[Array, Array]:
        a = np.zeros((len(G), self.width))
        for part, rows in self._expanded():
            a += G[:, part].astype(self._dtype, copy=False) @ rows
        return a, a

    def coef(self, V: Array) -> Array:
        n_blocks, n_codes = self._shape
        tables = self._product.factor @ V.T.reshape(n_blocks, -1, len(V))
        return np.ascontiguousarray(tables.reshape(n_blocks * n_codes, len(V)).T)

    def part(self, rows: NDArray[np.intp]) -> ExpandedRows:
        return ExpandedRows(self._codes[rows], *self._arguments)

    def _expanded(self) -> Iterator[tuple[slice, NDArray[Any]]]:
        for start in range(0, len(self), _CHUNK):
            part = slice(start, start + _CHUNK)
            codes = self._codes[part]
            yield (
                part,
                _histrs.quantization_decode(
                    codes, self._codewords, self._offsets, self.width, self._n_threads
                ),
            )
