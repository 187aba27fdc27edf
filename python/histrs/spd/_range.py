"""The directions in which all covariance matrices have variance."""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import _fit_context
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from histrs._checks.scale import check_computed, exponent_of, may_overflow
from histrs._checks.validation import check_array, unchanged_on_error
from histrs._estimator import documented
from histrs.spd._base import StackProjection, congruence
from histrs.spd._docs import MATRICES
from histrs.spd._logarithms import Float64
from histrs.spd._stack import STACK_CHECKS, Stack, symmetric

# Sums of projections on null spaces have eigenvalues of at least 1 / n_samples where there is a
# null direction, and of the square of a rounding error elsewhere.
_NOISE = 1e-12


@documented(MATRICES)
class CommonRange(StackProjection):
    r"""Projection of covariance matrices on their common range.

    Some signals were re-referenced to their average, or have interpolated channels. Their
    covariances are singular, and no distance in `histrs.metrics` is defined between them. With an
    orthonormal basis :math:`B` of the intersection of the ranges of the training matrices,
    :math:`B^T X B` are positive definite, and nothing but directions without variance is lost.

    Parameters
    ----------
    tol : float or None, default=None
        Eigenvalues up to `tol` times the largest of a matrix count as zero, once every channel has
        unit variance in the mean. None is ``4 * p * eps`` of the precision of `X`: for data that
        were in single precision before, give 1e-6.

    Attributes
    ----------
    components_ : ndarray of shape (p, rank)
        :math:`B`; the identity where all matrices have full rank.
    rank_ : int
        Its number of columns.
    {n_features_in_}

    See Also
    --------
    Covariances : Shrinkage fills directions without variance with noise instead.
    project_to_spd : Raises each eigenvalue that is too small.

    Examples
    --------
    >>> import numpy as np
    >>> from histrs.spd import CommonRange, Covariances
    >>> trials = np.random.default_rng(0).standard_normal((10, 8, 256))
    >>> trials -= trials.mean(axis=1, keepdims=True)  # average reference
    >>> C = Covariances("scm").fit_transform(trials)
    >>> CommonRange().fit_transform(C).shape
    (10, 7, 7)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "tol": [Interval(Real, 0, 1, closed="left"), None]
    }

    def __init__(self, tol: float | None = None) -> None:
        self.tol = tol

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:
        """Learn the common range.

        Parameters
        ----------
        X : array-like of shape (n_samples, p, p) or (n_samples, p * p)
            Symmetric positive semidefinite matrices.
        {no_y}

        {self}
        """
        with unchanged_on_error(self):
            stack = self._stack(X, reset=True, finite=True)
            tol = 4 * stack.shape[1] * float(np.finfo(stack.dtype).eps)
            self.components_ = _common_range(stack, tol if self.tol is None else float(self.tol))
            self.rank_ = self.components_.shape[1]
        return self

    def inverse_transform(self, X: ArrayLike) -> NDArray[Any]:
        """Return projected matrices to the space of the signals, where they are singular.

        Parameters
        ----------
        X : array-like of shape (n_samples, rank, rank)
            Projected matrices.

        Returns
        -------
        X_original : ndarray of shape (n_samples, p, p)
            :math:`B X B^T`, in the precision of `X`.

        Raises
        ------
        ValueError
            If `X` is not of this shape, not finite, or a matrix overflows (the message names it).
        """
        check_is_fitted(self)
        stack = check_array(X, **{**STACK_CHECKS, "ensure_all_finite": True})
        if stack.ndim != 3 or stack.shape[1:] != (self.rank_, self.rank_):
            raise ValueError(
                f"X has shape {stack.shape}: give matrices of shape (n, {self.rank_}, {self.rank_})"
                ", as transform returns them."
            )
        return congruence(self.components_.T, stack)

    def _projected(self, stack: Stack) -> Stack:
        return stack if self.rank_ == len(self.components_) else super()._projected(stack)


def _common_range(stack: Stack, tol: float) -> Float64:
    """Return an orthonormal basis of the intersection of the ranges of matrices."""
    wide = symmetric(stack.astype(np.float64))
    p = wide.shape[1]
    variances = np.diagonal(wide, axis1=1, axis2=2)
    if np.any(variances < 0.0):
        i, j = np.argwhere(variances < 0.0)[0]
        raise ValueError(
            f"X[{i}, {j}, {j}] = {variances[i, j]:.3g}: the variance of a channel is not negative; "
            "give covariance matrices."
        )
    # Null directions do not depend on the units of the channels: v is one of X as D v is of
    # D^-1 X D^-1. Their mean is of variances in a unit in which sums stay within the range.
    exponent = exponent_of(variances)
    mean = np.ldexp(np.ldexp(variances, -exponent).mean(axis=0), exponent)
    units = np.sqrt(np.where(mean > 0.0, mean, 1.0))
    with may_overflow():
        relative = wide / units / units[:, None]
    cure = "they are beyond the variances of its channels; give covariance matrices"
    check_computed(relative, "Covariances", cure)
    values, vectors = np.linalg.eigh(relative)
    null = values <= tol * values[:, -1:]
    if not null.any():
        return np.eye(p)
    # Their length does not matter, and squares of it must stay within the range.
    directions = vectors.transpose(0, 2, 1)[null] * (units.min() / units)
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    weights, basis = np.linalg.eigh(directions.T @ directions / len(wide))
    kept = basis[:, weights <= _NOISE * max(1.0, weights[-1])]
    if kept.shape[1] == 0:
        raise ValueError(
            "X has no direction in which all matrices have variance: each has a null space of its "
            "own, as covariances of fewer samples than channels have; shrink them, "
            'Covariances("oas").'
        )
    return np.asarray(kept[:, ::-1])
