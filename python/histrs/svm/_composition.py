"""The inner product of what pipelines and unions make of maps that have one."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.compose import ColumnTransformer
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import FeatureUnion, Pipeline

from histrs._typing import Array
from histrs.kernel_approximation import InnerProduct
from histrs.kernel_approximation._inner_product import IdentityInnerProduct
from histrs.quantization import ProductQuantizer


class BlockDiagonalProduct(InnerProduct):
    """The inner product of features side by side; that of a part may be None, the identity."""

    def __init__(self, parts: list[tuple[int, InnerProduct | None]]) -> None:
        edges = np.cumsum([0, *(width for width, _ in parts)]).tolist()
        self.shape = (edges[-1], edges[-1])
        self._parts = [
            (slice(start, start + width), _Identity() if product is None else product)
            for start, (width, product) in zip(edges, parts, strict=False)
        ]

    def _matmul(self, V: Array) -> Array:
        return np.vstack([product.matmul(V[part]) for part, product in self._parts])

    def _solve(self, V: Array) -> Array:
        return np.vstack([product.solve(V[part]) for part, product in self._parts])


class _Identity:
    """The scalar product."""

    def matmul(self, V: Array) -> Array:
        return V

    solve = matmul


def last_map(transformer: Any) -> Any:
    """Return the map whose features a transformer returns: of a pipeline, that of the last step."""
    if isinstance(transformer, FrozenEstimator):
        return last_map(transformer.estimator)
    if isinstance(transformer, Pipeline):
        steps = [step for _, step in transformer.steps if not _is_nothing(step)]
        return last_map(steps[-1]) if steps else None
    return transformer


def quantizer_of(transformer: Any) -> ProductQuantizer | None:
    """Return the quantizer whose codes a transformer returns; None where these are no codes."""
    last = last_map(transformer)
    return last if isinstance(last, ProductQuantizer) else None


def inner_product_of(transformer: Any, n_features: int) -> InnerProduct | None:
    """Return the inner product of the features of a fitted transformer; None is the identity.

    It is a map, or a pipeline, union or column transformer of maps, in any nesting. Features that
    have an inner product and are changed by something else are a ValueError.
    """
    if transformer is None:
        return None
    if isinstance(transformer, FrozenEstimator):
        return inner_product_of(transformer.estimator, n_features)
    if isinstance(transformer, Pipeline):
        steps = [(name, step) for name, step in transformer.steps if not _is_nothing(step)]
        for name, step in steps[:-1]:
            _refuse_inside(step, f"step {name!r} of a pipeline", "make it the last step")
        return inner_product_of(steps[-1][1], n_features) if steps else None
    if isinstance(transformer, FeatureUnion | ColumnTransformer):
        return _side_by_side(transformer, n_features)
    product = getattr(transformer, "inner_product_", None)
    if isinstance(product, IdentityInnerProduct):
        return None
    if product is None:
        kind = type(transformer).__name__
        for value in vars(transformer).values():
            _refuse_inside(value, f"a part of {kind}", f"use it without {kind}")
    return product


def _is_nothing(step: Any) -> bool:
    return step is None or isinstance(step, str)


def _side_by_side(union: FeatureUnion | ColumnTransformer, n_features: int) -> InnerProduct | None:
    if isinstance(union, ColumnTransformer):
        members = [(name, part) for name, part, _ in union.transformers_]
        slices = [union.output_indices_[name] for name, _ in members]
        widths: list[int | None] = [part.stop - part.start for part in slices]
    else:
        members = union.transformer_list
        widths = [_width(part) for _, part in members]
    open_ = [i for i, width in enumerate(widths) if width is None]
    if len(open_) == 1:
        widths[open_[0]] = n_features - sum(width for width in widths if width is not None)
    parts: list[tuple[int, InnerProduct | None]] = []
    for (name, part), width in zip(members, widths, strict=True):
        if _is_nothing(part) or width == 0:
            parts.append((width or 0, None))
            continue
        if quantizer_of(part) is not None:
            raise ValueError(
                f"feature_map: {name!r} returns codes, which cannot stand beside other features; "
                "use one ProductQuantizer of all columns, which quantises each block separately."
            )
        product = inner_product_of(part, width or 0)
        parts.append((width or 0, product))
    if all(product is None for _, product in parts):
        return None
    if sum(width for width, _ in parts) != n_features:
        raise ValueError(
            "feature_map: the union does not say which features belong to maps with an inner "
            "product; use a ColumnTransformer, or transformers with get_feature_names_out."
        )
    return BlockDiagonalProduct(parts)


def _width(part: Any) -> int | None:
    """Return the number of features of a part of a union, where it says so."""
    if part == "drop":
        return 0
    shape = getattr(getattr(last_map(part), "inner_product_", None), "shape", None)
    if shape is not None:
        return int(shape[0])
    try:
        return len(part.get_feature_names_out())
    except (AttributeError, ValueError):
        return None


def _refuse_inside(value: Any, where: str, cure: str) -> None:
    """Refuse a map with an inner product whose features something else has changed."""
    if isinstance(value, list | tuple):
        for part in value:
            _refuse_inside(part, where, cure)
    elif isinstance(value, BaseEstimator):
        if hasattr(type(value), "inner_product_") or hasattr(value, "inner_product_"):
            raise ValueError(
                f"feature_map: {type(value).__name__} has an inner product, which is lost because "
                f"its features are changed as {where}; {cure}."
            )
        for part in vars(value).values():
            _refuse_inside(part, where, cure)
