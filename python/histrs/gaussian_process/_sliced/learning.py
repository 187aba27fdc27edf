"""Directions, and weights of kernels, of largest likelihood.

The recipe: a kernel of columns and one of projections, whose directions are drawn anew in the
metric that the gradients of the fit before make (Radhakrishnan et al., "Mechanism for feature
learning in neural networks and backpropagation-free machine learning models", Science, 2024), and
added. Pairs of columns that interact get directions in their own plane, each pair with a signal
variance of its own.
"""

from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from histrs._solvers.block_cg import Array
from histrs.gaussian_process._sliced.interactions import (
    N_DRAWS,
    Pair,
    interacting_pairs,
    plane_directions,
)
from histrs.gaussian_process._sliced.likelihood import Fit, fit_of, likeliest
from histrs.gaussian_process._sliced.projections import (
    Group,
    Indices,
    Projections,
    kernel_matrix,
    matrix_root,
    weights_and_kinds,
)
from histrs.kernel_approximation._sliced_distance import draw_directions

SmoothnessName: TypeAlias = Literal["linear", "cubic", "both"]

# Logarithms of the ratio of signal to noise, of each kernel.
_START = 2.0
_WARM_BOUNDS = (-3.0, 12.0)
# Interactions whose signal is less than this share of the noise are none.
_FAINT = -3.0
# What an interaction, and what is added beside smooth kernels, starts from.
_LATE_START = 0.0
# Smooth kernels whose likelihood on the directions of the others is worse by more than this a row
# are not learned for themselves.
_HOPELESS = 0.05


@dataclass
class Learned:
    """What the recipe ends with."""

    slices: Group
    interactions: dict[Pair, Group]
    columns: Group
    fit: Fit
    G: Array
    """Mean outer product of gradients, of trace `n_columns`; the identity before any step."""
    cost: float
    """Negative logarithm of the likelihood of the searched rows."""
    others: list[Group] = field(default_factory=list)
    """Groups of the other smoothness beside these."""

    @property
    def groups(self) -> list[Group]:
        """All groups, in the order of the signal variances."""
        return [self.slices, *self.interactions.values(), self.columns, *self.others]

    @property
    def sets(self) -> list[Projections]:
        """All sets of projections, the columns last."""
        return [part for group in self.groups for part in group.sets]

    @property
    def smoothness(self) -> SmoothnessName:
        """Which kernels there are."""
        if self.others:
            return "both"
        return "cubic" if self.columns.sets[0].smooth else "linear"

    def weights_and_kinds(self) -> tuple[Array, NDArray[np.bool_]]:
        """Return the weights of all projections, and which are smooth, set after set."""
        return weights_and_kinds(self.groups, self.fit.theta)

    def shares(self) -> dict[Pair, float]:
        """Return the variance of what each interaction adds, in units of the targets' variance."""
        shares = {}
        for k, (pair, group) in enumerate(self.interactions.items(), start=1):
            T = group.sets[0].T
            K = kernel_matrix(T, *weights_and_kinds([group], self.fit.theta[k : k + 1]), 1)
            shares[pair] = float(np.mean((K @ self.fit.alpha).var(axis=0)))
        return shares


