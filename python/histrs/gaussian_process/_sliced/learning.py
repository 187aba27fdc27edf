"""Directions, and weights of kernels, of largest likelihood.

The recipe: a kernel of columns and one of projections, whose directions are drawn anew in the
metric that the gradients of the fit before make (Radhakrishnan et al., "Mechanism for feature
learning in neural networks and backpropagation-free machine learning models", Science, 2024), and
added.
"""

from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, optimize
from scipy.linalg import lapack

from histrs import _histrs
from histrs._solvers.block_cg import Array
from histrs._solvers.cholesky import factorise_in_place
from histrs._threads import blas_threads_at_most
from histrs.kernel_approximation._sliced_distance import draw_directions, offsets

Indices: TypeAlias = NDArray[np.intp]

# Logarithms of the ratio of signal to noise, of each kernel.
_START = 2.0
_BOUNDS = (-9.0, 16.0)
_WARM_BOUNDS = (-3.0, 12.0)
_MAX_ITER = 25
# L-BFGS takes first steps of its own size: a slope of this size a sample.
_STEEPNESS = 4.0


@dataclass
class Projections:
    """Directions with the non-negative projections of the training rows on them."""

    W: Array
    """Directions, of shape (n_columns, n_directions)."""
    low: Array
    """What is subtracted."""
    T: Array = field(repr=False)
    """Projections of the training rows."""
    K: Array = field(repr=False)
    """Their kernel matrix, divided by `scale`."""
    scale: float
    """Its mean diagonal once its mean is taken away; 1 where nothing is left."""

    @classmethod
    def of(cls, A: Array, W: Array, n_threads: int) -> "Projections":
        """Project rows on directions."""
        T = A @ W
        low = offsets(T)
        T = np.ascontiguousarray(np.maximum(T - low, 0.0))
        K = _histrs.intersection_gram(T, None, n_threads)
        scale = float(np.trace(K) / len(K) - K.mean())
        if not scale > 1e-12 * float(np.trace(K)) / len(K):
            scale = 1.0
        return cls(W, low, T, K / scale, scale)

    def slopes(self, alpha: Array) -> Array:
        """Return the slopes by the projections of `K alpha`, at the training rows."""
        slopes = np.empty((*self.T.shape, alpha.shape[1]))
        for p, t in enumerate(self.T.T):
            order = np.argsort(t, kind="stable")
            above = np.zeros((len(t) + 1, alpha.shape[1]))
            above[:-1] = np.cumsum(alpha[order][::-1], axis=0)[::-1]
            slopes[:, p] = above[np.searchsorted(t[order], t, side="right")]
        return slopes / self.scale


@dataclass(frozen=True)
class Fit:
    """A fit of some kernels: logarithms of signal over noise, and what they lead to."""

    theta: Array
    noise: Array
    """Noise variance of each target."""
    alpha: Array
    """Weights of the training rows, of shape (n_samples, n_targets), noise counted in."""


def likeliest(kernels: list[Array], Y: Array, start: Array) -> Array:
    r"""Return `theta` of largest likelihood of :math:`\sigma^2 (\sum_g e^{\theta_g} K_g + I)`.

    The scale :math:`\sigma^2` of each target has a closed form.
    """
    n, n_targets = Y.shape

    def objective(theta: Array) -> tuple[float, Array]:
        try:
            L = _factor(kernels, theta)
        except linalg.LinAlgError:
            return 1e3, np.zeros(len(theta))
        log_det = 2.0 * float(np.log(np.diag(L)).sum())
        alpha = lapack.dpotrs(L, Y, lower=1)[0]
        inverse = lapack.dpotri(L, lower=1, overwrite_c=1)[0]
        noise = np.maximum(np.einsum("ij,ij->j", Y, alpha) / n, np.finfo(np.float64).tiny)
        gradient = np.empty(len(theta))
        scaled = alpha / np.sqrt(noise)
        for g, (t, K) in enumerate(zip(theta, kernels, strict=True)):
            data = float(np.sum(scaled * (K @ scaled)))
            # Of the inverse, LAPACK fills the lower triangle alone.
            trace = 2.0 * _lower_product(inverse, K) - float(np.diag(inverse) @ np.diag(K))
            gradient[g] = -0.5 * np.exp(t) * (data - n_targets * trace)
        value = 0.5 * n * float(np.log(noise).sum()) + 0.5 * n_targets * log_det
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


