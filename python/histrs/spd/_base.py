"""Estimators of stacks of matrices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted

from histrs._checks.scale import check_computed, may_overflow
from histrs._checks.validation import validate_data
from histrs._estimator import BaseEstimator
from histrs._weights import check_labels
from histrs.spd._logarithms import Float64
from histrs.spd._stack import STACK_CHECKS, Stack, flattened, is_stack, stacked, symmetric


class StackEstimator(BaseEstimator):
    """Takes matrices, stacked or flattened, and counts their entries as features."""

    _inputs: ClassVar[dict[str, bool]] = {"three_d_array": True}

    def _stack(self, X: ArrayLike, *, reset: bool = False, finite: bool = False) -> Stack:
        """Return matrices, checked; the core would name entries that are not `finite`."""
        if not reset:
            check_is_fitted(self)
        checks = {**STACK_CHECKS, "ensure_all_finite": finite}
        flat = flattened(X, None if reset else self)
        return stacked(validate_data(self, flat, reset=reset, **checks))

    def _stack_and_labels(
        self, X: ArrayLike, y: ArrayLike, *, reset: bool
    ) -> tuple[Stack, NDArray[Any]]:
        flat = flattened(X, None if reset else self)
        data, labels = validate_data(self, flat, y, reset=reset, **STACK_CHECKS)
        check_labels(labels)
        return stacked(data), labels

    def _made_of(self, X: ArrayLike, make: Callable[[Stack], Stack]) -> NDArray[Any]:
        """Return what is made of matrices, flattened as `X` is."""
        made = make(self._stack(X, finite=True))
        return made if is_stack(X) else made.reshape(len(made), -1)


class StackProjection(TransformerMixin, StackEstimator):
    """Makes smaller matrices of matrices."""

    components_: Float64

    def transform(self, X: ArrayLike) -> NDArray[Any]:
        r"""Project matrices.

        Parameters
        ----------
        X : array-like of shape (n_samples, p, p) or (n_samples, p * p)
            Symmetric matrices.

        Returns
        -------
        X_new : ndarray of shape (n_samples, n_components, n_components), or flattened as `X` was
            :math:`B^T X B` in the precision of `X`, with :math:`B` the columns of `components_`.
        """
        return self._made_of(X, self._projected)

    def _projected(self, stack: Stack) -> Stack:
        # In double precision: single would bring back what was removed.
        return congruence(self.components_, stack)


def congruence(W: Float64, stack: Stack, cure: str = "scale X down") -> Stack:
    """Return ``W^T X W`` of each matrix, computed in double precision, in that of `stack`."""
    with may_overflow():
        made = symmetric(np.swapaxes(W, -1, -2) @ stack.astype(np.float64) @ W)
        made = made.astype(stack.dtype)
    check_computed(made, "Entries", cure)
    return made
