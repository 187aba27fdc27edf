"""The members of a blend: what each takes of the rows, how it is learned, and its posterior."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from histrs._checks.memory import most_stored_rows
from histrs._checks.rows import in_row_blocks
from histrs._progress import StageProgress
from histrs._typing import Array
from histrs.gaussian_process._bound.all_pairs import MatrixBound, StoredBound
from histrs.gaussian_process._bound.scores import Score
from histrs.gaussian_process._kernels.additive import AdditiveTerms, Interactions
from histrs.gaussian_process._kernels.algebra import Constant
from histrs.gaussian_process._kernels.distances import DistanceMixture, Norm
from histrs.gaussian_process._kernels.even import EvenMixture
from histrs.gaussian_process._kernels.intersection import Intersection
from histrs.gaussian_process._kernels.levels import LevelKernel
from histrs.gaussian_process._learning import distances, levels
from histrs.gaussian_process._learning.axes import along_axes
from histrs.gaussian_process._learning.hyperparameters import Hyperparameters
from histrs.gaussian_process._learning.learner import Learner
from histrs.gaussian_process._learning.leave_one_out import leave_one_out
from histrs.gaussian_process._learning.problem import Problem
from histrs.gaussian_process._options import LikelihoodSearch, Solver
from histrs.gaussian_process._posterior.cached_variance import CachedVariance
from histrs.gaussian_process._posterior.posterior import Posterior
from histrs.gaussian_process._rows import appended, roots, rows_of
from histrs.gaussian_process._systems.system import System
from histrs.gaussian_process._tabular.partial_dependence import averaged
from histrs.gaussian_process._tabular.rows import TableRows

MemberName: TypeAlias = Literal["even", "levels", "radial", "ranks"]

# Tolerance of solves, which factors hardly have a use for.
_TOL = 1e-6
# Pairs of columns that curves are added to, and values of a column that functions of these have.
_PAIRS = 10
_KNOTS = (4, 12)
# What a search of weights must gain in a step to go on, in units of the log evidence.
_LEAST_GAIN = 1.0
# Rows below which pairs are not looked for.
_ROWS_OF_PAIRS = 100
# Weights that functions of all columns have together, and levels of a column at most.
_WEIGHTS = 2048
_MOST_LEVELS = 512
# Columns above which functions of single ones have too many weights.
MOST_COLUMNS = 1024
# Rows up to which functions of distances are factorised. Of more, all pairs are kept in two bytes
# each, up to so many rows and so much of the memory, and so many rows are held out.
MOST_FACTORISED = 6000
_MOST_STORED = 65_536
_MEMORY_SHARE = 0.3
_HELD_OUT_SHARE = 0.25
_MOST_HELD_OUT = 4000
# Parts of few rows of which each is left out of learning.
_PARTS = 5
# Rows up to which variances are exact; of more, the mean error of standard deviations from a few
# directions that is close enough.
_EXACT_ROWS = 500
_CLOSE = 0.02
_BOUNDS = {"noise": (1e-6, 1e6), "amplitude": (1e-8, 1e6)}


@dataclass(frozen=True)
class Targets:
    """Rows and standardised targets that members are learned from."""

    rows: TableRows
    T: Array
    """Of shape (n_rows, n_targets), which share kernel and noise."""
    weights: Array | None
    """Weights of rows; None for 1."""
    stays: Array | None
    """What part of each row one of its copies leaves; None for 0."""
    order: NDArray[np.intp]
    """The order in which rows are taken, where some are enough."""
    seed: int
    n_threads: int
    progress: StageProgress
    """Is told what is learned."""
    has_spread: bool = True
    """Whether standard deviations are asked for."""
    n_held_out: int | None = None
    """How many rows are held out of many; None for as many as suit."""
    before: Mapping[MemberName, distances.LearnedKernel] = field(default_factory=dict)
    """Kernels and noise that were learned of other targets of these rows."""
    is_trial: bool = False
    """Whether the fit is only compared with others like it."""

    @property
    def told(self) -> NDArray[np.intp]:
        """The rows that all members say something of that are left out, in ascending order.

        All, or some of many: the last in order, since kernels are learned from the first.
        """
        n = len(self.T)
        if n <= MOST_FACTORISED:
            return np.arange(n)
        usual = min(int(_HELD_OUT_SHARE * n), _MOST_HELD_OUT)
        return np.sort(self.order[-(self.n_held_out or usual) :])

    def of_rows(self, some: NDArray[np.intp]) -> Targets:
        """Return those of some rows, in ascending order."""
        place = np.argsort(np.argsort(self.order[np.isin(self.order, some)]))
        return replace(
            self,
            rows=self.rows.at(some),
            T=self.T[some],
            weights=rows_of(self.weights, some),
            stays=rows_of(self.stays, some),
            order=place,
        )


@dataclass(frozen=True)
class Member:
    """A process that was learned, with its posterior."""

    name: MemberName
    posterior: Posterior
    T: Array
    """Targets of its rows, of shape (n_rows, n_targets)."""
    cached: CachedVariance | None = None
    """Variances from a few directions, where these are as good as the factor."""

    def settled(self) -> Self:
        """Return the member without its factor, if variances from a few directions are as good.

        They take a tenth of the time, and are kept in a pickle, which a factor is not.
        """
        system = self.posterior.system
        bound = system.bound
        if not isinstance(bound, MatrixBound) or len(self.T) <= _EXACT_ROWS:
            return self
        cached = CachedVariance(system, bound.n_solved)
        bound.drop_pairs()
        if cached.error > _CLOSE:
            return self
        posterior = replace(self.posterior, systems=(replace(system),), _made={})
        return replace(self, posterior=posterior, cached=cached)

    def view(self, rows: TableRows) -> Array:
        """Return what it takes of the rows."""
        return _taken(self.name, self.posterior.system.kernel, rows)

    def extended(self, rows: TableRows, T: Array, weights: Array | None) -> Member:
        """Return the member with further rows, and all that was learned."""
        system = self.posterior.system
        bound, T = system.bound.inserted(self.view(rows), weights), np.vstack([self.T, T])
        before, n = system.row_scale, len(self.T)
        if before is not None and weights is None:
            weights = np.ones(len(rows.values))
        scale = appended(before, n, roots(weights))
        spread = self.posterior.has_variances_at_hand or self.cached is not None
        member = _fitted(self.name, replace(system, bound=bound, row_scale=scale), T, spread)
        return member if self.cached is None else member.settled()

    def predict(self, rows: TableRows) -> tuple[Array, Array]:
        """Return means and variances of targets, noise counted in."""
        noise = float(self.posterior.noise[0])
        if self.cached is None:
            return self.mean(rows), self.latent_variance(rows) + noise
        X, n_outputs = self.view(rows), self.posterior.weights.shape[1]
        # All pairs of rows are met once for both.
        scores = self._score_and_directions.evaluate(X, self.posterior.bound.n_threads)
        variance = self.cached.of(X, scores[:, n_outputs:])
        return scores[:, :n_outputs], self.posterior.amplitude[0] * variance + noise

    def mean(self, rows: TableRows) -> Array:
        """Return means of targets."""
        bound = self.posterior.bound
        return self._score.evaluate(bound.rows_of(self.view(rows)), bound.n_threads)

    @cached_property
    def _score(self) -> Score:
        return self.posterior.bound.score(self.posterior.weights, None, "linear")

    @cached_property
    def _score_and_directions(self) -> Score:
        of_directions: Any = self.cached and self.cached.score
        both: Score = of_directions.behind(self.posterior.weights)
        return both

    def __getstate__(self) -> dict[str, Any]:
        """Return what cannot be computed again."""
        return {k: v for k, v in vars(self).items() if not k.startswith("_")}

    def averaged(self, parts: list[TableRows]) -> tuple[Array, Array]:
        """Return mean and standard deviation of the average over groups of rows."""
        return averaged(self.posterior, [self.view(part) for part in parts])

    def importances(self, n_columns: int) -> Array:
        """Return which part of the variance of functions is of each column that it takes."""
        kernel, found = self.posterior.system.kernel, np.zeros(n_columns)
        if isinstance(kernel, LevelKernel):
            of_features = self.posterior.bound.forms_by_feature(self.posterior.weights)
            found[:] = of_features.sum(axis=1)
        elif isinstance(kernel, EvenMixture):
            found[:] = 1.0
        else:
            found[:] = kernel.spreads(self.posterior.bound.X)
        total = float(found.sum())
        return found / total if total > 0.0 else found

    def variance(self, X: Array, K: Array) -> Array:
        """Return variances of rows of which the kernel with the training rows is known."""
        amplitude, noise = self.posterior.amplitude[0], float(self.posterior.noise[0])
        if self.cached is not None:
            directions: Any = self.cached.score
            return np.asarray(amplitude * self.cached.of(X, K @ directions.weights) + noise)
        prior = self.posterior.bound.prior(X)
        return self.posterior.variance_of(prior, lambda some: K[some].T)[:, 0] + noise

    def latent_variance(self, rows: TableRows) -> Array:
        """Return the variance of the latent functions."""
        X = self.view(rows)
        if self.cached is not None:
            return np.asarray(self.posterior.amplitude[0] * in_row_blocks(X, self.cached.of))
        return self.posterior.latent_variance(X, "auto", None, 0)[:, 0]


def weights_by_name(members: Sequence[Member], weights: Array) -> dict[MemberName, float]:
    """Return the weight of the members of each name."""
    found: dict[MemberName, float] = {}
    for member, weight in zip(members, weights.tolist(), strict=True):
        found[member.name] = found.get(member.name, 0.0) + weight
    return found


@dataclass(frozen=True)
class Learned:
    """What was learned of a member."""

    means: Array
    """Of `told` rows, by fits without them, of shape (n_told, n_targets)."""
    variances: Array
    """The same, noise counted in; zeros where no spread is asked for."""
    member: Callable[[], Member]
    """Returns the member that is fitted to all rows."""

    @classmethod
    def in_closed_form(cls, member: Member, targets: Targets) -> Self:
        """Return what a member that is fitted to all rows says of them, each left out."""
        mean, variance = leave_one_out(member.posterior, targets.T, targets.stays)
        noise, variance = float(member.posterior.noise[0]), variance[:, 0]
        if targets.weights is not None:
            # A row that stands for several has their mean's noise, and is asked for one of them.
            variance = np.maximum(variance - noise / targets.weights, 0.0) + noise
        return cls(mean[targets.told], variance[targets.told], lambda: member)


def learn(name: MemberName, targets: Targets) -> Learned:
    """Return a member, learned."""
    targets.progress(name)
    if name == "levels":
        return _levels(targets)
    return _of_distances(name, targets)


def _posterior(system: System, T: Array) -> Posterior:
    solution = system.solve_targets(T, np.full(T.shape[1], _TOL))
    return Posterior((system.lighter(),), solution.X, {}, _TOL)


def _with_values(rows: TableRows) -> Array:
    return rows.with_values


def _with_ranks(rows: TableRows) -> Array:
    return rows.with_ranks


def _levels(targets: Targets) -> Learned:
    posterior = learn_levels(targets.rows.with_values, targets, _PAIRS)
    return Learned.in_closed_form(Member("levels", posterior, targets.T), targets)


def learn_levels(X: Array, targets: Targets, n_pairs: int) -> Posterior:
    """Return the posterior of a sum of functions of columns, and of pairs of them.

    The last columns of `X` are the categories of the targets' rows.
    """
    problem = Problem(
        X,
        targets.T,
        targets.weights,
        targets.stays,
        solver=Solver(),
        tol=_TOL,
        log_det="lanczos",
        seed=lambda: targets.seed,
        n_jobs=targets.n_threads,
        are_classes=False,
        feature_names=None,
    )
    n_levels = min(_WEIGHTS, len(X) // 2) // max(X.shape[1], 1)
    functions = Intersection(levels=int(np.clip(n_levels, 2, _MOST_LEVELS)))
    has_pairs = n_pairs > 0 and X.shape[1] > 1 and len(X) >= _ROWS_OF_PAIRS
    kernel = functions
    if has_pairs:
        # Their weights are about as many as the rows at most.
        n_knots = int(np.clip(1.0 + np.sqrt(len(X) / n_pairs), *_KNOTS))
        kernel = functions + Interactions(n_pairs, n_knots=n_knots)
    terms = AdditiveTerms.of(Constant(), kernel)
    start = Hyperparameters(np.array([0.1]), np.array([1.0]), None)
    learner = Learner(
        "TabularGP",
        LikelihoodSearch(),
        _BOUNDS,
        lambda: targets.seed,
        0,
        warns=False,
        least_gain=_LEAST_GAIN,
    )
    n_categories = targets.rows.codes.shape[1]
    values, bound = levels.learn(problem, terms, start, learner, n_categories)
    (scales,) = values.scales()
    return _posterior(problem.system(bound, scales), targets.T)


_views: dict[MemberName, Callable[[TableRows], Array]] = {
    "even": _with_values,
    "levels": _with_values,
    "radial": _with_values,
    "ranks": _with_ranks,
}


def most_rows_of_pairs(n_rows: int) -> int:
    """Return how many of many rows have their pairs kept."""
    most = max(MOST_FACTORISED + 1, min(_MOST_STORED, most_stored_rows(_MEMORY_SHARE)))
    return min(n_rows, most)


def _of_distances(name: MemberName, targets: Targets) -> Learned:
    most = most_rows_of_pairs(len(targets.T))
    if len(targets.T) > most:
        some = np.sort(targets.order[-most:])
        targets = replace(targets.of_rows(some), n_held_out=len(targets.told))
    found = _kernel_of_distances(name, targets)
    return learned_of_all_pairs(name, found.kernel, found.noise, 1.0, targets)


def _kernel_of_distances(name: MemberName, targets: Targets) -> distances.LearnedKernel:
    norm: Norm = "l1" if name == "ranks" else "l2"
    before, n_categories = targets.before.get(name), targets.rows.codes.shape[1]
    X = _views[name](targets.rows)
    start = DistanceMixture.start(norm, X.shape[1] - n_categories, n_categories)
    if before is not None and before.kernel.axes is not None:
        start = before.kernel
    of_rows = targets.T, targets.weights, targets.stays, targets.order, targets.n_threads
    sample = distances.Sample(start.turned(X), *of_rows)
    found = distances.learn(start, sample, before)
    if before is None and norm == "l2":
        found = along_axes(found, sample)
    return found


def learned_without(name: MemberName, learned: Learned, targets: Targets) -> Learned:
    """Return what is said of rows that are left out of learning too.

    Few rows have so much of a say in the weights of columns that a fit seems far better than it is.
    So the rows of each part are predicted with weights that the other parts gave, by all others.
    Variances stay those of the weights that new rows are predicted with.
    """
    means = learned.means.copy()
    for part in _parts(name, targets):
        others = targets.of_rows(np.setdiff1d(targets.order, part))
        found = _kernel_of_distances(name, replace(others, before={}))
        without = learned_of_all_pairs(name, found.kernel, found.noise, 1.0, targets)
        means[part] = without.means[part]
    return replace(learned, means=means)


def _parts(name: MemberName, targets: Targets) -> list[NDArray[np.intp]]:
    """Return rows in parts that are alike, whatever the order of rows, columns and classes."""
    X, n_categories = _views[name](targets.rows), targets.rows.codes.shape[1]
    start = DistanceMixture.start("l2", X.shape[1] - n_categories, n_categories)
    nearness = start.between(X, None, targets.n_threads).mean(axis=1)
    # What rounding adds orders nothing.
    order = np.lexsort((np.round(nearness, 9), np.round(np.sum(targets.T**2, axis=1), 9)))
    return [order[k::_PARTS] for k in range(_PARTS)]


def learned_of_all_pairs(
    name: MemberName,
    kernel: Any,
    noise: float,
    amplitude: float,
    targets: Targets,
    parts: Any = None,
) -> Learned:
    """Return what is left out of a kernel of all pairs of rows, with the noise that was learned.

    `parts` are what the matrix of all rows is made of, where they are at hand.
    """

    def member(targets: Targets) -> Member:
        of_rows: dict[str, Any] = {"known_parts": parts, "n_threads": targets.n_threads}
        bound: Any = MatrixBound(X=_taken(name, kernel, targets.rows), kernel=kernel, **of_rows)
        system = System(
            bound=bound,
            noise=noise,
            amplitude=amplitude,
            solver=Solver("cholesky"),
            row_scale=roots(targets.weights),
        )
        return _fitted(name, system, targets.T, targets.has_spread)

    if len(targets.T) <= MOST_FACTORISED:
        return Learned.in_closed_form(member(targets), targets)
    told = targets.told
    held = member(targets.of_rows(np.setdiff1d(np.arange(len(targets.T)), told)))
    rows, variances = targets.rows.at(told), np.zeros(len(told))
    if targets.has_spread:
        variances = held.predict(rows)[1]
    return Learned(held.mean(rows), variances, lambda: member(targets))


def _fitted(name: MemberName, system: System, T: Array, has_spread: bool) -> Member:
    """Return the member of a system: factorised, or by products if its rows are many."""
    kernel = system.kernel
    if not isinstance(kernel, DistanceMixture) or len(T) <= MOST_FACTORISED:
        return Member(name, _posterior(system, T), T)
    of_rows: dict[str, Any] = {"X": system.X, "kernel": kernel}
    bound: Any = StoredBound(n_threads=system.bound.n_threads, **of_rows)
    noise = max(system.noise, bound.least_ratio)
    posterior = _posterior(replace(system, bound=bound, noise=noise, solver=Solver("cg")), T)
    cached = posterior.cached_variance(0) if has_spread else None
    bound.drop_pairs()
    # Without the preconditioner.
    return Member(name, replace(posterior, systems=(replace(posterior.system),)), T, cached)


def _taken(name: MemberName, kernel: Any, rows: TableRows) -> Array:
    """Return rows as a member of such a kernel takes them."""
    X = _views[name](rows)
    return np.ascontiguousarray(kernel.turned(X) if isinstance(kernel, DistanceMixture) else X)