def learn_metric(
    A: Array,
    Y: Array,
    *,
    n_directions: int,
    n_steps: int,
    n_interactions: int,
    smoothness: SmoothnessName,
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
    smoothness : {"linear", "cubic", "both"}
        Kernels of the projections; "both" keeps the likelier ones, or sums of them.
    n_searched : int
        Rows that the likelihood is of, at most; gradients are of all.
    random : RandomState
        Draws the directions, and these rows.
    n_threads : int
        Threads of the core.
    """
    n = len(A)
    some = np.arange(n)
    if n > n_searched:
        some = np.sort(random.choice(n, n_searched, replace=False))
    recipe = _Recipe(A, Y, some, n_directions, n_steps, n_interactions, random, n_threads)
    if smoothness != "both":
        return recipe.learn(smooth=smoothness == "cubic")
    rough = recipe.learn(smooth=False)
    smooth = recipe.smoothed(rough)
    if smooth.cost > rough.cost + _HOPELESS * len(some):
        return rough
    smooth = _likelier(smooth, recipe.learn(smooth=True))
    return _likelier(rough, smooth, recipe.beside(smooth, [rough.slices, rough.columns]))


def _likelier(*candidates: Learned) -> Learned:
    return min(candidates, key=lambda learned: learned.cost)


@dataclass(frozen=True)
class _Recipe:
    """Rows and targets, and how much is learned from them."""

    A: Array
    Y: Array
    some: Indices
    """Rows whose likelihood is searched."""
    n_directions: int
    n_steps: int
    n_interactions: int
    random: np.random.RandomState
    n_threads: int

    def learn(self, *, smooth: bool) -> Learned:
        """Learn directions step by step, all with one kind of kernel."""
        d = self.A.shape[1]
        slices = Group.of(self._project(self._isotropic(), smooth))
        columns = Group.of(self._project(np.eye(d), smooth))
        learned = self._fitted(slices, {}, columns, np.eye(d), np.full(2, _START))
        for _ in range(self.n_steps):
            outer = _outer_gradients(learned)
            trace = float(np.trace(outer))
            if not trace > 0.0:
                break
            learned.G = outer * (d / trace)
            found = self._found(learned)
            for pair in found:
                planes = self._project(plane_directions(d, pair), smooth)
                learned.interactions[pair] = Group.of(planes)
            W = matrix_root(learned.G) @ self._isotropic()
            learned.slices = learned.slices.with_set(self._project(W, smooth))
            start = np.insert(learned.fit.theta, -1, [_LATE_START] * len(found))
            learned = self._fitted(
                learned.slices,
                learned.interactions,
                learned.columns,
                learned.G,
                np.clip(start, *_WARM_BOUNDS),
            )
        return learned

    def smoothed(self, learned: Learned) -> Learned:
        """Return a fit with smooth kernels on directions that were learned without."""
        slices, columns, *planes = (
            self._smoothed(group)
            for group in (learned.slices, learned.columns, *learned.interactions.values())
        )
        interactions = dict(zip(learned.interactions, planes, strict=True))
        start = np.full(2 + len(planes), _START)
        return self._fitted(slices, interactions, columns, learned.G, start)

    def beside(self, learned: Learned, others: list[Group]) -> Learned:
        """Return a fit with further groups beside those that were learned."""
        groups = [*learned.groups, *others]
        start = np.append(learned.fit.theta, [_LATE_START] * len(others))
        theta, cost = self._likeliest(groups, start)
        fit = fit_of(groups, theta, self.Y, self.some, self.n_threads)
        return replace(learned, others=others, fit=fit, cost=cost)

    def _isotropic(self) -> Array:
        return draw_directions(self.A.shape[1], self.n_directions, "orthogonal", self.random)

    def _project(self, W: Array, smooth: bool) -> Projections:
        return Projections.of(self.A, W, self.n_threads, self._searched, smooth)

    def _smoothed(self, group: Group) -> Group:
        first, *more = (s.smoothed(self.n_threads, self._searched) for s in group.sets)
        smooth = Group.of(first)
        for projections in more:
            smooth = smooth.with_set(projections)
        return smooth

    @property
    def _searched(self) -> Indices | None:
        return self.some if len(self.some) < len(self.A) else None

    def _likeliest(self, groups: list[Group], start: Array) -> tuple[Array, float]:
        return likeliest([group.K for group in groups], self.Y[self.some], start)

    def _fitted(
        self,
        slices: Group,
        interactions: dict[Pair, Group],
        columns: Group,
        G: Array,
        start: Array,
    ) -> Learned:
        """Return the likeliest fit, without interactions that the likelihood switches off."""
        theta, cost = self._likeliest([slices, *interactions.values(), columns], start)
        of_pairs = dict(zip(interactions, theta[1:-1], strict=True))
        kept = {pair: g for pair, g in interactions.items() if of_pairs[pair] > _FAINT}
        theta = np.array([theta[0], *(of_pairs[pair] for pair in kept), theta[-1]])
        groups = [slices, *kept.values(), columns]
        fit = fit_of(groups, theta, self.Y, self.some, self.n_threads)
        return Learned(slices, kept, columns, fit, G, cost)

    def _found(self, learned: Learned) -> list[Pair]:
        """Return interactions that are not there yet, as many as there may be."""
        room = self.n_interactions - len(learned.interactions)
        if room <= 0:
            return []
        fit = learned.fit
        noise = np.maximum(fit.noise, np.finfo(np.float64).tiny)
        draws = linalg.solve_triangular(
            fit.L,
            self.random.normal(size=(len(self.A), N_DRAWS)),
            lower=True,
            trans="T",
            check_finite=False,
        )
        return interacting_pairs(
            self.A,
            fit.alpha / np.sqrt(noise),
            draws,
            np.diag(learned.G),
            list(learned.interactions),
            self.n_threads,
        )[:room]


def _outer_gradients(learned: Learned) -> Array:
    """Return the sum of outer products of the gradients of what the slices predict."""
    gradient = sum(
        np.einsum("ipc,dp->icd", s.slopes(learned.fit.alpha), s.W) for s in learned.slices.sets
    )
    rows = np.asarray(gradient).reshape(-1, len(learned.G))
    outer: Array = rows.T @ rows
    return outer
