"""Coordinate descent over the rows of a kernel system."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from histrs._solvers.block_cg import Operator, Solution, largest_entries
from histrs._typing import Array

Descent: TypeAlias = Callable[[Array, Array, NDArray[np.int64]], Array]


def coordinate_descent(
    operator: Operator,
    B: Array,
    *,
    tol: Array,
    max_iter: int,
    descend: Descent,
    X0: Array | None = None,
    callback: Callable[[Array], None] | None = None,
) -> Solution:
    """Solve `A X = B` one row after the other, in a new random order in every pass.

    The method of Wu [1]_, without the constraints of his support vector machine: a step makes the
    residual of its row vanish, which is the exact minimum of `x^T A x / 2 - b^T x` along it.
    `descend(X, B, order)` takes a step in each row of `order`. The rest is as for `block_cg`, with
    passes in place of iterations.

    References
    ----------
    .. [1] J. Wu, "A fast dual method for HIK SVM learning", European Conference on Computer Vision,
       2010.
    """
    # The order is part of the algorithm, not of the model: one seed for all.
    rng = np.random.default_rng(0)
    X = np.zeros_like(B) if X0 is None else X0
    residual = largest_entries(B - operator(X))
    n_iter = np.zeros(B.shape[1], dtype=np.intp)
    for _ in range(max_iter):
        if np.all(residual <= tol):
            break
        n_iter[residual > tol] += 1
        X = descend(X, B, rng.permutation(len(B)).astype(np.int64))
        residual = largest_entries(B - operator(X))
        if callback is not None:
            callback(residual)
    return Solution(X, residual, n_iter)
