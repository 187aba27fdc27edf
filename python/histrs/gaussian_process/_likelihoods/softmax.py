r"""The mode of latent functions, one per class, whose softmax is the probability of the classes.

With priors :math:`f_c \sim N(0, C)`, `C = a K + \beta 1 1^T`, and probabilities
:math:`\pi = \mathrm{softmax}(f)`, the likelihood of a row of weight `w` has the curvature
:math:`W = w (\mathrm{diag}(\pi) - \pi \pi^T)` (Rasmussen and Williams, 2006, section 3.5). A Newton
step solves

.. math:: (I + W C) \alpha = W f + w (t - \pi), \qquad f = C \alpha,

by conjugate gradients, preconditioned by factors of a matrix per class.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg
from scipy.special import log_softmax, softmax

from histrs._solvers.cholesky import factorise_in_place, inverse_of
from histrs._solvers.row_scale import scale_both_sides
from histrs._typing import Array
from histrs._weights import index_of_best
from histrs.gaussian_process._bound.all_pairs import check_memory
from histrs.gaussian_process._likelihoods.laplace import (
    BIAS_VARIANCE,
    LEAST_CURVATURE,
    MAX_STEPS,
    Mode,
    at_curvature,
    regress,
    step_along,
    weights_or_ones,
)
from histrs.gaussian_process._systems.system import System

# Part of the right-hand side that a Newton step leaves, and its most iterations.
_OF_STEP = 0.1
_MAX_ITER = 1000
# Iterations that tell that factors are of probabilities too far away.
_STALE = 12
# Rows whose covariances are computed at a time, at most, and numbers that they take.
_ROWS = 256
_NUMBERS = 2**24


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
        return np.asarray(self._root_w * (self._root_P * y - self._P * taken))

    def transposed(self, u: Array) -> Array:
        """Return `R^T u`."""
        taken = np.sum(self._P * u, axis=1, keepdims=True)
        return np.asarray(self._root_w * self._root_P * (u - taken))


def curvature_of(P: Array, w: Array) -> Array:
    # 1 - pi, without the digits that are lost where one is certain.
    others = P.sum(axis=1, keepdims=True) - P
    return np.asarray(np.maximum(w[:, None] * P * others, LEAST_CURVATURE))


def factor_of(C: Array, root: Array) -> Array:
    """Return the lower factor of `I + diag(root) C diag(root)`; what is above it says nothing."""
    B = np.array(C, order="F")
    scale_both_sides(root, B)
    B[np.diag_indices_from(B)] += 1.0
    return factorise_in_place(B)


@dataclass(frozen=True)
class SoftmaxMode:
    """The mode of the functions of all classes at the training rows."""

    alpha: Array
    """`C^-1 f`, a column per class."""
    f: Array
    probabilities: Array
    residual: float
    """Largest entry of `w (t - pi) - alpha`, which is 0 at the mode."""
    n_steps: int
    log_posterior: float
    """`log p(t | f) + log p(f)` but for determinants."""


class SoftmaxPrior:
    """The prior of each class's function at the training rows, `a K` and a bias."""

    def __init__(self, kernel_matrix: Array, amplitude: float) -> None:
        self.covariance = amplitude * kernel_matrix + BIAS_VARIANCE

    def mode_at(self, alpha: Array) -> SoftmaxMode:
        """Return a mode that was found before."""
        alpha = _balanced(alpha)
        f = self.covariance @ alpha
        return SoftmaxMode(alpha, f, softmax(f, axis=1), 0.0, 0, 0.0)

    def find_mode(
        self,
        labels: NDArray[np.intp],
        n_classes: int,
        sample_weight: Array | None,
        tol: float,
        start: Array | None = None,
    ) -> SoftmaxMode:
        """Return the mode by Newton's method, from `start` as `alpha`, for indices of classes."""
        w = weights_or_ones(sample_weight, len(labels))
        C, rows = self.covariance, np.arange(len(labels))
        targets = np.zeros((len(labels), n_classes))
        targets[rows, labels] = 1.0

        def objective(alpha: Array, f: Array) -> float:
            of_labels = log_softmax(f, axis=1)[rows, labels]
            return float(w @ of_labels - 0.5 * np.sum(alpha * f))

        # Of weights that do not sum to 0 in a row, that part says nothing.
        zero = np.zeros_like(targets)
        alpha = zero if start is None else _balanced(start)
        f = C @ alpha
        value, at_zero = objective(alpha, f), objective(zero, zero)
        if value < at_zero:
            # Too far away for the curvature there to lead back.
            alpha, f, value = zero, zero.copy(), at_zero
        steps, stuck, last = 0, False, np.inf
        solver = NewtonSystem(C, w)
        while True:
            P = softmax(f, axis=1)
            gradient = w[:, None] * (targets - P)
            residual = float(np.max(np.abs(gradient - alpha), initial=0.0))
            # At 0 no probability is off by more than one, which a tolerance must not hide.
            done = residual <= tol and steps > 0
            done |= (stuck and residual > 0.5 * last) or steps == MAX_STEPS
            if done:
                return SoftmaxMode(alpha, f, P, residual, steps, value)
            last = residual
            along = solver.solve(P, gradient - alpha)
            (alpha, f), value, stuck = step_along(objective, (alpha, f), along, value)
            steps += 1

    def log_evidence(self, mode: SoftmaxMode, sample_weight: Array | None) -> float:
        r"""Return the log marginal likelihood by Laplace's approximation.

        With :math:`E_c = (C + D_c^{-1})^{-1}`, :math:`D_c = w \pi_c`, it is eq. 3.44 with
        :math:`|I + C W| = |\sum_c E_c| \prod_c |I + C D_c| / \prod_i w_i`.
        """
        w = weights_or_ones(sample_weight, len(mode.f))
        M, half, _ = self._inverses(mode, w)
        half += float(np.sum(np.log(np.diag(M)))) - 0.5 * float(np.sum(np.log(w)))
        return mode.log_posterior - half

    def left_out(
        self, mode: SoftmaxMode, sample_weight: Array | None, stays: Array | None = None
    ) -> Array:
        r"""Return the functions' means at each row by a fit without it, to first order.

        With the covariance :math:`\Sigma_i` of the functions of all classes at a row, what is left
        of it without the row's own likelihood is :math:`V_i = (\Sigma_i^{-1} - W_i)^{-1}`, and the
        mean is :math:`f_i - V_i w_i (t_i - \pi_i)`. A row of which a part stays loses the rest of
        :math:`w_i`.
        """
        w = weights_or_ones(sample_weight, len(mode.f))
        P, n_classes = mode.probabilities, mode.f.shape[1]
        M, _, inverses = self._inverses(mode, w)
        means = np.empty_like(mode.f)
        gone = np.ones(len(P)) if stays is None else 1.0 - stays
        gradient, w = gone[:, None] * mode.alpha, gone * w
        step = max(1, min(_ROWS, _NUMBERS // (n_classes * max(len(P), n_classes))))
        for start in range(0, len(P), step):
            rows = slice(start, start + step)
            S = self._covariances(rows, M, inverses)
            p = P[rows]
            W = -p[:, :, None] * p[:, None, :]
            W[:, range(n_classes), range(n_classes)] += p
            W *= w[rows, None, None]
            # (S^-1 - W)^-1 = S (I - W S)^-1
            pulled = np.linalg.solve(np.eye(n_classes) - W @ S, gradient[rows, :, None])
            means[rows] = mode.f[rows] - (S @ pulled)[:, :, 0]
        return means

    def _inverses(self, mode: SoftmaxMode, w: Array) -> tuple[Array, float, list[Array]]:
        """Return the factor of the sum of `E_c`, half of all `log |I + C D_c|`, and each `E_c`."""
        n = len(mode.f)
        total, half_log_det, inverses = np.zeros((n, n), order="F"), 0.0, []
        for column in np.maximum(w[:, None] * mode.probabilities, LEAST_CURVATURE).T:
            root = np.sqrt(column)
            L = factor_of(self.covariance, root)
            half_log_det += float(np.sum(np.log(np.diag(L))))
            E = inverse_of(L)
            scale_both_sides(root, E)
            total += E
            inverses.append(E)
        return factorise_in_place(total), half_log_det, inverses

    def _covariances(self, rows: slice, M: Array, inverses: list[Array]) -> Array:
        """Return the covariances of the classes' functions at some rows, (n_rows, C, C)."""
        C, n_classes = self.covariance, len(inverses)
        own = np.diag(C)[rows]
        shared = np.empty((n_classes, len(C), len(own)))
        diagonal = np.empty((len(own), n_classes))
        for c, E in enumerate(inverses):
            seen = E @ C[:, rows]
            diagonal[:, c] = own - np.einsum("ij,ij->j", C[:, rows], seen)
            shared[c] = linalg.blas.dtrsm(1.0, M, np.asfortranarray(seen), lower=1)
        S: Array = np.einsum("anj,bnj->jab", shared, shared, optimize=True)
        S[:, range(n_classes), range(n_classes)] += diagonal
        return S


def softmax_modes(
    base: System,
    Y: Array,
    sample_weight: Array | None,
    tol: float,
    start: Array | None,
    kernel_matrix: Array | None,
) -> list[Mode]:
    """Return the mode of each class's function, the others being what they are.

    Arguments are as of `laplace.find_mode`, with a column of targets for each class; without a
    kernel matrix, systems cannot be factorised, which is refused.
    """
    n, n_classes = Y.shape
    if kernel_matrix is None:
        raise ValueError(
            f"likelihood='softmax' factorises a matrix of {n} x {n} numbers for each of "
            f"{n_classes} classes. There are too many rows, or solver is not 'cholesky': choose "
            "likelihood='gaussian' or solver='cholesky'."
        )
    check_memory(n, 2 * n_classes + 2)
    prior = SoftmaxPrior(kernel_matrix, base.amplitude)
    first = None if start is None else start / base.amplitude
    mode = prior.find_mode(index_of_best(Y), n_classes, sample_weight, tol, first)
    curvatures = curvature_of(mode.probabilities, weights_or_ones(sample_weight, n))
    modes = []
    for f, gradient, curvature in zip(mode.f.T, mode.alpha.T, curvatures.T, strict=True):
        targets = f + gradient / curvature
        system = at_curvature(base, curvature, kernel_matrix)
        weights, bias, of_bias = regress(system, targets, tol)
        found = mode.residual, mode.n_steps, mode.log_posterior
        modes.append(Mode(system, targets, weights, bias, *found, of_bias))
    return modes


def loss_by_evidence(
    kernel_matrix: Array, Y: Array, sample_weight: Array | None, tol: float
) -> Callable[[float, Any], tuple[float, Any]]:
    """Return the evidence, negative, of a variance of the logit, as `best_amplitude` takes it."""
    labels, n_classes = index_of_best(Y), Y.shape[1]

    def loss(amplitude: float, start: Array | None) -> tuple[float, Array]:
        prior = SoftmaxPrior(kernel_matrix, amplitude)
        mode = prior.find_mode(labels, n_classes, sample_weight, tol, start)
        return -prior.log_evidence(mode, sample_weight), mode.alpha

    return loss


def evidence_of_softmax(
    base: System, Y: Array, sample_weight: Array | None, tol: float
) -> tuple[float, float]:
    """Return the log marginal likelihood by Laplace's approximation, and the mode's residual."""
    prior = SoftmaxPrior(base.kernel_matrix(), base.amplitude)
    mode = prior.find_mode(index_of_best(Y), Y.shape[1], sample_weight, tol)
    return prior.log_evidence(mode, sample_weight), mode.residual


def _balanced(V: Array) -> Array:
    return np.asarray(V - V.mean(axis=1, keepdims=True))
