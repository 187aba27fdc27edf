"""Directions, and weights of kernels, of largest likelihood.

The recipe: a kernel of columns and one of projections, whose directions are drawn anew in the
metric that the gradients of the fit before make (Radhakrishnan et al., "Mechanism for feature
learning in neural networks and backpropagation-free machine learning models", Science, 2024), and
added. Columns and pairs of columns that the likelihood asks for get directions of their own, each
with a signal variance of its own.
"""

from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from histrs._solvers.block_cg import Array
from histrs._solvers.row_scale import scaled
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
from histrs.kernel_approximation._sliced_distance import draw_directions

SmoothnessName: TypeAlias = Literal["linear", "cubic", "both"]

# Logarithms of the ratio of signal to noise, of each kernel.
_START = 2.0
_WARM_BOUNDS = (-3.0, 12.0)
# Effects whose signal is less than this share of the noise are none.
_FAINT = -3.0
# What an effect, and what is added beside smooth kernels, starts from.
_LATE_START = 0.0
# Smooth kernels that predict worse than this on the directions of the others are not learned for
# themselves, and kept where they predict better than that: in logarithms.
_HOPELESS = 0.2
_GAIN = 0.03


@dataclass
class Learned:
    """What the recipe ends with."""

    slices: Group
    effects: dict[Effect, Group]
    """Columns, and pairs that interact, with directions of their own."""
    columns: Group
    fit: Fit
    G: Array
    """Mean outer product of gradients, of trace `n_columns`; the first metric before any step."""
    others: list[Group] = field(default_factory=list)
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
        return weights_and_kinds(self.groups, self.fit.theta)

    def shares(self) -> dict[Pair, float]:
        """Return the variance of what each interaction adds, in units of the targets' variance."""
        shares = {}
        for k, (effect, group) in enumerate(self.effects.items(), start=1):
            if len(effect) < 2:
                continue
            T = group.sets[0].T
            K = kernel_matrix(T, *weights_and_kinds([group], self.fit.theta[k : k + 1]), 1)
            shares[effect[0], effect[1]] = float(np.mean((K @ self.fit.alpha).var(axis=0)))
        return shares


