"""What a solver needs of the rows: their scores, and the gradient that weights of them make.

A solver works in a space of `width` coordinates, in which a model is a vector `v`. A gradient has
two forms, `a` and `K a`. The derivative along `v` is `a . v`, and `v` is a sum of `K a`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from histrs import _histrs
from histrs._checks.sparse import is_sparse
from histrs._typing import Array, Matrix
from histrs.kernel_approximation import InnerProduct
from histrs.quantization._inner_product import FactoredProduct
from histrs.svm._composition import inner_product_of, quantizer_of

# Rows that are converted at a time.
_CHUNK = 2048


class Rows(Protocol):
    """Rows of features, and their inner product."""

    @property
    def width(self) -> int:
        """Number of coordinates of a model."""

    def __len__(self) -> int:
        """Return the number of rows."""

    def scores(self, V: Array, out: Array | None = None) -> Array:
        """Return scores of shape (k, n) for models of shape (k, width), in `out` if it is given."""

    def gradients(self, G: Array) -> tuple[Array, Array]:
        """Return `a` and `K a`, of shape (k, width), for weights of shape (k, n)."""

    def coef(self, V: Array) -> Array:
        """Return models in the space of the features."""

    def part(self, rows: NDArray[np.intp]) -> Self:
        """Return some of the rows."""


class FeatureRows:
    """Features as they are, dense or CSR, with an inner product or none, which is the identity."""

    def __init__(
        self,
        features: Matrix,
        product: InnerProduct | None,
        columns: NDArray[np.bool_] | None = None,
    ) -> None:
        self._features: Any = features
        self._product = product
        self._columns = columns
        """Which columns of the user's these are; None where all are here."""
        self.width = int(features.shape[1])

    def of_used_columns(self) -> FeatureRows:
        """Return the same rows without the columns that no row has; their weights are 0."""
        if not is_sparse(self._features) or self._product is not None:
            return self
        given = self._features
        used = np.zeros(self.width, dtype=bool)
        used[given.indices] = True
        if used.all() or not used.any():
            return self
        places = (np.cumsum(used) - 1).astype(given.indices.dtype)[given.indices]
        shape = len(self), int(np.count_nonzero(used))
        parts = given.data, places, given.indptr
        return FeatureRows(sparse.csr_array(parts, shape=shape), None, used)

    def __len__(self) -> int:
        return int(self._features.shape[0])

    def scores(self, V: Array, out: Array | None = None) -> Array:
        out = np.empty((len(V), len(self))) if out is None else out
        if is_sparse(self._features):
            out[:] = (self._features @ V.T).T
            return out
        for part, block in self._blocks():
            np.matmul(V, block.T, out=out[:, part])
        return out

    def gradients(self, G: Array) -> tuple[Array, Array]:
        if is_sparse(self._features):
            a = np.ascontiguousarray((self._features.T @ G.T).T, dtype=np.float64)
        else:
            a = np.zeros((len(G), self.width))
            for part, block in self._blocks():
                a += G[:, part] @ block
        product = self._product
        return a, a if product is None else np.ascontiguousarray(product.matmul(a.T).T)

    def coef(self, V: Array) -> Array:
        if self._columns is None:
            return V
        whole = np.zeros((len(V), len(self._columns)))
        whole[:, self._columns] = V
        return whole

    def part(self, rows: NDArray[np.intp]) -> FeatureRows:
        return FeatureRows(self._features[rows], self._product, self._columns)

    def _blocks(self) -> Iterator[tuple[slice, Array]]:
        """Yield the rows in double precision."""
        for start in range(0, len(self), _CHUNK):
            part = slice(start, start + _CHUNK)
            yield part, np.asarray(self._features[part], dtype=np.float64)


