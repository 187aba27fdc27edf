"""Blends of members: weights, and probabilities, by what they say of rows that are left out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize, nnls
from scipy.special import log_softmax, softmax

from histrs._typing import Array

# Members of less weight are dropped.
_LEAST_WEIGHT = 0.02
# Rows that equal weights of members count for.
_EVEN = 1.0
# How much more it counts that weights sum to one.
_SUM = 1e4
# Rows that a score is as sure of as it can be, beside all.
_RESOLUTION = 2.0
# Slope of logits that few rows have, and inverse variances of slopes about it, of those of single
# classes about that, and of levels.
_SLOPE = 0.5
_RIDGES = (2.0, 5.0, 4.0)


def simplex_weights(
    targets: Array,
    means: Array,
    row_weights: Array | None,
    handicaps: Sequence[float] | None = None,
) -> Array:
    r"""Return the weights on the simplex with the least squared error of rows that are left out.

    They minimise :math:`\sum_i (t_i - \sum_k w_k \mu_{ik})^2` (Breiman, "Stacked regressions",
    1996), with a little for equal weights.

    Parameters
    ----------
    targets : ndarray of shape (n_rows,)
        Targets.
    means : ndarray of shape (n_rows, n_members)
        What each member says of rows that it has not seen.
    row_weights : ndarray of shape (n_rows,) or None
        Weights of rows.
    handicaps : sequence of float, default=None
        What squared errors are multiplied by: of few rows, a member with many parameters is not
        as good as it seems, since all rows had a say in these. None for 1.
    """
    k = means.shape[1]
    root = np.ones(len(targets)) if row_weights is None else np.sqrt(row_weights)
    # Weights sum to one, so that errors of members are all there is to know.
    errors = root[:, None] * (targets[:, None] - means)
    if handicaps is not None:
        errors = errors * np.sqrt(handicaps)
    largest = float(np.max(np.abs(errors), initial=0.0))
    if largest == 0.0:
        return np.full(k, 1.0 / k)
    normal = (errors / largest).T @ (errors / largest)
    # In units of the best member's error on one row.
    even = _EVEN * max(float(np.min(np.diag(normal))) / len(targets), np.finfo(np.float64).tiny)
    normal[np.diag_indices_from(normal)] += even
    large = _SUM * float(np.trace(normal))
    root_of_normal = np.linalg.cholesky(normal).T
    A = np.vstack([root_of_normal, np.full((1, k), np.sqrt(large))])
    b = np.append(even / k * np.linalg.solve(root_of_normal.T, np.ones(k)), np.sqrt(large))
    weights = nnls(A, b)[0]
    return np.asarray(weights / weights.sum())


def kept_weights(weights: Array) -> tuple[NDArray[np.intp], Array]:
    """Return which members have a weight that is worth them, and the weights of these."""
    kept = np.flatnonzero(weights >= _LEAST_WEIGHT)
    return kept, weights[kept] / weights[kept].sum()


def mixture_moments(means: Array, variances: Array, weights: Array) -> tuple[Array, Array]:
    """Return means and variances of a mixture, of its members' in columns."""
    mean = means @ weights
    return mean, (variances + (means - mean[:, None]) ** 2) @ weights


class ClassPool:
    r"""Probabilities of classes from the scores of a blend.

    With :math:`\ell(p) = \log p - \log(1 - p)` of a score, clipped,

    .. math:: p_k \propto f_k \exp\Big(b_k + \sum_j (\beta_j + \beta_{jk}) \phi_{jk}\Big), \qquad
              \phi_k = (\ell(s_k) - \ell(f_k),\ s_k - f_k)

    This is a conditional logit: most of a coefficient is shared by the classes. Ridges pull the
    shared part to a weak slope, and the rest to zero. A row that is left out is beside frequencies
    without it, so that a score that says nothing adds nothing.

    Parameters
    ----------
    scores : ndarray of shape (n_rows, n_outputs)
        What is said of rows that were left out, as probabilities: of the second class of two, or of
        each.
    codes : ndarray of shape (n_rows,)
        Classes.
    row_weights : ndarray of shape (n_rows,) or None
        Weights of rows.
    stays : ndarray of shape (n_rows,), default=None
        What part of each row was not left out; None for 0.
    """

    def __init__(
        self,
        scores: Array,
        codes: NDArray[np.intp],
        row_weights: Array | None,
        stays: Array | None = None,
    ) -> None:
        scores = _of_classes(scores)
        n, n_classes = scores.shape
        w = np.ones(n) if row_weights is None else row_weights
        seen = w[:, None] * (codes[:, None] == np.arange(n_classes))
        counts, total = seen.sum(axis=0), w.sum()
        self._least = _RESOLUTION / (total + 2.0 * _RESOLUTION)
        self.frequencies = counts / total
        self._base = np.log(counts + 1.0) - np.log(total + n_classes)
        gone = (w if stays is None else (1.0 - stays) * w)[:, None]
        others = counts - gone * (seen > 0.0)
        others /= np.maximum(total - gone, np.finfo(np.float64).tiny)
        columns = self._columns(scores, others)
        start = np.append(_SLOPE, np.zeros(1 + 3 * n_classes))
        ridge = np.repeat(_RIDGES, [2, 2 * n_classes, n_classes])

        def loss(parameters: Array) -> tuple[float, Array]:
            logs = log_softmax(self._logits(columns, parameters), axis=1)
            off = w[:, None] * np.exp(logs) - seen
            own = np.einsum("ik,ikj->kj", off, columns)
            slopes = np.concatenate([own.sum(axis=0), own.ravel(), off.sum(axis=0)])
            pull = ridge * (parameters - start)
            value = 0.5 * pull @ (parameters - start) - np.vdot(seen, logs)
            return float(value), slopes + pull

        # No score is believed the other way round.
        bounds = [(0.0, None)] * 2 + [(None, None)] * (3 * n_classes)
        found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds)
        self._parameters: Array = found.x

    def _columns(self, scores: Array, frequencies: Array) -> Array:
        """Return what is linear in the parameters, of shape (n_rows, n_classes, n_columns)."""
        logits = self._logit(scores) - self._logit(frequencies)
        return np.stack([logits, scores - frequencies], axis=2)

    def _logit(self, p: Array) -> Array:
        inside = np.clip(p, self._least, 1.0 - self._least)
        return np.asarray(np.log(inside) - np.log1p(-inside))

    def _logits(self, columns: Array, parameters: Array) -> Array:
        shared, own, levels = np.split(parameters, [2, len(parameters) - len(self._base)])
        slopes = shared + own.reshape(-1, 2)
        return np.asarray(self._base + levels + np.einsum("ikj,kj->ik", columns, slopes))

    def loss(self, scores: Array, codes: NDArray[np.intp], row_weights: Array | None) -> float:
        """Return the log loss of rows."""
        P = self.probabilities(scores)[np.arange(len(codes)), codes]
        logs = np.log(np.maximum(P, np.finfo(np.float64).tiny))
        return -float(np.average(logs, weights=row_weights))

    def probabilities(self, scores: Array) -> Array:
        """Return probabilities of classes."""
        scores = _of_classes(scores)
        base = np.broadcast_to(self.frequencies, (len(scores), len(self.frequencies)))
        columns = self._columns(scores, base)
        return np.asarray(softmax(self._logits(columns, self._parameters), axis=1))


def _of_classes(scores: Array) -> Array:
    """Return scores of each class."""
    return np.hstack([1.0 - scores, scores]) if scores.shape[1] == 1 else scores
