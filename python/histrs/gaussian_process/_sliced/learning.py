"""Directions, and weights of kernels, of largest likelihood.

The recipe: a kernel of columns and one of projections, whose directions are drawn anew in the
metric that the gradients of the fit before make (Radhakrishnan et al., "Mechanism for feature
learning in neural networks and backpropagation-free machine learning models", Science, 2024), and
added. Columns and pairs of columns that the likelihood asks for get directions of their own, each
with a signal variance of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from histrs._solvers.row_scale import scaled
from histrs._typing import Array
from histrs.gaussian_process._row_weights import repeats, rows_of
from histrs.gaussian_process._sliced.interactions import (
    N_DRAWS,
    Effect,
    Pair,
    effect_directions,
    missing_effects,
)
from histrs.gaussian_process._sliced.likelihood import Fit, fit_of, leave_one_out_cost, likeliest
from histrs.gaussian_process._sliced.projections import (
    Group,
    Indices,
    Projections,
    kernel_matrix,
    matrix_root,
    outer_gradients,
    weights_and_kinds,
)
from histrs.gaussian_process._sliced.rows import drawn_rows
from histrs.kernel_approximation._sliced_distance import draw_directions

SmoothnessName: TypeAlias = Literal["linear", "cubic", "both"]

# Logarithms of the ratio of signal to noise, of each kernel.
_START = 2.0
_WARM_BOUNDS = (-3.0, 12.0)
# Effects whose signal is less than this share of the noise are none.
_FAINT = -3.0
# What an effect, and what is added beside smooth kernels, starts from.
_LATE_START = 0.0
# Rows whose likelihood is searched at each step; the last fit's may be of more.
_ROWS_OF_STEPS = 1024
# Smooth kernels that predict worse than this on the directions of the others are not learned for
# themselves, and kept where they predict better than that: in logarithms.
_HOPELESS = 0.2
_GAIN = 0.03


@dataclass
class LikeliestGroups:
    """Directions, and the likeliest variances of their kernels."""

    slices: Group
    effects: dict[Effect, Group]
    """Columns, and pairs that interact, with directions of their own."""
    columns: Group
    theta: Array
    """Logarithms of signal over noise of the groups."""
    G: Array
    """Mean outer product of gradients, of trace `n_columns`; the first metric before any step."""
    others: list[Group]
    """Groups of the other smoothness beside these."""

    @property
    def groups(self) -> list[Group]:
        """All groups, in the order of the signal variances."""
        return [self.slices, *self.effects.values(), self.columns, *self.others]

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
        return weights_and_kinds(self.groups, self.theta)


@dataclass
class Learned(LikeliestGroups):
    """What the recipe ends with."""

    fit: Fit
    """The fit of all rows."""

    def shares(self) -> dict[Pair, float]:
        """Return the variance of what each interaction adds, in units of the targets' variance."""
        shares = {}
        for k, (effect, group) in enumerate(self.effects.items(), start=1):
            if len(effect) < 2:
                continue
            T = group.sets[0].T
            K = kernel_matrix(T, *weights_and_kinds([group], self.theta[k : k + 1]), 1)
            shares[effect[0], effect[1]] = float(np.mean((K @ self.fit.alpha).var(axis=0)))
        return shares


