"""Tables of queries by codewords, for distances from rows to codes."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from histrs._checks.scale import check_squares, exponent_of, may_overflow
from histrs._typing import Array
from histrs.quantization._coder import Coder, Codes
from histrs.quantization._product import ProductQuantizer
from histrs.quantization._rotation import check_range


class Tables:
    """The codewords of a quantizer, in units of the largest, and tables of queries.

    With `centred`, coordinates are about the mean codeword of each block, so that distances are not
    lost in the difference of large squares.
    """

    def __init__(self, quantizer: ProductQuantizer, *, centred: bool) -> None:
        self._quantizer = quantizer
        self._n_levels = quantizer.n_levels_
        self._edges = list(pairwise(quantizer.block_offsets_.tolist()))
        codebooks = quantizer.codebooks_.astype(np.float64)
        self._exponent = exponent_of(codebooks)
        self._codebooks = np.ldexp(codebooks, -self._exponent)
        self._centre = np.zeros(quantizer.n_features_in_)
        if centred:
            of_blocks = self._codebooks[:: self._n_levels]
            for (start, stop), book in zip(self._edges, of_blocks, strict=True):
                self._centre[start:stop] = book[:, : stop - start].mean(axis=0)
                book[:, : stop - start] -= self._centre[start:stop]

    @property
    def n_entries(self) -> int:
        """Entries of the tables of a query."""
        return int(np.prod(self._codebooks.shape[:2]))

    def decoded(self, codes: Codes) -> Array:
        """Return what codes stand for, in the coordinates of the tables."""
        blocks = self._quantizer._blocks()
        rows: Array = Coder(blocks, self._codebooks, None, self._n_levels).decode(codes)
        return rows

    def restored(self, codes: Codes) -> Array:
        """Return what codes stand for, rotated, in the units of rows."""
        return np.ldexp(self.decoded(codes) + self._centre, self._exponent)

    def distances(self, X: Array, first: int) -> tuple[Array, NDArray[np.intp]]:
        """Return squared distances, a query the last axis, and the exponents of their units.

        With several levels those of the sum are missing the squared norm of the indexed row.
        """
        check_range(X, first, "rotated")
        with may_overflow():
            X = np.ldexp(X, -self._exponent)
            check_range(X, first, "in units of the codewords")
            check_squares(X, "queries")
            X -= self._centre
        entries = self._products(X)
        entries *= -2.0
        for m, (start, stop) in enumerate(self._edges):
            of_block = entries[m * self._n_levels]
            of_block += np.sum(X[:, start:stop] ** 2, axis=1)
            if self._n_levels == 1:
                of_block += np.sum(self._codebooks[m] ** 2, axis=1)[:, None]
                np.maximum(of_block, 0.0, out=of_block)
        return entries, np.full(len(X), 2 * self._exponent)

    def products(self, X: Array) -> tuple[Array, NDArray[np.intp]]:
        """Return inner products with their signs turned, and the exponents of their units."""
        own = np.frexp(np.abs(X).max(axis=1, initial=0.0))[1]
        entries = self._products(np.ldexp(X, -own[:, None]))
        return np.negative(entries, out=entries), own + self._exponent

    def _products(self, X: Array) -> Array:
        entries = np.empty((*self._codebooks.shape[:2], len(X)))
        for m, (start, stop) in enumerate(self._edges):
            books = self._codebooks[m * self._n_levels : (m + 1) * self._n_levels]
            out = entries[m * self._n_levels : (m + 1) * self._n_levels]
            np.matmul(books[..., : stop - start], X[:, start:stop].T, out=out)
        return entries
