"""Logarithms, exponentials and roots of symmetric matrices."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from histrs import _histrs
from histrs._checks.validation import count_threads
from histrs.spd._stack import Stack, symmetric

Float64: TypeAlias = NDArray[np.float64]

# Whose exponential, and the sum of some of them, double precision holds.
_LARGEST_LOGARITHM = 700.0


def tangent_rows(stack: Stack, whitener: Float64 | None, n_jobs: int | None) -> NDArray[Any]:
    """Return the upper triangle of ``log(W X W)``, a row for each matrix, in their precision."""
    rows: NDArray[Any] = _histrs.tangent_vectors(stack, whitener, count_threads(n_jobs))
    return rows


def unpacked(rows: NDArray[Any]) -> Float64:
    """Return symmetric matrices of rows of upper triangles, the inverse of `tangent_rows`."""
    p = (int(np.sqrt(8 * rows.shape[1] + 1)) - 1) // 2
    i, j = np.triu_indices(p)
    out = np.empty((len(rows), p, p))
    out[:, i, j] = out[:, j, i] = np.where(i == j, 1.0, np.sqrt(0.5)) * rows
    return out


def exponential(S: Float64) -> Float64:
    """Return the exponential of symmetric matrices."""
    values, vectors = np.linalg.eigh(S)
    if np.max(values, initial=0.0) > _LARGEST_LOGARITHM:
        raise ValueError(
            f"The logarithm of a matrix has the eigenvalue {np.max(values):.1e}: its exponential "
            "overflows. Scale the matrices down."
        )
    scaled = vectors * np.exp(values)[..., None, :]
    return symmetric(scaled @ np.swapaxes(vectors, -1, -2))


def from_tangent(root: Float64, S: Float64) -> Float64:
    """Return ``R exp(S) R`` with a symmetric root `R`, the inverse of a logarithm there."""
    half = root @ exponential(0.5 * S)
    return symmetric(half @ np.swapaxes(half, -1, -2))


def roots(M: Float64) -> tuple[Float64, Float64]:
    """Return the symmetric root of a positive definite matrix, and its inverse.

    By a Cholesky factor and its singular values, which lose half the digits that eigenvalues of `M`
    would.
    """
    factor = np.linalg.cholesky(M)
    left, values, right = np.linalg.svd(factor)
    # Of small triangles, `solve_triangular` mostly waits for threads.
    inverse, _ = lapack.dtrtri(factor, lower=1)
    whitener = np.ascontiguousarray(symmetric((left @ right) @ inverse))
    return symmetric((left * values) @ left.T), whitener