def learn_metric(
    A: Array,
    Y: Array,
    *,
    metrics: Sequence[Array],
    n_directions: int,
    n_steps: int,
    n_interactions: int,
    smoothness: SmoothnessName,
    n_searched: int,
    random: np.random.RandomState,
    n_threads: int,
    row_scale: Array | None = None,
    stays: Array | None = None,
) -> Learned:
    """Learn directions and weights from standardised rows and targets.

    Parameters
    ----------
    A : ndarray of shape (n_samples, n_columns)
        Standardised columns.
    Y : ndarray of shape (n_samples, n_targets)
        Standardised targets.
    metrics : sequence of ndarray of shape (n_columns, n_columns)
        Metrics before any step; of several, the one that leads to the best predictions of left-out
        rows.
    n_directions : int
        Directions of each set.
    n_steps : int
        Steps of the metric, each of which adds a set and looks for interactions.
    n_interactions : int
        Pairs of columns with directions of their own, at most.
    smoothness : {"linear", "cubic", "both"}
        Kernels of the projections; "both" keeps those that predict left-out rows best, or sums.
    n_searched : int
        Rows that the likelihood is of, at most; gradients are of all.
    random : RandomState
        Draws the directions, and these rows.
    n_threads : int
        Threads of the core.
    row_scale : ndarray of shape (n_samples,), default=None
        Roots of the weights of rows; None for 1.
    stays : ndarray of shape (n_samples,), default=None
        What part of each row one of its copies leaves, where copies tell noise; None for 0.
    """
    n = len(A)
    some = drawn_rows(np.arange(n), n_searched, random)
    few = drawn_rows(some, _ROWS_OF_STEPS, random)
    Y = scaled(row_scale, Y)
    others = random, n_threads, row_scale, stays
    recipes = [
        _Recipe(A, Y, few, metric, n_directions, n_steps, n_interactions, *others)
        for metric in metrics
    ]
    recipe, candidate = _likeliest_kind(recipes, smoothness)
    if len(few) < len(some):
        recipe = replace(recipe, some=some)
        candidate = recipe.searched_again(candidate)
    return recipe.fitted(candidate)


def _likeliest_kind(
    recipes: Sequence[_Recipe], smoothness: SmoothnessName
) -> tuple[_Recipe, LikeliestGroups]:
    """Learn with the kernels asked for; "both" keeps those that predict left-out rows best."""
    learned = [(recipe, recipe.learn(smooth=smoothness == "cubic")) for recipe in recipes]
    best = 0 if len(learned) == 1 else int(np.argmin([one.cost(found) for one, found in learned]))
    recipe, first = learned[best]
    return recipe, recipe.best_beside(first) if smoothness == "both" else first


