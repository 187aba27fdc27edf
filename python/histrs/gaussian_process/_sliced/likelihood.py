"""Signal variances of kernels, and noise, of largest likelihood."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy import linalg, optimize
from scipy.linalg import lapack

from histrs._solvers.cholesky import factorise_in_place
from histrs._solvers.row_scale import scale_both_sides, scaled
from histrs._threads import blas_threads_at_most
from histrs._typing import Array
from histrs.gaussian_process._sliced.projections import (
    Group,
    Indices,
    kernel_matrix,
    weights_and_kinds,
)

# Logarithms of the ratio of signal to noise, of each kernel.
_BOUNDS = (-9.0, 16.0)
_MAX_ITER = 25
# L-BFGS takes first steps of its own size: a slope of this size a sample.
_STEEPNESS = 4.0


@dataclass(frozen=True)
class Fit:
    """A fit of some groups: logarithms of signal over noise, and what they lead to."""

    theta: Array
    noise: Array
    """Noise variance of each target."""
    alpha: Array
    """Weights of the training rows, of shape (n_samples, n_targets), noise counted in."""
    L: Array = field(repr=False)
    """Lower Cholesky factor of the fit's matrix, in the scale of rows."""


def likeliest(kernels: list[Array], Y: Array, start: Array, n_repeats: float = 0.0) -> Array:
    r"""Return `theta` of largest likelihood of :math:`\sigma^2 (\sum_g e^{\theta_g} K_g + I)`.

    The scale :math:`\sigma^2` of each target has a closed form. `n_repeats` rows equal others in
    all but their noise.
    """
    n, n_targets = Y.shape
    n_all = n + n_repeats
    # Of the inverse, LAPACK fills one triangle alone; what is beside the diagonal counts twice.
    triangles = [_twice_above(K) for K in kernels]

    def objective(theta: Array) -> tuple[float, Array]:
        try:
            L = _factor(kernels, theta)
        except linalg.LinAlgError:
            return 1e3, np.zeros(len(theta))
        log_det = 2.0 * float(np.log(np.diag(L)).sum())
        alpha = lapack.dpotrs(L, Y, lower=1)[0]
        inverse = lapack.dpotri(L, lower=1, overwrite_c=1)[0]
        noise = np.maximum(np.einsum("ij,ij->j", Y, alpha) / n_all, np.finfo(np.float64).tiny)
        gradient = np.empty(len(theta))
        scaled = alpha / np.sqrt(noise)
        for g, (t, K, triangle) in enumerate(zip(theta, kernels, triangles, strict=True)):
            data = float(np.sum(scaled * (K @ scaled)))
            # The transpose has the layout of the triangle.
            trace = float(np.vdot(inverse.T, triangle))
            gradient[g] = -0.5 * np.exp(t) * (data - n_targets * trace)
        value = 0.5 * n_all * float(np.log(noise).sum()) + 0.5 * n_targets * log_det
        scale = _STEEPNESS / (n * n_targets)
        return scale * value, scale * gradient

    # On matrices of this size, BLAS's threads mostly wait for one another.
    with blas_threads_at_most(1):
        result = optimize.minimize(
            objective,
            start,
            jac=True,
            method="L-BFGS-B",
            bounds=[_BOUNDS] * len(kernels),
            options={"maxiter": _MAX_ITER, "ftol": 2e-5, "gtol": 2e-3},
        )
    theta: Array = result.x
    return theta


def _twice_above(K: Array) -> Array:
    """Return a symmetric matrix with twice what is above the diagonal, and zeros below."""
    triangle = 2.0 * np.triu(K)
    triangle[np.diag_indices_from(K)] *= 0.5
    return triangle


def leave_one_out_cost(kernels: list[Array], theta: Array, Y: Array) -> float:
    r"""Return how badly rows are predicted by the fit of the others, in logarithms.

    The mean over targets of the negative log density of the left-out values (Rasmussen and
    Williams, 2006, equations 5.10 to 5.12) and of the logarithm of their root mean square error:
    a likelihood may like wrong means with honest variances, and an error knows no variances.
    """
    # On matrices of this size, BLAS's threads mostly wait for one another.
    with blas_threads_at_most(1):
        try:
            L = _factor(kernels, theta)
        except linalg.LinAlgError:
            return np.inf
        alpha = lapack.dpotrs(L, Y, lower=1)[0]
        noise = np.maximum(np.einsum("ij,ij->j", Y, alpha) / len(Y), np.finfo(np.float64).tiny)
        inverse = np.diag(lapack.dpotri(L, lower=1, overwrite_c=1)[0])[:, None]
    errors, variances = alpha / inverse, noise / inverse
    density = 0.5 * np.mean(errors**2 / variances + np.log(variances))
    squares = np.maximum(np.mean(errors**2, axis=0), np.finfo(np.float64).tiny)
    return float(density + 0.5 * np.mean(np.log(squares)))


def fit_of(
    groups: list[Group],
    theta: Array,
    Y: Array,
    some: Indices,
    n_threads: int,
    row_scale: Array | None = None,
    n_repeats: float = 0.0,
) -> Fit:
    """Return the fit of all rows under these logarithms of signal over noise.

    `Y` are targets times the scale of rows, as the kernels of the searched rows are.
    """
    while True:
        try:
            if len(some) == len(Y):
                L = _factor([group.K for group in groups], theta)
            else:
                L = factorise_in_place(_matrix(groups, theta, n_threads, row_scale).T)
            break
        except linalg.LinAlgError:
            # More noise makes any kernel matrix definite.
            theta = theta - 1.0
    alpha = lapack.dpotrs(L, Y, lower=1)[0]
    noise = np.einsum("ij,ij->j", Y, alpha) / (len(Y) + n_repeats)
    return Fit(theta, noise, scaled(row_scale, alpha), L)


def _matrix(
    groups: Sequence[Group], theta: Array, n_threads: int, row_scale: Array | None
) -> Array:
    """Return the weighted kernel matrix of all rows, noise counted in."""
    T = np.hstack([s.T for group in groups for s in group.sets])
    R = kernel_matrix(T, *weights_and_kinds(groups, theta), n_threads)
    scale_both_sides(row_scale, R)
    R[np.diag_indices_from(R)] += 1.0
    return R


def _factor(kernels: list[Array], theta: Array) -> Array:
    weights = np.exp(theta)
    R = weights[0] * kernels[0]
    term = np.empty_like(R)
    for weight, K in zip(weights[1:], kernels[1:], strict=True):
        R += np.multiply(weight, K, out=term)
    R[np.diag_indices_from(R)] += 1.0
    # The transpose has the order that LAPACK wants, and is the same matrix.
    return factorise_in_place(R.T)
