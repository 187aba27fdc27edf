"""The objective of stochastic histogram compression."""

from __future__ import annotations

import numpy as np
from scipy.special import softmax

from histrs import _histrs
from histrs._checks.validation import to_core
from histrs._typing import Array, Matrix
from histrs.prototypes._base import Indices, Labels
from histrs.transport._arguments import Costs

MAX_ITER = 2000
"""Most iterations of transport."""

# Bytes up to which each pair keeps where its transport ended, to begin there in the next pass.
_MOST_BYTES = 1 << 30


class TransportLoss:
    """The weighted mean of ``-log p_i``, and its gradient in the logarithms of prototypes.

    Histograms have a sum of 1, and weights a mean of 1. `own` are the classes of prototypes. Of a
    grid, `M` has a matrix for each axis. `tol` is that of the marginals of transport.
    """

    def __init__(
        self,
        X: Matrix,
        labels: Labels,
        own: Labels,
        *,
        M: Costs,
        reg: float,
        gamma: float,
        tol: float,
        n_threads: int,
        weights: Array | None = None,
    ) -> None:
        self._X, self._labels, self._own, self._weights = X, labels, own, weights
        self._options = (M, reg, gamma, tol, MAX_ITER)
        self._n_threads = n_threads
        shape = (X.shape[0], len(own), X.shape[1])
        fits = 4 * np.prod(shape, dtype=np.float64) <= _MOST_BYTES
        self._starts = np.zeros(shape, dtype=np.float32) if fits else None
        self.error = 0.0
        """The largest error of a marginal in the last evaluation."""

    def __call__(self, logarithms: Array, rows: Indices | None) -> tuple[float, Array]:
        """Return the mean over some rows, or all, and its gradient.

        What weighs more adds more to the mean over some rows, so that the mean of such means is
        that of all.
        """
        X, labels, starts, weights = self._X, self._labels, self._starts, self._weights
        if rows is not None:
            X, labels = X[rows], labels[rows]
            weights = None if weights is None else weights[rows]
            starts = None if starts is None else starts[rows]
        H = softmax(logarithms, axis=1).astype(X.dtype)
        loss, gradient, self.error = _histrs.histogram_compression_loss(
            to_core(X), labels, H, self._own, weights, *self._options, starts, self._n_threads
        )
        if rows is not None and starts is not None and self._starts is not None:
            self._starts[rows] = starts
        return loss / len(labels), gradient / len(labels)
