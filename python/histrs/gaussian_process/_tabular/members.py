"""The members of a blend: what each takes of the rows, how it is learned, and its posterior."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from histrs._typing import Array
from histrs.gaussian_process._bound.all_pairs import MatrixBound
from histrs.gaussian_process._kernels.additive import AdditiveTerms
from histrs.gaussian_process._kernels.algebra import Constant
from histrs.gaussian_process._kernels.distances import DistanceMixture, Norm
from histrs.gaussian_process._kernels.even import EvenMixture
from histrs.gaussian_process._kernels.interactions import Interactions
from histrs.gaussian_process._kernels.intersection import Intersection
from histrs.gaussian_process._kernels.levels import LevelKernel
from histrs.gaussian_process._learning import distances, levels
from histrs.gaussian_process._learning.hyperparameters import Hyperparameters
from histrs.gaussian_process._learning.learner import Learner
from histrs.gaussian_process._learning.leave_one_out import leave_one_out
from histrs.gaussian_process._learning.problem import Problem
from histrs.gaussian_process._options import LikelihoodSearch, Solver
from histrs.gaussian_process._posterior.posterior import Posterior
from histrs.gaussian_process._row_weights import roots, rows_of
from histrs.gaussian_process._systems.system import System
from histrs.gaussian_process._tabular.rows import TableRows

MemberName: TypeAlias = Literal["even", "levels", "radial", "ranks"]

# Tolerance of solves, which factors hardly have a use for.
_TOL = 1e-6
# Pairs of columns that curves are added to.
_PAIRS = 10
# Rows below which pairs are not looked for.
_ROWS_OF_PAIRS = 100
# Weights that functions of all columns have together, and levels of a column at most.
_WEIGHTS = 2048
_MOST_LEVELS = 512
# Columns above which functions of single ones have too many weights.
MOST_COLUMNS = 1024
# Rows that functions of distances are factorised for.
_MOST_ROWS = 10_000
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
    progress: Callable[[str], None]
    """Is told what is learned."""

    @property
    def told(self) -> NDArray[np.intp]:
        """The rows that all members say something of that are left out, in ascending order."""
        return np.sort(self.order[:_MOST_ROWS])

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
    view: Callable[[TableRows], Array]
    """What it takes of the rows."""

    def left_out(self, targets: Targets) -> tuple[Array, Array]:
        """Return means and variances of `told` rows by fits without them, noise counted in."""
        known = self.posterior.bound.n_rows == len(targets.T)
        seen = slice(None) if known else targets.told
        mean, variance = leave_one_out(
            self.posterior, targets.T[seen], rows_of(targets.stays, seen)
        )
        some = targets.told if known else slice(None)
        return mean[some], variance[some, 0]

    def predict(self, rows: TableRows) -> tuple[Array, Array]:
        """Return means and variances of targets, noise counted in."""
        return self.mean(rows), self.latent_variance(rows) + float(self.posterior.noise[0])

    def mean(self, rows: TableRows) -> Array:
        """Return means of targets."""
        bound = self.posterior.bound
        return bound.cross_product(bound.rows_of(self.view(rows)), self.posterior.weights)

    def importances(self, n_columns: int) -> Array:
        """Return which part of the variance of functions is of each column that it takes."""
        kernel, found = self.posterior.system.kernel, np.zeros(n_columns)
        if isinstance(kernel, LevelKernel):
            of_features = self.posterior.bound.forms_by_feature(self.posterior.weights)
            found[:] = of_features.sum(axis=1)
        elif isinstance(kernel, EvenMixture):
            found[:] = 1.0
        else:
            spreads = self.posterior.bound.X.std(axis=0)
            found[:] = (np.exp(kernel.log_weights) * spreads) ** 2
        total = float(found.sum())
        return found / total if total > 0.0 else found

    def latent_variance(self, rows: TableRows) -> Array:
        """Return the variance of the latent functions."""
        variance = self.posterior.latent_variance(self.view(rows), "exact", None, 0)
        return variance[:, 0]


def learn(name: MemberName, targets: Targets) -> Member:
    """Return a member, learned."""
    targets.progress(name)
    learned = {"levels": _levels, "radial": _radial, "ranks": _ranks}
    return learned[name](targets)


def _posterior(system: System, T: Array) -> Posterior:
    solution = system.solve_targets(T, np.full(T.shape[1], _TOL))
    return Posterior((system.lighter(),), solution.X, {}, _TOL)


def _with_values(rows: TableRows) -> Array:
    return rows.with_values


def _with_ranks(rows: TableRows) -> Array:
    return rows.with_ranks


def _levels(targets: Targets) -> Member:
    posterior = learn_levels(targets.rows.with_values, targets, _PAIRS)
    return Member("levels", posterior, _with_values)


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
    kernel = functions + Interactions(n_pairs) if has_pairs else functions
    terms = AdditiveTerms.of(Constant(), kernel)
    start = Hyperparameters(np.array([0.1]), np.array([1.0]), None)
    learner = Learner(
        "TabularGP", LikelihoodSearch(), _BOUNDS, lambda: targets.seed, 0, warns=False
    )
    n_categories = targets.rows.codes.shape[1]
    values, bound = levels.learn(problem, terms, start, learner, n_categories)
    (scales,) = values.scales()
    return _posterior(problem.system(bound, scales), targets.T)


def _radial(targets: Targets) -> Member:
    return _of_distances("radial", "l2", targets, _with_values)


def _ranks(targets: Targets) -> Member:
    return _of_distances("ranks", "l1", targets, _with_ranks)


def _of_distances(name: MemberName, norm: Norm, targets: Targets, view: Any) -> Member:
    targets = targets.of_rows(targets.told)
    X, n_categories = np.ascontiguousarray(view(targets.rows)), targets.rows.codes.shape[1]
    start = DistanceMixture.start(norm, X.shape[1] - n_categories, n_categories)
    of_rows = X, targets.T, targets.weights, targets.order, targets.n_threads
    kernel, noise = distances.learn(start, *of_rows)
    return member_of_all_pairs(name, kernel, noise, 1.0, targets)


def member_of_all_pairs(
    name: MemberName, kernel: Any, noise: float, amplitude: float, targets: Targets
) -> Member:
    """Return the member of a kernel of all pairs of rows, with the noise that was learned."""
    view = _with_ranks if name == "ranks" else _with_values
    X = np.ascontiguousarray(view(targets.rows))
    bound: Any = MatrixBound(X=X, kernel=kernel, n_threads=targets.n_threads)
    system = System(
        bound=bound,
        noise=noise,
        amplitude=amplitude,
        solver=Solver("cholesky"),
        row_scale=roots(targets.weights),
    )
    return Member(name, _posterior(system, targets.T), view)