def learn_metric(
    A: Array,
    Y: Array,
    *,
    metric: Array,
    n_directions: int,
    n_steps: int,
    n_interactions: int,
    smoothness: SmoothnessName,
    n_searched: int,
    random: np.random.RandomState,
    n_threads: int,
    row_scale: Array | None = None,
) -> Learned:
    """Learn directions and weights from standardised rows and targets.

    Parameters
    ----------
    A : ndarray of shape (n_samples, n_columns)
        Standardised columns.
    Y : ndarray of shape (n_samples, n_targets)
        Standardised targets.
    metric : ndarray of shape (n_columns, n_columns)
        The metric before any step.
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
    """
    n = len(A)
    some = np.arange(n)
    if n > n_searched:
        some = np.sort(random.choice(n, n_searched, replace=False))
    Y = scaled(row_scale, Y)
    recipe = _Recipe(
        A, Y, some, metric, n_directions, n_steps, n_interactions, random, n_threads, row_scale
    )
    if smoothness != "both":
        return recipe.learn(smooth=smoothness == "cubic")
    rough = recipe.learn(smooth=False)
    smooth = recipe.smoothed(rough)
    cost_of_rough, cost = recipe.cost(rough), recipe.cost(smooth)
    if cost > cost_of_rough + _HOPELESS:
        return rough
    own = recipe.learn(smooth=True)
    if (cost_of_own := recipe.cost(own)) < cost:
        smooth, cost = own, cost_of_own
    both = recipe.beside(smooth, [rough.slices, rough.columns])
    if (cost_of_both := recipe.cost(both)) < cost:
        smooth, cost = both, cost_of_both
    return smooth if cost < cost_of_rough - _GAIN else rough


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

    def learn(self, *, smooth: bool) -> Learned:
        """Learn directions step by step, all with one kind of kernel."""
        d = self.A.shape[1]
        first = matrix_root(self.metric) @ self._isotropic()
        slices = Group.of(self._project(first, smooth))
        columns = Group.of(self._project(np.eye(d), smooth))
        learned = self._fitted(slices, {}, columns, self.metric, np.full(2, _START))
        for _ in range(self.n_steps):
            outer = outer_gradients(learned.slices.sets, learned.fit.alpha)
            trace = float(np.trace(outer))
            if not trace > 0.0:
                break
            learned.G = outer * (d / trace)
            found = self._found(learned)
            for effect in found:
                own = self._project(effect_directions(d, effect), smooth)
                learned.effects[effect] = Group.of(own)
            W = matrix_root(learned.G) @ self._isotropic()
            learned.slices = learned.slices.with_set(self._project(W, smooth))
            start = np.insert(learned.fit.theta, -1, [_LATE_START] * len(found))
            learned = self._fitted(
                learned.slices,
                learned.effects,
                learned.columns,
                learned.G,
                np.clip(start, *_WARM_BOUNDS),
            )
        return learned

    def smoothed(self, learned: Learned) -> Learned:
        """Return a fit with smooth kernels on directions that were learned without."""
        slices, columns, *own = (
            self._smoothed(group)
            for group in (learned.slices, learned.columns, *learned.effects.values())
        )
        effects = dict(zip(learned.effects, own, strict=True))
        start = np.full(2 + len(own), _START)
        return self._fitted(slices, effects, columns, learned.G, start)

    def beside(self, learned: Learned, others: list[Group]) -> Learned:
        """Return a fit with further groups beside those that were learned."""
        groups = [*learned.groups, *others]
        start = np.append(learned.fit.theta, [_LATE_START] * len(others))
        theta = self._likeliest(groups, start)
        fit = fit_of(groups, theta, self.Y, self.some, self.n_threads, self.row_scale)
        return replace(learned, others=others, fit=fit)

    def cost(self, learned: Learned) -> float:
        """Return how badly searched rows are predicted by the fit of the others."""
        kernels = [group.K for group in learned.groups]
        return leave_one_out_cost(kernels, learned.fit.theta, self.Y[self.some])

    def _isotropic(self) -> Array:
        return draw_directions(self.A.shape[1], self.n_directions, "orthogonal", self.random)

    def _project(self, W: Array, smooth: bool) -> Projections:
        return Projections.of(
            self.A, W, self.n_threads, self._searched, smooth, self._searched_scale
        )

    def _smoothed(self, group: Group) -> Group:
        first, *more = (
            s.smoothed(self.n_threads, self._searched, self._searched_scale) for s in group.sets
        )
        smooth = Group.of(first)
        for projections in more:
            smooth = smooth.with_set(projections)
        return smooth

    @property
    def _searched(self) -> Indices | None:
        return self.some if len(self.some) < len(self.A) else None

    @property
    def _searched_scale(self) -> Array | None:
        return None if self.row_scale is None else self.row_scale[self.some]

    def _likeliest(self, groups: list[Group], start: Array) -> Array:
        return likeliest([group.K for group in groups], self.Y[self.some], start)

    def _fitted(
        self,
        slices: Group,
        effects: dict[Effect, Group],
        columns: Group,
        G: Array,
        start: Array,
    ) -> Learned:
        """Return the likeliest fit, without effects that the likelihood switches off."""
        theta = self._likeliest([slices, *effects.values(), columns], start)
        of_effects = dict(zip(effects, theta[1:-1], strict=True))
        kept = {effect: g for effect, g in effects.items() if of_effects[effect] > _FAINT}
        theta = np.array([theta[0], *(of_effects[effect] for effect in kept), theta[-1]])
        groups = [slices, *kept.values(), columns]
        fit = fit_of(groups, theta, self.Y, self.some, self.n_threads, self.row_scale)
        return Learned(slices, kept, columns, fit, G)

    def _found(self, learned: Learned) -> list[Effect]:
        """Return effects that are not there yet: columns, and as many pairs as there may be."""
        room = self.n_interactions - sum(len(effect) == 2 for effect in learned.effects)
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
        columns, pairs = missing_effects(
            self.A,
            fit.alpha / np.sqrt(noise),
            scaled(self.row_scale, draws),
            np.diag(learned.G),
            learned.effects,
            self.n_threads,
        )
        return [*columns, *pairs[:room]]
