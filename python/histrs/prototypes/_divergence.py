"""Sinkhorn divergences of histograms from learned ones."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from histrs import _histrs
from histrs._checks.validation import canonical, count_threads, to_core
from histrs._typing import Array, Matrix
from histrs.prototypes._transport_loss import MAX_ITER
from histrs.transport._arguments import check_entries, check_ground_distance
from histrs.transport._distances import warn_of_worst

TOL = 1e-6
"""Largest L1 error of a marginal in predictions."""

# Regularisation over the median of the cost matrix.
_REG = 0.1


class Divergence(NamedTuple):
    """The Sinkhorn divergence of a cost matrix and a weight of the entropy."""

    M: Array
    reg: float
    n_jobs: int | None

    def to(self, prototypes: Array, X: Matrix) -> Array:
        """Return the distances to prototypes, less what only depends on the row of `X`."""
        H = prototypes.astype(X.dtype)
        costs, errors, _, _ = _histrs.sinkhorn_distances(
            *(to_core(X), to_core(H), self.M, self.reg, TOL, MAX_ITER, True, False),
            count_threads(self.n_jobs),
        )
        warn_of_worst(errors, TOL, MAX_ITER)
        own = self.of_rows_alone(H)
        # Those to prototypes may be infinite: M may forbid transport.
        if np.isnan(costs).any() or not np.isfinite(own).all():
            raise ValueError(
                f"reg = {self.reg:.3g}: distances overflow {X.dtype}; lower reg, and scale M down."
            )
        return np.asarray(costs - own / 2, dtype=np.float64)

    def of_rows_alone(self, X: Matrix) -> Array:
        """Return what transport of each row to itself costs."""
        indices = np.arange(X.shape[0])
        costs, _ = _histrs.sinkhorn_pairs(
            *(to_core(X), to_core(X), indices, indices, None),
            *(self.M, self.reg, TOL, MAX_ITER, True),
            count_threads(self.n_jobs),
        )
        return np.asarray(costs, dtype=np.float64)


def masses(X: Matrix, n_jobs: int | None) -> NDArray[Any]:
    """Return the sums of rows, each of some finite mass."""
    n_threads = count_threads(n_jobs)
    _histrs.check_histograms(to_core(X), n_threads)
    sums = _histrs.row_sums(to_core(X), n_threads)
    empty = np.flatnonzero(~((sums > 0) & np.isfinite(sums)))
    if len(empty) > 0:
        raise ValueError(
            f"X[{empty[0]}] sums to {sums[empty[0]]}: transport needs a positive, "
            "finite sum; drop the row."
        )
    return sums


def normalized(X: Matrix, n_jobs: int | None) -> Matrix:
    """Return rows of sum 1."""
    X = canonical(X)
    sums = masses(X, n_jobs)
    if sparse.issparse(X):
        scaled = X.astype(X.dtype, copy=True)
        scaled.data /= np.repeat(sums, np.diff(scaled.indptr))
        return scaled
    return np.asarray(X / sums[:, None], dtype=X.dtype)


def ground_distance(M: ArrayLike | None, n_bins: int) -> Array:
    """Return a symmetric cost matrix; that of bins on a line for None."""
    if M is None:
        bins = np.arange(float(n_bins))
        return np.abs(bins[:, None] - bins)
    checked = check_ground_distance(M, n_bins, n_bins)
    check_entries(checked)
    if not np.array_equal(checked, checked.T):
        i, j = np.argwhere(checked != checked.T)[0]
        raise ValueError(
            f"M[{i}, {j}] = {checked[i, j]}, but M[{j}, {i}] = {checked[j, i]}: prototypes "
            "need the same cost in both directions; pass (M + M.T) / 2."
        )
    return checked


def default_reg(M: Array) -> float:
    """Return a tenth of the median of what it costs to move to another bin."""
    positive = M[(M > 0) & np.isfinite(M)]
    return _REG * float(np.median(positive)) if len(positive) > 0 else _REG
