"""Blends of members: weights, and probabilities, by what they say of rows that are left out."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls
from sklearn.linear_model import LogisticRegression

from histrs._typing import Array

# Rows that equal weights of members count for.
_EVEN = 1.0
# How much more it counts that weights sum to one.
_SUM = 1e4
# Part of the rows below which scores have the slope of the lower ones.
_BEND = 0.8
# Probabilities between which scores are turned into logits.
_LEAST = 0.02
# Inverse strength of the ridge, and the scale of the scores of single members beside their mean's.
_RIDGE = 0.1
_OF_MEMBERS = 0.3


def simplex_weights(
    targets: Array, means: Array, row_weights: Array | None, handicaps: Array | None = None
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
    handicaps : ndarray of shape (n_members,), default=None
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


def mixture_moments(means: Array, variances: Array, weights: Array) -> tuple[Array, Array]:
    """Return means and variances of a mixture, of its members' in columns."""
    mean = means @ weights
    return mean, (variances + (means - mean[:, None]) ** 2) @ weights


class ClassPool:
    """Probabilities of classes from the scores of all members.

    Scores, each bent at a high one, and the logits of scores as probabilities are columns of a
    multinomial logistic regression with a ridge: those of the members' mean, and of each.

    Parameters
    ----------
    scores : ndarray of shape (n_rows, n_members, n_outputs)
        What members say of rows that they have not seen, as probabilities: of the second class of
        two, or of each.
    codes : ndarray of shape (n_rows,)
        Classes.
    row_weights : ndarray of shape (n_rows,) or None
        Weights of rows.
    """

    def __init__(self, scores: Array, codes: NDArray[np.intp], row_weights: Array | None) -> None:
        mean = scores.mean(axis=1)
        self._bends = [np.quantile(part, _BEND, axis=0) for part in (mean, _flat(scores))]
        columns = self._columns(scores)
        self._centre, self._scale = columns.mean(axis=0), columns.std(axis=0) + 1e-9
        self._scale[3 * mean.shape[1] :] /= _OF_MEMBERS
        standard = (columns - self._centre) / self._scale
        model = LogisticRegression(C=_RIDGE, max_iter=1000)
        self._model = model.fit(standard, codes, sample_weight=row_weights)

    def _columns(self, scores: Array) -> Array:
        parts = scores.mean(axis=1), _flat(scores)
        bent = zip(parts, self._bends, strict=True)
        return np.hstack([_columns_of(part, bend) for part, bend in bent])

    def loss(self, scores: Array, codes: NDArray[np.intp], row_weights: Array | None) -> float:
        """Return the log loss of rows."""
        P = self.probabilities(scores)[np.arange(len(codes)), codes]
        logs = np.log(np.maximum(P, np.finfo(np.float64).tiny))
        return -float(np.average(logs, weights=row_weights))

    def probabilities(self, scores: Array) -> Array:
        """Return probabilities of classes."""
        standard = (self._columns(scores) - self._centre) / self._scale
        return np.asarray(self._model.predict_proba(standard))


def _flat(scores: Array) -> Array:
    return scores.reshape(len(scores), -1)


def _columns_of(scores: Array, bend: Array) -> Array:
    inside = np.clip(scores, _LEAST, 1.0 - _LEAST)
    logits = np.log(inside) - np.log1p(-inside)
    return np.hstack([scores, np.maximum(scores - bend, 0.0), logits])