def fit_kernels(kernels: list[Array], Y: Array, start: Array, some: Indices) -> Fit:
    """Return the fit whose `theta` is the likeliest for some of the rows."""
    if len(some) == len(Y):
        theta = likeliest(kernels, Y, start)
    else:
        theta = likeliest([K[np.ix_(some, some)] for K in kernels], Y[some], start)
    while True:
        try:
            L = _factor(kernels, theta)
            break
        except linalg.LinAlgError:
            # More noise makes any kernel matrix definite.
            theta = theta - 1.0
    alpha = lapack.dpotrs(L, Y, lower=1)[0]
    return Fit(theta, np.einsum("ij,ij->j", Y, alpha) / len(Y), alpha)


def _factor(kernels: list[Array], theta: Array) -> Array:
    weights = np.exp(theta)
    R = weights[0] * kernels[0]
    term = np.empty_like(R)
    for weight, K in zip(weights[1:], kernels[1:], strict=True):
        R += np.multiply(weight, K, out=term)
    R[np.diag_indices_from(R)] += 1.0
    # The transpose has the order that LAPACK wants, and is the same matrix.
    return factorise_in_place(R.T)


def _lower_product(inverse: Array, K: Array) -> float:
    """Return the sum of products of the lower triangles, a few columns at a time."""
    total = 0.0
    for start in range(0, len(K), 256):
        part = inverse[start:, start : start + 256]
        total += float(np.sum(np.tril(part) * K[start:, start : start + 256]))
    return total


@dataclass
class Learned:
    """What the recipe ends with."""

    sets: list[Projections]
    columns: Projections
    fit: Fit
    G: Array
    """Mean outer product of gradients, of trace `n_columns`; the identity before any step."""

    @property
    def weights(self) -> Array:
        """Weights of all projections, set after set, and of the columns behind them."""
        slices, columns = np.exp(self.fit.theta)
        parts = [np.full(s.T.shape[1], slices / (len(self.sets) * s.scale)) for s in self.sets]
        return np.concatenate(
            [*parts, np.full(self.columns.T.shape[1], columns / self.columns.scale)]
        )


def learn_metric(
    A: Array,
    Y: Array,
    *,
    n_directions: int,
    n_steps: int,
    n_searched: int,
    random: np.random.RandomState,
    n_threads: int,
) -> Learned:
    """Learn directions and weights from standardised rows and targets.

    Parameters
    ----------
    A : ndarray of shape (n_samples, n_columns)
        Standardised columns.
    Y : ndarray of shape (n_samples, n_targets)
        Standardised targets.
    n_directions : int
        Directions of each set.
    n_steps : int
        Steps of the metric, each of which adds a set.
    n_searched : int
        Rows that the likelihood is of, at most; gradients are of all.
    random : RandomState
        Draws the directions, and these rows.
    n_threads : int
        Threads of the core.
    """
    n, d = A.shape
    some = np.arange(n)
    if n > n_searched:
        some = np.sort(random.choice(n, n_searched, replace=False))
    columns = Projections.of(A, np.eye(d), n_threads)
    W = draw_directions(d, n_directions, "orthogonal", random)
    sets = [Projections.of(A, W, n_threads)]
    total = sets[0].K
    theta = np.full(2, _START)
    G = np.eye(d)
    fit = fit_kernels([total, columns.K], Y, theta, some)
    for _ in range(n_steps):
        gradient = sum(np.einsum("ipc,dp->icd", s.slopes(fit.alpha), s.W) for s in sets)
        rows = gradient.reshape(-1, d)
        outer = rows.T @ rows
        trace = float(np.trace(outer))
        if not trace > 0.0:
            break
        G = outer * (d / trace)
        W = matrix_root(G) @ draw_directions(d, n_directions, "orthogonal", random)
        sets.append(Projections.of(A, W, n_threads))
        total = total + (sets[-1].K - total) / len(sets)
        start = np.clip(fit.theta, *_WARM_BOUNDS)
        fit = fit_kernels([total, columns.K], Y, start, some)
    return Learned(sets, columns, fit, G)


def matrix_root(G: Array) -> Array:
    """Return the symmetric square root of a positive semi-definite matrix."""
    values, vectors = np.linalg.eigh(G)
    root: Array = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    return root
