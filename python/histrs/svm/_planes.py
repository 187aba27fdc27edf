"""The cutting planes of one problem, and the model that they determine."""

from __future__ import annotations

from typing import Self

import numpy as np

from histrs import _histrs
from histrs._checks.scale import check_steps
from histrs._typing import Array
from histrs.svm._interior_point import simplex_maximum

# A plane that has had no part in so many optima in a row is removed.
_IDLE = 30
# Exchanges of weights before the interior-point method, which takes the time of some thousands.
_MAX_EXCHANGES = 20_000
_VANISHING = 1e-12


class Planes:
    r"""Planes :math:`b_i - \langle a_i, v \rangle` below a loss, and the dual on the simplex.

    The model that minimises :math:`\frac\lambda2 v^T K^+ v + \max_i b_i - \langle a_i, v \rangle`
    is :math:`v = K A \alpha / \lambda`, where :math:`\alpha` maximises
    :math:`b^T \alpha - \alpha^T A^T K A \alpha / (2 \lambda)` on the simplex. The argument `alpha`
    is :math:`\lambda`.
    """

    def __init__(self, width: int, alpha: float) -> None:
        self._lambda = alpha
        self._products = np.empty((8, width))  # rows K a_i, with room to spare
        self._gram = np.empty((8, 8))
        self._b = np.empty(0)
        self._idle = np.empty(0, dtype=np.intp)
        self.weights = np.empty(0)
        """The dual variables."""
        self.at_best = np.empty(0)
        """The products of the planes with the best model so far."""

    def __len__(self) -> int:
        return len(self._b)

    def add(self, a: Array, product: Array, b: float, at_best: float) -> None:
        """Add the plane `b - a . v`, with `K a` and its product with the best model."""
        n = len(self)
        if n == len(self._products):
            self._products = np.concatenate([self._products, np.empty_like(self._products)])
            gram = np.empty((2 * n, 2 * n))
            gram[:n, :n] = self._gram
            self._gram = gram
        self._products[n] = product
        self._gram[n, : n + 1] = self._products[: n + 1] @ a
        self._gram[:n, n] = self._gram[n, :n]
        self._b = np.append(self._b, b)
        self._idle = np.append(self._idle, 0)
        self.weights = np.append(self.weights, 0.0 if n else 1.0)
        self.at_best = np.append(self.at_best, at_best)

    def with_alpha(self, alpha: float) -> Self:
        """Return the same planes for another strength of the regulariser; these are used up."""
        self._lambda = alpha
        return self

    def solve(self, tol: float, n_threads: int) -> float:
        """Find the weights to a tolerance; return the value of the dual, a lower bound."""
        n = len(self)
        gram = self._gram[:n, :n].copy()
        gram /= self._lambda
        check_steps(gram, self._b)
        arguments = tol, _MAX_EXCHANGES, n_threads
        self.weights, gap = _histrs.svm_simplex_maximum(gram, self._b, self.weights, *arguments)
        if gap > tol:
            inner = simplex_maximum(gram, self._b, tol / 2)
            # Weights below a rounding vanish, and so their planes get idle.
            inner[inner < _VANISHING * inner.max()] = 0.0
            inner, inner_gap = _histrs.svm_simplex_maximum(
                gram, self._b, inner / inner.sum(), *arguments
            )
            if inner_gap < gap:
                self.weights = inner
        self._idle = np.where(self.weights > 0, 0, self._idle + 1)
        return float(self._b @ self.weights - self.square() * self._lambda / 2)

    def remove_idle(self) -> None:
        """Forget planes that have had no part for long."""
        kept = np.flatnonzero(self._idle < _IDLE)
        n = len(kept)
        if n == len(self):
            return
        self._products[:n] = self._products[kept]
        self._gram[:n, :n] = self._gram[np.ix_(kept, kept)]
        self._b, self._idle = self._b[kept], self._idle[kept]
        self.weights, self.at_best = self.weights[kept], self.at_best[kept]

    def model(self) -> Array:
        """Return the model of the weights."""
        used = np.flatnonzero(self.weights)
        v: Array = (self.weights[used] / self._lambda) @ self._products[used]
        return v

    def at_model(self) -> Array:
        """Return the products of the planes with the model of the weights."""
        n = len(self)
        product: Array = self._gram[:n, :n] @ self.weights / self._lambda
        return product

    def square(self) -> float:
        """Return `v^T K^+ v` of the model of the weights."""
        return max(0.0, float(self.weights @ self.at_model()) / self._lambda)

    def with_best(self) -> float:
        """Return `v^T K^+ u` of the model and the best one."""
        return float(self.weights @ self.at_best) / self._lambda
