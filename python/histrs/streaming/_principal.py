"""Principal directions from moments."""

from __future__ import annotations

import numpy as np

from histrs._solvers.lapack import eigh
from histrs._typing import Array


def check_n_components(n_components: int | None, n_features: int) -> int:
    """Return the number of directions; None asks for as many as there are features."""
    if n_components is None:
        return n_features
    if n_components > n_features:
        raise ValueError(
            f"n_components={n_components} must be at most n_features={n_features}: no more "
            "directions exist."
        )
    return int(n_components)


def principal_directions(upper: Array, n_components: int) -> tuple[Array, Array]:
    """Return the largest eigenvalues of a scatter matrix, in descending order, and their vectors.

    The vectors are columns, each with its entry of largest magnitude positive.
    """
    values, vectors = eigh(upper, n_components)
    return np.maximum(values[::-1], 0.0), with_signs(vectors[:, ::-1])


def with_signs(vectors: Array) -> Array:
    """Return vectors, as columns, with the entry of largest magnitude of each positive."""
    largest = np.argmax(np.abs(vectors), axis=0)
    return vectors * np.where(vectors[largest, np.arange(vectors.shape[1])] < 0, -1.0, 1.0)