@dataclass(frozen=True)
class _Recipe:
    """Rows and targets, and how much is learned from them."""

    A: Array
    Y: Array
    """Targets, times the scale of rows."""
    some: Indices
    """Rows whose likelihood is searched."""
    metric: Array
    n_directions: int
    n_steps: int
    n_interactions: int
    random: np.random.RandomState
    n_threads: int
    row_scale: Array | None
    stays: Array | None

    def learn(self, *, smooth: bool) -> LikeliestGroups:
        """Learn directions step by step, all with one kind of kernel."""
        d = self.A.shape[1]
        first = matrix_root(self.metric) @ self._isotropic()
        slices = Group.of(self._project(first, smooth))
        columns = Group.of(self._project(np.eye(d), smooth))
        now = self._searched(slices, {}, columns, self.metric, np.full(2, _START))
        for _ in range(self.n_steps):
            fit = self._fit(now)
            outer = outer_gradients(now.slices.sets, fit.alpha)
            trace = float(np.trace(outer))
            if not trace > 0.0:
                break
            G = outer * (d / trace)
            found = self._found(now.effects, fit, G)
            new = {e: Group.of(self._project(effect_directions(d, e), smooth)) for e in found}
            W = matrix_root(G) @ self._isotropic()
            slices = now.slices.with_set(self._project(W, smooth))
            start = np.insert(fit.theta, -1, [_LATE_START] * len(found))
            start = np.clip(start, *_WARM_BOUNDS)
            now = self._searched(slices, now.effects | new, now.columns, G, start)
        return now

    def best_beside(self, rough: LikeliestGroups) -> LikeliestGroups:
        """Return these kernels, smooth ones or both, whatever predicts left-out rows best."""
        smooth = self.smoothed(rough)
        cost_of_rough, cost = self.cost(rough), self.cost(smooth)
        if cost > cost_of_rough + _HOPELESS:
            return rough
        own = self.learn(smooth=True)
        if (cost_of_own := self.cost(own)) < cost:
            smooth, cost = own, cost_of_own
        both = self.beside(smooth, [rough.slices, rough.columns])
        if (cost_of_both := self.cost(both)) < cost:
            smooth, cost = both, cost_of_both
        return smooth if cost < cost_of_rough - _GAIN else rough

    def smoothed(self, candidate: LikeliestGroups) -> LikeliestGroups:
        """Return smooth kernels on directions that were learned without."""
        slices, columns, *own = (
            self._of_sets(group, Projections.smoothed)
            for group in (candidate.slices, candidate.columns, *candidate.effects.values())
        )
        effects = dict(zip(candidate.effects, own, strict=True))
        start = np.full(2 + len(own), _START)
        return self._searched(slices, effects, columns, candidate.G, start)

    def beside(self, candidate: LikeliestGroups, others: list[Group]) -> LikeliestGroups:
        """Return further groups beside those that were learned."""
        start = np.append(candidate.theta, [_LATE_START] * len(others))
        theta = self._likeliest([*candidate.groups, *others], start)
        return replace(candidate, others=others, theta=theta)

    def searched_again(self, candidate: LikeliestGroups) -> LikeliestGroups:
        """Return the likeliest variances of these rows, where they were those of others."""
        slices, columns, *others = (
            self._of_sets(group, Projections.of_rows)
            for group in (candidate.slices, candidate.columns, *candidate.others)
        )
        effects = {
            e: self._of_sets(group, Projections.of_rows) for e, group in candidate.effects.items()
        }
        found = LikeliestGroups(slices, effects, columns, candidate.theta, candidate.G, others)
        return replace(found, theta=self._likeliest(found.groups, found.theta))

    def fitted(self, candidate: LikeliestGroups) -> Learned:
        """Return the fit of all rows."""
        fit = self._fit(candidate)
        return Learned(**vars(replace(candidate, theta=fit.theta)), fit=fit)

    def cost(self, candidate: LikeliestGroups) -> float:
        """Return how badly searched rows are predicted by the fit of the others."""
        kernels = [group.K for group in candidate.groups]
        return leave_one_out_cost(kernels, candidate.theta, self.Y[self.some])

    def _isotropic(self) -> Array:
        return draw_directions(self.A.shape[1], self.n_directions, "orthogonal", self.random)

    def _project(self, W: Array, smooth: bool) -> Projections:
        return Projections.of(self.A, W, self.n_threads, *self._rows, smooth=smooth)

    def _of_sets(self, group: Group, change: Callable[..., Projections]) -> Group:
        """Return a group of sets with another kernel matrix."""
        first, *more = (change(part, self.n_threads, *self._rows) for part in group.sets)
        changed = Group.of(first)
        for projections in more:
            changed = changed.with_set(projections)
        return changed

    @property
    def _rows(self) -> tuple[Indices | None, Array | None]:
        """The searched rows, None where they are all, and their scale."""
        some = self.some if len(self.some) < len(self.A) else None
        return some, None if self.row_scale is None else self.row_scale[self.some]

    def _likeliest(self, groups: list[Group], start: Array) -> Array:
        n_repeats = repeats(rows_of(self.stays, self.some))
        return likeliest([group.K for group in groups], self.Y[self.some], start, n_repeats)

    def _fit(self, candidate: LikeliestGroups) -> Fit:
        of_rows = self.row_scale, repeats(self.stays)
        return fit_of(
            candidate.groups, candidate.theta, self.Y, self.some, self.n_threads, *of_rows
        )

    def _searched(
        self,
        slices: Group,
        effects: dict[Effect, Group],
        columns: Group,
        G: Array,
        start: Array,
    ) -> LikeliestGroups:
        """Return the likeliest variances, without effects that the likelihood switches off."""
        theta = self._likeliest([slices, *effects.values(), columns], start)
        of_effects = dict(zip(effects, theta[1:-1], strict=True))
        kept = {effect: g for effect, g in effects.items() if of_effects[effect] > _FAINT}
        theta = np.array([theta[0], *(of_effects[effect] for effect in kept), theta[-1]])
        return LikeliestGroups(slices, kept, columns, theta, G, [])

    def _found(self, effects: dict[Effect, Group], fit: Fit, G: Array) -> list[Effect]:
        """Return effects that are not there yet: columns, and as many pairs as there may be."""
        room = self.n_interactions - sum(len(effect) == 2 for effect in effects)
        if room <= 0:
            return []
        noise = np.maximum(fit.noise, np.finfo(np.float64).tiny)
        draws = linalg.solve_triangular(
            fit.L,
            self.random.normal(size=(len(self.A), N_DRAWS)),
            lower=True,
            trans="T",
            check_finite=False,
        )
        columns, pairs = missing_effects(
            self.A,
            fit.alpha / np.sqrt(noise),
            scaled(self.row_scale, draws),
            np.diag(G),
            effects,
            self.n_threads,
        )
        return [*columns, *pairs[:room]]
