"""Directions, and weights of kernels, of largest likelihood.

The recipe: a kernel of columns and one of projections, whose directions are drawn anew in the
metric that the gradients of the fit before make (Radhakrishnan et al., "Mechanism for feature
learning in neural networks and backpropagation-free machine learning models", Science, 2024), and
added. Pairs of columns that interact get directions in their own plane, each pair with a signal
variance of its own.
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
from histrs.gaussian_process._sliced.interactions import (
    N_DRAWS,
    Pair,
    interacting_pairs,
    plane_directions,
)
from histrs.kernel_approximation._sliced_distance import draw_directions, offsets

Indices: TypeAlias = NDArray[np.intp]

# Logarithms of the ratio of signal to noise, of each kernel.
_START = 2.0
_BOUNDS = (-9.0, 16.0)
_WARM_BOUNDS = (-3.0, 12.0)
_MAX_ITER = 25
# Interactions whose signal is less than this share of the noise are none.
_FAINT = -3.0
# What an interaction starts from.
_PAIR_START = 0.0
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
    """Kernel matrix of the searched rows, divided by `scale`."""
    scale: float
    """Its mean diagonal once its mean is taken away; 1 where nothing is left."""

    @classmethod
    def of(cls, A: Array, W: Array, n_threads: int, some: Indices | None = None) -> "Projections":
        """Project rows on directions; `some` are the searched rows, all by default."""
        T = A @ W
        low = offsets(T)
        T = np.ascontiguousarray(np.maximum(T - low, 0.0))
        K = _histrs.intersection_gram(T if some is None else T[some], None, n_threads)
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


@dataclass
class Group:
    """Sets of projections with one signal variance, which is that of their mean kernel."""

    sets: list[Projections]
    K: Array = field(repr=False)
    """Mean kernel matrix of the searched rows."""

    @classmethod
    def of(cls, projections: Projections) -> "Group":
        """Make a group of one set."""
        return cls([projections], projections.K)

    def with_set(self, projections: Projections) -> "Group":
        """Return the group with one more set."""
        sets = [*self.sets, projections]
        return Group(sets, self.K + (projections.K - self.K) / len(sets))

    def weights(self, theta: float) -> Array:
        """Return the weights of all projections under the logarithm of a signal variance."""
        size = np.exp(theta) / len(self.sets)
        return np.concatenate([np.full(s.T.shape[1], size / s.scale) for s in self.sets])


@dataclass(frozen=True)
class Fit:
    """A fit of some groups: logarithms of signal over noise, and what they lead to."""

    theta: Array
    noise: Array
    """Noise variance of each target."""
    alpha: Array
    """Weights of the training rows, of shape (n_samples, n_targets), noise counted in."""
    L: Array = field(repr=False)
    """Lower Cholesky factor of the fit's matrix."""


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
        # Of the inverse, LAPACK fills the lower triangle alone; what is above counts twice.
        inverse = 2.0 * np.tril(inverse)
        inverse[np.diag_indices_from(inverse)] *= 0.5
        noise = np.maximum(np.einsum("ij,ij->j", Y, alpha) / n, np.finfo(np.float64).tiny)
        gradient = np.empty(len(theta))
        scaled = alpha / np.sqrt(noise)
        for g, (t, K) in enumerate(zip(theta, kernels, strict=True)):
            data = float(np.sum(scaled * (K @ scaled)))
            trace = float(np.vdot(inverse, K))
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


def fit_of(groups: list[Group], theta: Array, Y: Array, some: Indices, n_threads: int) -> Fit:
    """Return the fit of all rows under these logarithms of signal over noise."""
    while True:
        try:
            if len(some) == len(Y):
                L = _factor([group.K for group in groups], theta)
            else:
                L = factorise_in_place(_matrix(groups, theta, n_threads).T)
            break
        except linalg.LinAlgError:
            # More noise makes any kernel matrix definite.
            theta = theta - 1.0
    alpha = lapack.dpotrs(L, Y, lower=1)[0]
    return Fit(theta, np.einsum("ij,ij->j", Y, alpha) / len(Y), alpha, L)


def _matrix(groups: list[Group], theta: Array, n_threads: int) -> Array:
    """Return the weighted kernel matrix of all rows, noise counted in."""
    weights = np.concatenate([g.weights(t) for g, t in zip(groups, theta, strict=True)])
    T = np.hstack([s.T for group in groups for s in group.sets])
    R: Array = _histrs.intersection_gram(T * weights, None, n_threads)
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


