"""Posterior variances between two numbers that are certain."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from histrs._checks.rows import in_row_blocks
from histrs._typing import Array, Matrix
from histrs.gaussian_process._systems.system import System

# Rows that are solved for at a time.
_BLOCK = 64
# Rounding of what a row explains, as part of its prior variance and for each training row.
_ROUNDING = 4.0 * np.finfo(np.float64).eps
# How much less is tolerated of a residual where the bounds are too far apart, and how often.
_STRICTER = 0.1
_ROUNDS = 8


def variance_bounds(system: System, X: Matrix, gap: float) -> tuple[Array, Array]:
    r"""Return what the variances of rows are between, without amplitude.

    With any :math:`b` and what it leaves, :math:`r = k_x - A b`, :math:`A = K + s I`,

    .. math:: k_x^T A^{-1} k_x = k_x^T b + b^T r + r^T A^{-1} r,
              \qquad 0 \le r^T A^{-1} r \le r^T r / s,

    as no eigenvalue of `A` is below `s`. The systems are solved until the upper standard deviation,
    `s` included, is above the lower one by no more than `gap` times that.

    Parameters
    ----------
    system : System
        The system of the training rows.
    X : {ndarray, sparse matrix} of shape (n_rows, n_features)
        Rows.
    gap : float
        How far apart the standard deviations may be.

    Returns
    -------
    lower, upper : ndarray of shape (n_rows,)
        They hold, whether they are as near as `gap` or not; the rounding of double precision is
        counted in.
    """
    prior = in_row_blocks(X, lambda rows: system.bound.prior(system.bound.rows_of(rows)))
    lower, upper = np.empty_like(prior), np.empty_like(prior)
    for start in range(0, len(prior), _BLOCK):
        rows = slice(start, start + _BLOCK)
        k = system.cross(system.bound.rows_of(X[rows]))
        explained, missing = _explained(system, k, prior[rows], gap)
        upper[rows] = np.clip(prior[rows] - explained, 0.0, prior[rows])
        lower[rows] = np.maximum(prior[rows] - explained - missing, 0.0)
    return lower, upper


def are_near(system: System, lower: Array, upper: Array, gap: float) -> NDArray[np.bool_]:
    """Say which standard deviations, `s` included, are as near as that."""
    near: NDArray[np.bool_] = np.sqrt((upper + system.s) / (lower + system.s)) <= 1.0 + gap
    return near


def _explained(system: System, k: Array, prior: Array, gap: float) -> tuple[Array, Array]:
    """Return less than what the training rows explain of the prior, and how much less at most."""
    # With this residual the bounds are near enough even where nothing is left of the variance.
    tol = np.full(k.shape[1], np.sqrt(2.0 * gap / max(len(k), 1)) * system.s)
    B: Array | None = None
    explained, missing = np.zeros(k.shape[1]), np.full(k.shape[1], np.inf)
    rounding = _ROUNDING * len(k) * prior
    for _ in range(_ROUNDS):
        solution = system.solve(k, tol, B)
        B = solution.X
        R = k - system.multiply(B)
        at_most = np.einsum("ij,ij->j", R, R) / system.s + 2.0 * rounding
        better = at_most < missing
        least = np.einsum("ij,ij->j", k, B) + np.einsum("ij,ij->j", B, R) - rounding
        explained, missing = np.where(better, least, explained), np.where(better, at_most, missing)
        left = np.maximum(prior - explained, 0.0)
        wide = ~are_near(system, np.maximum(left - missing, 0.0), left, gap)
        if not np.any(wide & better):
            break
        tol[wide] *= _STRICTER
    return explained, missing