class CodeRows:
    """Codes of a product quantizer, expanded after each pass: delayed expansion.

    A pass adds up table entries, of `dtype`; the codewords, `n_codes` of each block, enter once, as
    a dense product. Where the inner product is `F F^T`, models are vectors `w` with `v = F w`, so
    that a gradient is `F^T a`.
    """

    def __init__(
        self,
        codes: NDArray[Any],
        product: InnerProduct,
        n_codes: int,
        dtype: np.dtype[Any],
        n_threads: int,
    ) -> None:
        self._arguments = product, n_codes, dtype, n_threads
        self._codes = codes
        self._product, self._n_codes, self._dtype, self._n_threads = self._arguments
        self._factor = product.factor if isinstance(product, FactoredProduct) else None
        width = codes.shape[1] * n_codes
        self.width = width if self._factor is None else self._factor[:, 0].size

    def __len__(self) -> int:
        return len(self._codes)

    def scores(self, V: Array, out: Array | None = None) -> Array:
        out = np.empty((len(V), len(self))) if out is None else out
        tables = self._tables(V).astype(self._dtype, copy=False)
        _histrs.quantization_scores_into(self._codes, tables, out, self._n_threads)
        return out

    def gradients(self, G: Array) -> tuple[Array, Array]:
        G = np.ascontiguousarray(G)
        sums = _histrs.quantization_sums(self._codes, self._n_codes, G, self._n_threads)
        if self._factor is None:
            a = sums.reshape(self.width, len(G))
            return np.ascontiguousarray(a.T), np.ascontiguousarray(self._product.matmul(a).T)
        # Several levels of a block share its columns.
        of_blocks = sums.reshape(*self._factor.shape[:2], len(G))
        a = self._factor.transpose(0, 2, 1) @ of_blocks
        a = np.ascontiguousarray(a.reshape(self.width, len(G)).T)
        return a, a

    def coef(self, V: Array) -> Array:
        tables = self._tables(V)
        return np.ascontiguousarray(tables.reshape(-1, len(V)).T)

    def part(self, rows: NDArray[np.intp]) -> CodeRows:
        return CodeRows(self._codes[rows], *self._arguments)

    def _tables(self, V: Array) -> Array:
        """Return a score for each codeword, of shape (n_blocks, n_codes, k)."""
        shape = self._codes.shape[1], self._n_codes, len(V)
        if self._factor is None:
            return np.ascontiguousarray(V.T.reshape(shape))
        tables: Array = self._factor @ V.T.reshape(len(self._factor), -1, len(V))
        return tables.reshape(shape)


class RowsWithIntercept:
    """Rows with a further feature, constant, whose inner product is `scale` squared.

    The larger the scale, the less the intercept is penalised.
    """

    def __init__(self, rows: Rows, scale: float) -> None:
        self._rows = rows
        self._scale = scale
        self.width = rows.width + 1

    def __len__(self) -> int:
        return len(self._rows)

    def scores(self, V: Array, out: Array | None = None) -> Array:
        scores = self._rows.scores(np.ascontiguousarray(V[:, :-1]), out)
        scores += V[:, -1:]
        return scores

    def gradients(self, G: Array) -> tuple[Array, Array]:
        a, product = self._rows.gradients(G)
        total = G.sum(axis=1, keepdims=True)
        return np.hstack([a, total]), np.hstack([product, self._scale**2 * total])

    def coef(self, V: Array) -> Array:
        return self._rows.coef(np.ascontiguousarray(V[:, :-1]))

    def part(self, rows: NDArray[np.intp]) -> RowsWithIntercept:
        return RowsWithIntercept(self._rows.part(rows), self._scale)


def rows_of(feature_map: Any, features: Any, n_threads: int) -> Rows:
    """Return the rows that features are, with the inner product of their map."""
    product = inner_product_of(feature_map, features.shape[1])
    quantizer = quantizer_of(feature_map)
    if quantizer is None:
        return FeatureRows(features.tocsr() if is_sparse(features) else features, product)
    assert product is not None
    codebooks = quantizer.codebooks_
    return CodeRows(features, product, codebooks.shape[1], codebooks.dtype, n_threads)


def scores_of(feature_map: Any, features: Any, coef: Array, n_threads: int) -> Array:
    """Return the scores of features, of shape (n_problems, n_samples)."""
    quantizer = quantizer_of(feature_map)
    if quantizer is None:
        return FeatureRows(features, None).scores(coef)
    codebooks = quantizer.codebooks_
    tables = coef.reshape(len(coef), *codebooks.shape[:2]).transpose(1, 2, 0)
    tables = np.ascontiguousarray(tables, dtype=codebooks.dtype)
    return _histrs.quantization_scores(features, tables, n_threads)