@dataclass
class Learned:
    """What the recipe ends with."""

    slices: Group
    interactions: dict[Pair, Group]
    columns: Group
    fit: Fit
    G: Array
    """Mean outer product of gradients, of trace `n_columns`; the identity before any step."""

    @property
    def groups(self) -> list[Group]:
        """All groups, in the order of the signal variances."""
        return [self.slices, *self.interactions.values(), self.columns]

    @property
    def sets(self) -> list[Projections]:
        """All sets of projections, the columns last."""
        return [part for group in self.groups for part in group.sets]

    @property
    def weights(self) -> Array:
        """Weights of all projections, set after set."""
        pairs = zip(self.groups, self.fit.theta, strict=True)
        return np.concatenate([group.weights(theta) for group, theta in pairs])

    def shares(self) -> dict[Pair, float]:
        """Return the variance of what each interaction adds, in units of the targets' variance."""
        shares = {}
        for (pair, group), theta in zip(
            self.interactions.items(), self.fit.theta[1:-1], strict=True
        ):
            T = group.sets[0].T
            columns = _histrs.SortedColumns(T * group.weights(theta), 1)
            shares[pair] = float(np.mean(columns.product(self.fit.alpha, 1).var(axis=0)))
        return shares


def learn_metric(
    A: Array,
    Y: Array,
    *,
    n_directions: int,
    n_steps: int,
    n_interactions: int,
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
        Steps of the metric, each of which adds a set and looks for interactions.
    n_interactions : int
        Pairs of columns with directions of their own, at most.
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

    def project(W: Array) -> Projections:
        return Projections.of(A, W, n_threads, some if n > n_searched else None)

    slices = Group.of(project(draw_directions(d, n_directions, "orthogonal", random)))
    columns = Group.of(project(np.eye(d)))
    theta = likeliest([slices.K, columns.K], Y[some], np.full(2, _START))
    fit = fit_of([slices, columns], theta, Y, some, n_threads)
    learned = Learned(slices, {}, columns, fit, np.eye(d))
    for _ in range(n_steps):
        outer = _outer_gradients(learned)
        trace = float(np.trace(outer))
        if not trace > 0.0:
            break
        learned.G = outer * (d / trace)
        found = _found(A, learned, n_interactions, random, n_threads)
        for pair in found:
            learned.interactions[pair] = Group.of(project(plane_directions(d, pair)))
        W = matrix_root(learned.G) @ draw_directions(d, n_directions, "orthogonal", random)
        learned.slices = learned.slices.with_set(project(W))
        start = np.clip(np.insert(learned.fit.theta, -1, [_PAIR_START] * len(found)), *_WARM_BOUNDS)
        theta = likeliest([group.K for group in learned.groups], Y[some], start)
        theta = _without_faint(learned, theta)
        learned.fit = fit_of(learned.groups, theta, Y, some, n_threads)
    return learned


def _outer_gradients(learned: Learned) -> Array:
    """Return the sum of outer products of the gradients of what the slices predict."""
    gradient = sum(
        np.einsum("ipc,dp->icd", s.slopes(learned.fit.alpha), s.W) for s in learned.slices.sets
    )
    rows = np.asarray(gradient).reshape(-1, len(learned.G))
    outer: Array = rows.T @ rows
    return outer


def _found(
    A: Array, learned: Learned, most: int, random: np.random.RandomState, n_threads: int
) -> list[Pair]:
    """Return interactions that are not there yet, as many as there may be."""
    room = most - len(learned.interactions)
    if room <= 0:
        return []
    fit = learned.fit
    noise = np.maximum(fit.noise, np.finfo(np.float64).tiny)
    draws = linalg.solve_triangular(
        fit.L, random.normal(size=(len(A), N_DRAWS)), lower=True, trans="T", check_finite=False
    )
    return interacting_pairs(
        A,
        fit.alpha / np.sqrt(noise),
        draws,
        np.diag(learned.G),
        list(learned.interactions),
        n_threads,
    )[:room]


def _without_faint(learned: Learned, theta: Array) -> Array:
    """Leave out interactions that the likelihood has switched off; return the others' `theta`."""
    of_pairs = dict(zip(learned.interactions, theta[1:-1], strict=True))
    learned.interactions = {p: g for p, g in learned.interactions.items() if of_pairs[p] > _FAINT}
    return np.array([theta[0], *(of_pairs[pair] for pair in learned.interactions), theta[-1]])


def matrix_root(G: Array) -> Array:
    """Return the symmetric square root of a positive semi-definite matrix."""
    values, vectors = np.linalg.eigh(G)
    root: Array = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    return root
