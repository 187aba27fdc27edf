"""Scores of rows to which the pairs add their part."""

from __future__ import annotations

from typing import Literal

import numpy as np

from histrs._solvers.block_cg import Array
from histrs._validation import Matrix
from histrs.gaussian_process._distributed.columns import DistributedScore
from histrs.gaussian_process._distributed.system import DistributedSystem
from histrs.gaussian_process._interactions.kernel import PairRows
from histrs.gaussian_process._interactions.term import PairTerm
from histrs.gaussian_process._score import (
    ExactScore,
    Score,
    ScoreWithIntercept,
    TabulatedScore,
    compact_score,
)
from histrs.gaussian_process._smooth.term import SmoothScore
from histrs.gaussian_process._system import KernelSystem

# Rows whose cells among the knots are in memory at once.
_ROWS = 1 << 15


class ScoreWithPairs:
    """An additive score, and what pairs of features add, which is a table of its own."""

    takes_features = False

    def __init__(
        self, additive: Score, term: PairTerm, V: Array, feature_weights: Array | None
    ) -> None:
        self._additive, self._kernel = additive, term.kernel
        self._feature_weights = feature_weights
        self._values = term.cell_values(V)

    def evaluate(self, X: Matrix, n_threads: int) -> Array:
        """Return the scores of every row of `X`, of shape (n_samples, n_outputs)."""
        scores = self._additive.evaluate(X, n_threads)
        for start in range(0, len(scores), _ROWS):
            part = slice(start, start + _ROWS)
            cells = PairRows(self._kernel, X[part], self._feature_weights).cells
            scores[part] += np.asarray(cells @ self._values)
        return scores

    def error_bound(self) -> Array:
        """Return what no score of an output is off by more than: the pairs' part is exact."""
        return self._additive.error_bound()


def score_of(
    system: KernelSystem,
    V: Array,
    n_bins: int | None,
    interpolation: Literal["linear", "nearest"],
) -> Score:
    """Return `K(X, X_train) V` as a score of rows; with bins, from tables."""
    if system.smooth is not None:
        return SmoothScore(system.smooth, V, n_bins)
    score = _without_intercept(system, V, n_bins, interpolation)
    if system.intercept_variance == 0.0:
        return score
    return ScoreWithIntercept(score, system.intercepts(V))


def _without_intercept(
    system: KernelSystem,
    V: Array,
    n_bins: int | None,
    interpolation: Literal["linear", "nearest"],
) -> Score:
    if isinstance(system, DistributedSystem):
        return DistributedScore(system.blocks, V, n_bins, interpolation)
    additive: Score
    if n_bins is None:
        # Cells of pairs are of rows as the kernel sees them.
        kernel = system.kernel if system.pairs is None else None
        additive = ExactScore(system.columns, V, system.n_threads, kernel)
    else:
        kernel = system.kernel
        may_be_compact = system.pairs is None and kernel.transform == "identity"
        if may_be_compact and interpolation == "linear":
            return compact_score(
                *(system.columns, V, n_bins, system.n_threads, kernel.weights),
                lambda: system.rows,
            )
        additive = TabulatedScore(system.columns, V, n_bins, interpolation, system.n_threads)
    if system.pairs is None:
        return additive
    return ScoreWithPairs(additive, system.pairs, V, system.kernel.weights)
