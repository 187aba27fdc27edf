"""The objective of stochastic histogram compression."""

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from histrs import _histrs
from histrs._validation import Matrix, to_core
from histrs.prototypes._base import Labels, Places

Float64 = NDArray[np.float64]

MAX_ITER = 2000
"""Most iterations of transport."""

# Bytes up to which each pair keeps where its transport ended, to begin there in the next pass.
_MOST_BYTES = 1 << 30


class TransportLoss:
    """The mean of ``-log p_i`` over rows, and its gradient in the logarithms of prototypes.

    Parameters
    ----------
    X : {ndarray, CSR matrix} of shape (n, n_bins)
        Histograms of sum 1.
    labels, own : ndarray of shape (n,), (n_prototypes,)
        Classes of the rows and of the prototypes.
    M, reg, gamma : ndarray, float, float
        Ground distance, weight of the entropy, sharpness.
    tol : float
        Of the marginals of transport.
    n_threads : int
        Number of threads.
    """

    def __init__(
        self,
        X: Matrix,
        labels: Labels,
        own: Labels,
        *,
        M: Float64,
        reg: float,
        gamma: float,
        tol: float,
        n_threads: int,
    ) -> None:
        self._X, self._labels, self._own = X, labels, own
        self._options = (M, reg, gamma, tol, MAX_ITER)
        self._n_threads = n_threads
        shape = (X.shape[0], len(own), X.shape[1])
        fits = 4 * np.prod(shape, dtype=np.float64) <= _MOST_BYTES
        self._starts = np.zeros(shape, dtype=np.float32) if fits else None
        self.error = 0.0
        """The largest error of a marginal in the last evaluation."""

    def __call__(self, weights: Float64, rows: Places | None) -> tuple[float, Float64]:
        """Return the mean over some rows, or all, and its gradient."""
        X, labels, starts = self._X, self._labels, self._starts
        if rows is not None:
            X, labels = X[rows], labels[rows]
            starts = None if starts is None else starts[rows]
        H = softmax(weights, axis=1).astype(X.dtype)
        loss, gradient, self.error = _histrs.histogram_compression_loss(
            to_core(X), labels, H, self._own, *self._options, starts, self._n_threads
        )
        if rows is not None and starts is not None and self._starts is not None:
            self._starts[rows] = starts
        return loss / len(labels), gradient / len(labels)
