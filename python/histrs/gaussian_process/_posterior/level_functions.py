"""What terms on levels of columns add, and how sure that is: tables of their codes."""

from __future__ import annotations

from typing import Any

import numpy as np

from histrs._typing import Array
from histrs.gaussian_process._kernels.levels import LevelColumn, LevelPair, evenly
from histrs.gaussian_process._posterior.posterior import Posterior


def function_of_column(
    posterior: Posterior, feature: int, max_knots: int | None, *, with_variance: bool
) -> tuple[Array, Array, Array | None]:
    """Return points of a column, its function there, and the variance of that on request."""
    column: LevelColumn = posterior.bound.kernel.terms[feature]
    n = len(column.points)
    at = np.arange(n) if max_knots is None else evenly(n, max_knots)
    values, variance = posterior.level_term(feature, with_variance=with_variance)
    return column.points[at], values[at], None if variance is None else variance[at]


def function_of_pair(
    posterior: Posterior, k: int, *, with_variance: bool
) -> tuple[tuple[Array, Array], Array, Array | None]:
    """Return points of both columns of the k-th pair, its function at all of them, and variance."""
    terms = posterior.bound.kernel.terms
    first = next(i for i, term in enumerate(terms) if isinstance(term, LevelPair))
    pair: LevelPair = terms[first + k]
    values, variance = posterior.level_term(first + k, with_variance=with_variance)
    return (pair.first.points, pair.second.points), values, variance


def terms_of_rows(posterior: Posterior, X: Array) -> tuple[Array, Array]:
    """Return what each term adds to means of rows, and variances, (n_rows, n_terms, n_outputs)."""
    found: list[Any] = []
    for k, codes in enumerate(posterior.bound.rows_of(X)):
        tables: Any = posterior.level_term(k, with_variance=True)
        found.append([table[codes] for table in tables])
    values, variances = (np.stack(part, axis=1) for part in zip(*found, strict=True))
    return values, variances
