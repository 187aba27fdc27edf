"""Distances between covariance matrices as points of a flat space: themselves, or logarithms."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from histrs import _histrs
from histrs._checks.rows import Checked, rows_of
from histrs._checks.validation import count_threads
from histrs.spd._mean import log_euclidean_mean
from histrs.spd._stack import Stack

Stacks = Stack | Checked


def log_euclidean_distances(X: Stacks, Y: Stacks, *, n_jobs: int | None) -> NDArray[Any]:
    r"""Return :math:`\| \log X - \log Y \|_F` of all pairs."""
    rows = [_once(Z, "logarithms", partial(_logarithms, n_jobs=n_jobs)) for Z in (X, Y)]
    return _distances(*rows)


def euclid_distances(X: Stacks, Y: Stacks, *, n_jobs: int | None) -> NDArray[Any]:
    r"""Return :math:`\| X - Y \|_F` of all pairs."""
    return _distances(*(rows_of(Z).reshape(len(rows_of(Z)), -1) for Z in (X, Y)))


def log_euclidean_centroid(X: Stack, *, n_jobs: int | None) -> NDArray[Any]:
    """Return the log-Euclidean mean."""
    return log_euclidean_mean(X, n_jobs=n_jobs)[None]


def euclid_centroid(X: Stack, *, n_jobs: int | None) -> NDArray[Any]:
    """Return the arithmetic mean; the sum of huge matrices would overflow."""
    return np.asarray((X / len(X)).sum(axis=0, dtype=np.float64), dtype=X.dtype)[None]


def _once(Z: Stacks, name: str, made: Any) -> Any:
    """Return what is made of matrices; of checked ones it is made once."""
    return Z.once(name, lambda: made(Z.rows)) if isinstance(Z, Checked) else made(Z)


def _logarithms(stack: Stack, *, n_jobs: int | None) -> NDArray[Any]:
    rows: NDArray[Any] = _histrs.tangent_vectors(stack, None, count_threads(n_jobs))
    return rows


def _distances(X: NDArray[Any], Y: NDArray[Any]) -> NDArray[Any]:
    D = cdist(X.astype(np.float64), Y.astype(np.float64))
    return D.astype(np.result_type(X, Y), copy=False)
