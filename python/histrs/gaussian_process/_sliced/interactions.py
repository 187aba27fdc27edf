"""Columns, and pairs that interact, found where the likelihood rises with their kernel."""

from __future__ import annotations

from collections.abc import Collection
from itertools import combinations
from typing import TypeAlias

import numpy as np

from histrs import _histrs
from histrs._typing import Array

Pair: TypeAlias = tuple[int, int]
Effect: TypeAlias = tuple[int, ...]

# Directions in the plane of two columns, none of them a column itself.
N_ANGLES = 8
# Columns, and pairs, that one step adds, at most.
EFFECTS_A_STEP = 8
# How many times the likelihood's pull towards more signal exceeds its push towards less.
_EVIDENCE = 3.0
# Columns whose pairs are looked at, at most.
_MOST_COLUMNS = 64
# Draws that traces are estimated from.
N_DRAWS = 16
# Directions whose projections are in memory at once.
_BLOCK = 512


def effect_directions(n_columns: int, effect: Effect) -> Array:
    """Return unit directions at even angles in the plane of two columns, or the one column."""
    if len(effect) == 1:
        return np.eye(n_columns)[:, list(effect)]
    angles = np.pi * (np.arange(N_ANGLES) + 0.5) / N_ANGLES
    W = np.zeros((n_columns, N_ANGLES))
    W[effect[0]], W[effect[1]] = np.cos(angles), np.sin(angles)
    return W


def missing_effects(
    A: Array,
    alpha: Array,
    draws: Array,
    importance: Array,
    known: Collection[Effect],
    n_threads: int,
) -> tuple[list[Effect], list[Pair]]:
    r"""Return columns, and pairs of columns, whose kernels the likelihood asks for, best first.

    The likelihood's slope by the weight of a kernel :math:`K_p` that is not there yet is
    :math:`\frac{1}{2} (\alpha^T K_p \alpha - \mathrm{tr}(A^{-1} K_p))` (Rasmussen and Williams,
    2006, equation 5.9). What counts is the ratio of the two terms: of a column, and of the sum and
    the difference of two. A pair needs more than either of its columns, whose own effects its
    kernel has too.

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
    known : collection of tuple
        Columns and pairs that have kernels of their own already.
    n_threads : int
        Threads of the core.
    """
    varied = np.flatnonzero(np.ptp(A, axis=0) > 0.0)
    order = varied[np.argsort(-importance[varied], kind="stable")]
    columns = sorted(int(c) for c in order[:_MOST_COLUMNS])
    V, n_targets = np.hstack([alpha, draws]), alpha.shape[1]
    single = _evidence(_forms(A[:, columns], V, n_threads), n_targets)
    of_column = dict(zip(columns, single.tolist(), strict=True))
    pairs = [pair for pair in combinations(columns, 2) if pair not in known]
    found: list[Array] = [np.empty((0, V.shape[1]))]
    for start in range(0, len(pairs), _BLOCK // 2):
        first, second = np.array(pairs[start : start + _BLOCK // 2]).T
        ends = (A[:, first] + A[:, second], A[:, first] - A[:, second])
        forms = _forms(np.hstack(ends), V, n_threads)
        found.append(forms[: len(first)] + forms[len(first) :])
    of_pairs = _evidence(np.concatenate(found), n_targets)
    of_ends = np.array([max(of_column[end] for end in pair) for pair in pairs])
    own = [(c,) for c in columns if (c,) not in known and of_column[c] > _EVIDENCE]
    own.sort(key=lambda effect: -of_column[effect[0]])
    best = np.argsort(-of_pairs, kind="stable")
    wanted = [pairs[k] for k in best if of_pairs[k] > max(_EVIDENCE, of_ends[k])]
    return list(own[:EFFECTS_A_STEP]), wanted[:EFFECTS_A_STEP]


def _evidence(forms: Array, n_targets: int) -> Array:
    """Return how many times the pull towards more signal is the push towards less."""
    if len(forms) == 0:
        return np.empty(0)
    pull = forms[:, :n_targets].mean(axis=1)
    push = forms[:, n_targets:].mean(axis=1)
    # Sum and difference of columns that are never unlike say nothing.
    push = np.maximum(push, 1e-3 * np.median(push))
    evidence: Array = np.divide(pull, push, out=np.zeros_like(pull), where=push > 0.0)
    return evidence


def _forms(T: Array, V: Array, n_threads: int) -> Array:
    """Return the quadratic forms of the kernel of every column."""
    T = np.ascontiguousarray(T - T.min(axis=0, initial=np.inf))
    forms: Array = _histrs.SortedColumns(T, n_threads).quadratic_forms(
        np.ascontiguousarray(V), n_threads
    )
    return forms
