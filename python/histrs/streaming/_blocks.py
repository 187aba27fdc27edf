"""Principal components of several blocks of features, each by itself (Algorithm 4)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from sklearn.pipeline import FeatureUnion

from histrs._checks.sparse import is_sparse
from histrs._typing import Array
from histrs.streaming._linear import check_labelled
from histrs.streaming._moments import Moments
from histrs.streaming._path import RidgePath
from histrs.streaming._principal import check_n_components, principal_directions
from histrs.streaming._reduction import reduced
from histrs.streaming._rows import checked, n_columns
from histrs.streaming._source import RowSource, in_chunk


@dataclass(frozen=True)
class BlockProjection:
    """Rows about their mean, projected block by block (step 5)."""

    columns: Sequence[slice]
    means: Sequence[Array]
    bases: Sequence[Array]

    def __call__(self, Z: Any) -> Array:
        parts = zip(self.columns, self.means, self.bases, strict=True)
        return np.hstack([(_dense(Z[:, part]) - mean) @ basis for part, mean, basis in parts])

    def fold_back(self, path: RidgePath) -> RidgePath:
        """Return a path on projected rows as one on the rows (step 9)."""
        basis, mean, start = [], [], 0
        for own_mean, own in zip(self.means, self.bases, strict=True):
            part = slice(start, start + own.shape[1])
            basis.append(own @ path.basis[part])
            mean.append(own_mean + own @ path.mean[part])
            start = part.stop
        return replace(path, mean=np.concatenate(mean), basis=np.vstack(basis))


def _dense(Z: Any) -> Any:
    return Z.toarray() if is_sparse(Z) else Z


def block_sizes(blocks: Any, source: RowSource) -> list[int]:
    """Return the number of features of each block; "union" asks the feature map for them."""
    if isinstance(blocks, str):
        if not isinstance(source.feature_map, FeatureUnion):
            raise ValueError(
                'blocks="union" takes the blocks of a FeatureUnion: give one as feature_map to '
                "fit_rows, or the numbers of features."
            )
        Z = source.first_row()
        parts = [part for _, part in source.feature_map.transformer_list if part != "drop"]
        return [np.shape(Z if part == "passthrough" else part.transform(Z))[1] for part in parts]
    sizes = [int(size) for size in np.ravel(blocks)]
    if not sizes or min(sizes) < 1:
        raise ValueError(f"blocks = {blocks!r}: expected a number of features for each block.")
    return sizes


def block_components(n_components: Any, sizes: list[int]) -> list[int]:
    """Return the number of components of each block; one number is for all."""
    each = [n_components] * len(sizes) if np.ndim(n_components) == 0 else list(n_components)
    if len(each) != len(sizes):
        raise ValueError(
            f"n_components = {n_components!r} and {len(sizes)} blocks: give one number for each, "
            "or one for all."
        )
    return [check_n_components(k, size) for k, size in zip(each, sizes, strict=True)]


def block_path(source: RowSource, sizes: list[int], components: list[int]) -> RidgePath:
    """Read the rows twice: for the directions of each block, and for the products of these.

    Memory is that of the blocks' matrices and of one of the size of all components, not of the
    products of all features.
    """
    edges = np.cumsum([0, *sizes])
    columns = [slice(int(a), int(b)) for a, b in pairwise(edges)]
    blocks = _moments(source, partial(_of_blocks, columns))
    bases = [
        principal_directions(block._all_rows().scatter, k)[1]
        for block, k in zip(blocks, components, strict=True)
    ]
    means = [block._all_rows().mean for block in blocks]
    projection = BlockProjection(columns, means, bases)
    (moments,) = _moments(source, partial(_of_projections, projection))
    check_labelled(moments)
    return projection.fold_back(RidgePath.of(moments, sum(components)))


def _moments(source: RowSource, moments_of: Callable[[RowSource], list[Moments]]) -> list[Moments]:
    return reduced(source, moments_of) if source.reader.is_distributed else moments_of(source)


def _of_blocks(columns: Sequence[slice], source: RowSource) -> list[Moments]:
    """Return the moments of each block; targets play no part in the directions."""
    blocks = [Moments(part.stop - part.start) for part in columns]
    for number, (Z, _, weights) in enumerate(source.chunks("directions of the blocks")):
        with in_chunk(number, source):
            if n_columns(Z) != columns[-1].stop:
                raise ValueError(
                    f"the rows have {n_columns(Z)} features, but blocks sum to "
                    f"{columns[-1].stop}: give the number of features of each block."
                )
            rows = checked(Z)
            for block, part in zip(blocks, columns, strict=True):
                block._add(rows[:, part], None, weights)
    if blocks[0].n_rows < 2:
        raise ValueError(f"n_samples = {blocks[0].n_rows}: directions need two rows or more.")
    return blocks


def _of_projections(projection: BlockProjection, source: RowSource) -> list[Moments]:
    moments: Moments | None = None
    for number, (Z, targets, weights) in enumerate(source.chunks("products of the components")):
        with in_chunk(number, source):
            projected = projection(checked(Z))
            moments = Moments._begin(moments, projected, targets, "", None)
            moments._add(projected, targets, weights)
    if moments is None:
        raise ValueError("there are no rows: moments need at least one chunk.")
    return [moments]
