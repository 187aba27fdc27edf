"""The inner product of codewords that their kernel induces, as an operator."""

from __future__ import annotations

import numpy as np
from scipy import sparse
from scipy.linalg import pinvh

from histrs import _histrs
from histrs._checks.validation import to_core
from histrs._typing import Array
from histrs.kernel_approximation import AdditiveChi2Map, InnerProduct
from histrs.metrics import intersection_kernel

# Features a value for the chi-square kernel of codewords.
_CHI2_COMPONENTS = 9
# Singular values of a factor, relative to the largest, that are rounding: of columns that vanish,
# once they are rotated.
_LEAST = 1e-12


class FactoredProduct(InnerProduct):
    """`K_ZZ = F F^T`, block after block; `F` has shape (n_blocks, n_codes, n_components)."""

    def __init__(self, factor: Array) -> None:
        self.factor = factor
        size = factor.shape[0] * factor.shape[1]
        self.shape = (size, size)

    def _matmul(self, V: Array) -> Array:
        blocks = self._blocks(V)
        product: Array = self.factor @ (self.factor.transpose(0, 2, 1) @ blocks)
        return product.reshape(V.shape)

    def _solve(self, V: Array) -> Array:
        # Of a factor alone: `(F F^T)^+ = F^+^T F^+`.
        inverse = np.linalg.pinv(self.factor, _LEAST)
        solution: Array = inverse.transpose(0, 2, 1) @ (inverse @ self._blocks(V))
        return solution.reshape(V.shape)

    def _blocks(self, V: Array) -> Array:
        return np.ascontiguousarray(V).reshape(*self.factor.shape[:2], -1)


class IntersectionProduct(InnerProduct):
    """`K_ZZ` of `sum min(z, z')` within blocks: two cumulative sums per column."""

    def __init__(self, codebooks: Array, n_threads: int) -> None:
        n_blocks, n_codes, width = codebooks.shape
        size = n_blocks * n_codes
        # Codewords of different blocks share no column, so that their minimum is 0.
        columns = np.arange(width) + width * np.arange(n_blocks)[:, None, None]
        columns = np.broadcast_to(columns, codebooks.shape)
        indptr = np.arange(size + 1) * width
        Z = sparse.csr_array(
            (codebooks.ravel(), columns.ravel(), indptr), shape=(size, n_blocks * width)
        )
        self._codebooks = codebooks
        self._columns = _histrs.SortedColumns(to_core(Z), n_threads)
        self._n_threads = n_threads
        self.shape = (size, size)

    def _matmul(self, V: Array) -> Array:
        return self._columns.product(np.ascontiguousarray(V), self._n_threads)

    def _solve(self, V: Array) -> Array:
        n_blocks, n_codes, _ = self._codebooks.shape
        blocks = np.ascontiguousarray(V).reshape(n_blocks, n_codes, -1)
        parts = [
            pinvh(intersection_kernel(Z)) @ part
            for Z, part in zip(self._codebooks, blocks, strict=True)
        ]
        return np.concatenate(parts).reshape(V.shape)


def hellinger_product(codebooks: Array) -> InnerProduct:
    """Return the inner product of the roots of codewords."""
    return FactoredProduct(np.sqrt(codebooks))


def chi2_product(codebooks: Array) -> InnerProduct:
    """Return the additive chi-square kernel of codewords, by a map of it."""
    rows = codebooks.reshape(-1, codebooks.shape[2])
    features = AdditiveChi2Map(_CHI2_COMPONENTS).fit_transform(rows)
    return FactoredProduct(features.reshape(*codebooks.shape[:2], -1))
