"""The Newton steps towards the mode of a softmax likelihood."""

from __future__ import annotations

import numpy as np
from scipy import linalg

from histrs._solvers.cholesky import factorise_in_place
from histrs._solvers.row_scale import scale_both_sides
from histrs._typing import Array
from histrs.gaussian_process._likelihoods.laplace import (
    LEAST_CURVATURE,
)

# Part of the right-hand side that a Newton step leaves, and its most iterations.
_OF_STEP = 0.1
_MAX_ITER = 1000
# Iterations that tell that factors are of probabilities too far away.
_STALE = 12


class NewtonSystem:
    r"""`(I + W C) x = b`, with factors that are kept while they serve.

    With `W = R R^T`, row by row, it is :math:`x = b - R z` where
    :math:`(I + R^T C R) z = R^T C b`, whose eigenvalues are 1 at least, however singular `C` is.
    As :math:`W \le V = 2 \mathrm{diag}(W)`, and with :math:`N = V^{-1/2} R`, what they are
    preconditioned by, :math:`I - R^T (C^{-1} + V)^{-1} R = I - N^T N + N^T B^{-1} N`,
    :math:`B = I + V^{1/2} C V^{1/2}`, is positive definite, and `B` is a matrix per class.
    """

    def __init__(self, C: Array, w: Array) -> None:
        self._C = C
        self._w = w
        self._factors: list[Array] = []

    def solve(self, P: Array, b: Array) -> tuple[Array, Array]:
        """Return `x` and `C x` where probabilities are so."""
        curvature = _Curvature(P, self._w)
        if not self._factors:
            roots = np.sqrt(2.0 * curvature_of(P, self._w))
            self._factors = [factor_of(self._C, root) for root in roots.T]
        x, Cx, n_iter = self._conjugate_gradients(curvature, b)
        if n_iter > _STALE:
            self._factors = []
        return x, Cx

    def _conjugate_gradients(self, curvature: _Curvature, b: Array) -> tuple[Array, Array, int]:
        x, Cx = b, self._C @ b
        r = curvature.transposed(Cx)
        y = p = self._preconditioned(curvature, r)
        rho = float(np.sum(r * y))
        n_iter = 0
        # By what the step misses the maximum of the quadratic, nearly, and what it gains.
        while n_iter < _MAX_ITER and rho > 0.0:
            missed, gained = float(np.sum(r * r)) - rho, float(np.sum(b * Cx))
            if missed <= _OF_STEP**2 * gained:
                break
            root_p = curvature.root(p)
            C_root_p = self._C @ root_p
            Bp = p + curvature.transposed(C_root_p)
            step = rho / float(np.sum(p * Bp))
            x, Cx, r = x - step * root_p, Cx - step * C_root_p, r - step * Bp
            y = self._preconditioned(curvature, r)
            rho, last = float(np.sum(r * y)), rho
            p = y + rho / last * p
            n_iter += 1
        return x, self._C @ x, n_iter

    def _preconditioned(self, curvature: _Curvature, r: Array) -> Array:
        scaled = curvature.root(r) / curvature.scale
        seen = np.empty_like(scaled)
        for c, L in enumerate(self._factors):
            half = linalg.blas.dtrsv(L, scaled[:, c], lower=1)
            seen[:, c] = scaled[:, c] - linalg.blas.dtrsv(L, half, lower=1, trans=1)
        return r - curvature.transposed(seen / curvature.scale)


class _Curvature:
    """`W = R R^T` of every row."""

    def __init__(self, P: Array, w: Array) -> None:
        self._P = P
        self._root_P = np.sqrt(P)
        self._root_w = np.sqrt(w)[:, None]
        self.scale = np.sqrt(2.0 * curvature_of(P, w))
        """Roots of `V`."""

    def root(self, y: Array) -> Array:
        """Return `R y`."""
        taken = np.sum(self._root_P * y, axis=1, keepdims=True)
        found: Array = self._root_w * (self._root_P * y - self._P * taken)
        return found

    def transposed(self, u: Array) -> Array:
        """Return `R^T u`."""
        taken = np.sum(self._P * u, axis=1, keepdims=True)
        found: Array = self._root_w * self._root_P * (u - taken)
        return found


def curvature_of(P: Array, w: Array) -> Array:
    # 1 - pi, without the digits that are lost where one is certain.
    others = P.sum(axis=1, keepdims=True) - P
    curvature: Array = np.maximum(w[:, None] * P * others, LEAST_CURVATURE)
    return curvature


def factor_of(C: Array, root: Array) -> Array:
    """Return the lower factor of `I + diag(root) C diag(root)`; what is above it says nothing."""
    B = np.array(C, order="F")
    scale_both_sides(root, B)
    B[np.diag_indices_from(B)] += 1.0
    return factorise_in_place(B)
