"""Scores of classes made comparable, from the highest of each."""

from __future__ import annotations

import numpy as np

from histrs._typing import Array


class HighestScores:
    """The highest scores of each class, gathered in chunks, in memory of their number alone."""

    def __init__(self, rank: int) -> None:
        self._rank = rank
        self._highest: Array | None = None
        # Rows that each stands for, where it is not one.
        self._copies: Array | None = None

    def update(self, scores: Array, copies: Array | None = None) -> None:
        """Add scores of shape (n_rows, n_classes), and how many rows each row stands for."""
        if copies is not None or self._copies is not None:
            self._update_counted(scores, np.ones(len(scores)) if copies is None else copies)
            return
        if self._highest is not None:
            scores = np.vstack([self._highest, scores])
        if len(scores) > self._rank:
            scores = np.partition(scores, -self._rank, axis=0)[-self._rank :]
        self._highest = scores.copy()

    def _update_counted(self, scores: Array, copies: Array) -> None:
        counts = np.broadcast_to(copies[:, None], scores.shape)
        if self._highest is not None:
            before = np.ones_like(self._highest) if self._copies is None else self._copies
            scores, counts = np.vstack([self._highest, scores]), np.vstack([before, counts])
        order = np.argsort(-scores, axis=0, kind="stable")
        scores, counts = (np.take_along_axis(part, order, axis=0) for part in (scores, counts))
        kept = 1 + np.max(np.sum(np.cumsum(counts, axis=0) < self._rank, axis=0), initial=0)
        self._highest, self._copies = scores[:kept].copy(), counts[:kept].copy()

    def lowest(self) -> Array:
        """Return the score of each class that `rank - 1` others exceed."""
        highest = np.zeros((0, 1)) if self._highest is None else self._highest
        ranks = np.cumsum(np.ones_like(highest) if self._copies is None else self._copies, axis=0)
        n_rows = ranks[-1, 0] if len(ranks) else 0
        if n_rows < self._rank:
            raise ValueError(
                f"calibration_rank = {self._rank}, but there are {n_rows:.12g} rows to calibrate "
                "on; give a lower rank or more rows."
            )
        if self._copies is None:
            return np.asarray(highest.min(axis=0))
        indices = np.sum(ranks < self._rank, axis=0)
        return np.asarray(np.take_along_axis(highest, indices[None], axis=0)[0])
