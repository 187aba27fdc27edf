"""The rows of a learning problem, and scores, from features of whatever map they are of."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from histrs import _histrs
from histrs._checks.sparse import is_sparse
from histrs._typing import Array
from histrs.quantization import ProductQuantizer
from histrs.quantization._inner_product import FactoredProduct
from histrs.svm._composition import inner_product_of, last_map
from histrs.svm._rows import CodeRows, ExpandedRows, FeatureRows, Rows


def rows_of(
    feature_map: Any, features: Any, expansion: Literal["delayed", "immediate"], n_threads: int
) -> Rows:
    """Return the rows that features are, with the inner product of their map."""
    product = inner_product_of(feature_map, features.shape[1])
    quantizer = last_map(feature_map)
    if not isinstance(quantizer, ProductQuantizer):
        return FeatureRows(features.tocsr() if is_sparse(features) else features, product)
    assert product is not None
    codebooks = quantizer.codebooks_
    if expansion == "delayed":
        return CodeRows(features, product, codebooks.shape[1], codebooks.dtype, n_threads)
    assert isinstance(product, FactoredProduct)
    if quantizer.n_levels_ > 1:
        raise ValueError(
            'expansion = "immediate" is for a ProductQuantizer of one level: use '
            'expansion = "delayed".'
        )
    return ExpandedRows(features, product, codebooks.dtype, n_threads)


def scores_of(feature_map: Any, features: Any, coef: Array, n_threads: int) -> Array:
    """Return the scores of features, of shape (n_problems, n_samples)."""
    quantizer = last_map(feature_map)
    if not isinstance(quantizer, ProductQuantizer):
        return FeatureRows(features, None).scores(coef)
    codebooks = quantizer.codebooks_
    tables = coef.reshape(len(coef), *codebooks.shape[:2]).transpose(1, 2, 0)
    tables = np.ascontiguousarray(tables, dtype=codebooks.dtype)
    return _histrs.quantization_scores(features, tables, n_threads)
