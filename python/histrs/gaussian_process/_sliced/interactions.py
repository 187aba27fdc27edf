"""Pairs of columns that interact, found where the likelihood rises with their kernel."""

from itertools import combinations

import numpy as np

from histrs import _histrs
from histrs._solvers.block_cg import Array

Pair = tuple[int, int]

# Directions in the plane of two columns, none of them a column itself.
N_ANGLES = 8
# Pairs that one step adds, at most.
PAIRS_A_STEP = 8
# How many times the likelihood's pull towards more signal exceeds its pull towards less.
_EVIDENCE = 3.0
# Columns whose pairs are looked at, at most.
_MOST_COLUMNS = 64
# Draws that traces are estimated from.
N_DRAWS = 16
# Directions whose projections are in memory at once.
_BLOCK = 512


def plane_directions(n_columns: int, pair: Pair) -> Array:
    """Return unit directions in the plane of two columns, at even angles."""
    angles = np.pi * (np.arange(N_ANGLES) + 0.5) / N_ANGLES
    W = np.zeros((n_columns, N_ANGLES))
    W[pair[0]], W[pair[1]] = np.cos(angles), np.sin(angles)
    return W


def interacting_pairs(
    A: Array, alpha: Array, draws: Array, importance: Array, known: list[Pair], n_threads: int
) -> list[Pair]:
    r"""Return the pairs of columns whose kernels the likelihood asks for most, best first.

    The likelihood's slope by the weight of a kernel :math:`K_p` that is not there yet is
    :math:`\frac{1}{2} (\alpha^T K_p \alpha - \mathrm{tr}(A^{-1} K_p))` (Rasmussen and Williams,
    2006, equation 5.9). A pair counts by the ratio of the two terms, of the sum and the difference
    of its columns.

    Parameters
    ----------
    A : ndarray of shape (n_samples, n_columns)
        Standardised columns.
    alpha : ndarray of shape (n_samples, n_targets)
        Weights of the fit, divided by the root of the noise variance of each target.
    draws : ndarray of shape (n_samples, n_draws)
        Normal draws whose covariance is the inverse of the fit's matrix.
    importance : ndarray of shape (n_columns,)
        What columns are left out by, where there are many.
    known : list of tuple
        Pairs that are there already.
    n_threads : int
        Threads of the core.
    """
    varied = np.flatnonzero(np.ptp(A, axis=0) > 0.0)
    order = varied[np.argsort(-importance[varied], kind="stable")]
    columns = sorted(int(c) for c in order[:_MOST_COLUMNS])
    pairs = [pair for pair in combinations(columns, 2) if pair not in set(known)]
    if not pairs:
        return []
    forms = np.concatenate(
        [
            _forms(A, pairs[start : start + _BLOCK // 2], np.hstack([alpha, draws]), n_threads)
            for start in range(0, len(pairs), _BLOCK // 2)
        ]
    )
    n_targets = alpha.shape[1]
    pull = forms[:, :n_targets].mean(axis=1)
    push = forms[:, n_targets:].mean(axis=1)
    # Sum and difference of columns that are never unlike say nothing.
    push = np.maximum(push, 1e-3 * np.median(push))
    evidence = np.divide(pull, push, out=np.zeros_like(pull), where=push > 0.0)
    best = np.argsort(-evidence, kind="stable")[:PAIRS_A_STEP]
    return [pairs[k] for k in best if evidence[k] > _EVIDENCE]


def _forms(A: Array, pairs: list[Pair], V: Array, n_threads: int) -> Array:
    """Return the quadratic forms of the kernels of each pair's sum and difference, summed."""
    first, second = np.array(pairs).T
    T = np.hstack([A[:, first] + A[:, second], A[:, first] - A[:, second]])
    T -= T.min(axis=0, initial=np.inf)
    columns = _histrs.SortedColumns(T, n_threads)
    forms = columns.quadratic_forms(np.ascontiguousarray(V), n_threads)
    total: Array = forms[: len(pairs)] + forms[len(pairs) :]
    return total
