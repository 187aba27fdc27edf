"""The posterior of a Gaussian process: what predictions are made of, and never changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self, TypeVar, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from histrs._calibration import Readout
from histrs._checks.rows import in_row_blocks
from histrs._checks.scale import check_computed, may_overflow
from histrs._solvers.preconditioners import Indices
from histrs._typing import Array
from histrs._warnings import warn
from histrs.gaussian_process._bound.additive import MinimaBound
from histrs.gaussian_process._bound.base import Bound
from histrs.gaussian_process._bound.levels import LevelBound
from histrs.gaussian_process._bound.pairs import PairTerm
from histrs.gaussian_process._bound.scores import ExactScore, Score
from histrs.gaussian_process._bound.splines import SmoothTerm
from histrs.gaussian_process._likelihoods.laplace import BiasSolution
from histrs.gaussian_process._options import Interpolation, VarianceName
from histrs.gaussian_process._posterior.cached_variance import CachedVariance, n_solved_of
from histrs.gaussian_process._posterior.variance import (
    DEFAULT_BINS,
    CoarseVariance,
    FineVariance,
    Variance,
)
from histrs.gaussian_process._posterior.variance_bounds import are_near, variance_bounds
from histrs.gaussian_process._systems.system import System

Made = TypeVar("Made")


@dataclass(frozen=True)
class Posterior:
    """Weights of training rows, with the linear systems that they solve.

    Targets have scale 1 in here; readouts turn what is predicted of them into the user's units.
    """

    systems: tuple[System, ...]
    """One for each pair of noise and amplitude: one for all outputs, or one for each."""
    weights: Array
    """`(K + s I)^-1 Y` of shape (n_samples, n_outputs)."""
    readouts: dict[str, Readout]
    """By name."""
    tol: float
    """Tolerance of solves for variances."""
    of_bias: tuple[BiasSolution, ...] = ()
    """Of the constant beside the kernel of each system, where there is one."""
    _made: dict[tuple[Any, ...], Any] = field(default_factory=dict, compare=False)

    @property
    def system(self) -> System:
        """The system of the first output; all share its rows."""
        return self.systems[0]

    @property
    def bound(self) -> Bound:
        """The kernel on the training rows."""
        return self.system.bound

    @property
    def additive(self) -> MinimaBound:
        """The same, where it is a sum of functions of features and of pairs.

        Raises
        ------
        ValueError
            If it is none, with the kernel.
        """
        if not isinstance(self.bound, MinimaBound):
            raise ValueError(
                f"{self.system.kernel!r} is no sum of functions of single features and of pairs: "
                "fit Intersection or Splines, without levels, to take predictions apart."
            )
        return self.bound

    @property
    def pairs(self) -> PairTerm | None:
        """What pairs of features add to the kernel."""
        return self.additive.pairs

    @cached_property
    def amplitude(self) -> Array:
        """Signal variances, one for each system."""
        return np.array([system.amplitude for system in self.systems])

    @cached_property
    def noise(self) -> Array:
        """Noise variances, one for each system."""
        return np.array([system.noise for system in self.systems])

    def of_outputs(self, outputs: Indices, readouts: dict[str, Readout]) -> Self:
        """Return the posterior of some of the outputs."""
        shared = len(self.systems) == 1
        systems = self.systems if shared else tuple(self.systems[k] for k in outputs)
        weights = np.ascontiguousarray(self.weights[:, outputs])
        # What was made is of all of them.
        return replace(self, systems=systems, weights=weights, readouts=readouts, _made={})

    @property
    def n_outputs_a_system(self) -> int:
        """How many outputs share a system."""
        return self.weights.shape[1] if len(self.systems) == 1 else 1

    @property
    def is_factorised(self) -> bool:
        """Whether all is solved by Cholesky factors."""
        return all(system.uses_cholesky(self.n_outputs_a_system) for system in self.systems)

    def _once(self, key: tuple[Any, ...], make: Callable[[], Made]) -> Made:
        """Return what is costly to make, made when it is first asked for.

        Threads that ask at once may make it twice, which does no harm.
        """
        if key not in self._made:
            self._made[key] = make()
        made: Made = self._made[key]
        return made

    # ---- means -------------------------------------------------------------------------------

    def _weights_of(self, name: str) -> Array:
        """Return the weights of training rows with which a readout is predicted."""
        weights: Array = self.weights @ self.readouts[name].matrix
        return weights

    def score(
        self, name: str, n_bins: int | None = None, interpolation: Interpolation = "linear"
    ) -> Score:
        """Return a readout as a score of rows, less its offset; with bins, from a table."""
        return self._once(
            ("score", name, n_bins, interpolation),
            lambda: self.bound.score(self._weights_of(name), n_bins, interpolation),
        )

    def read(
        self,
        name: str,
        X: Any,
        n_threads: int,
        n_bins: int | None = None,
        interpolation: Interpolation = "linear",
    ) -> Array:
        """Return a readout of the posterior mean for every row (eq. 2)."""
        score = self.score(name, n_bins, interpolation)
        if score.takes_features:
            return score.evaluate(X, n_threads) + self.readouts[name].offset

        def of_rows(rows: Any) -> Array:
            if getattr(rows, "dtype", None) == np.uint8:
                rows = rows.astype(np.float32)
            return score.evaluate(self.bound.rows_of(rows), n_threads)

        return in_row_blocks(X, of_rows) + self.readouts[name].offset

    def intercept(self, name: str) -> Array:
        """Return what a readout is of a row to which no feature adds anything."""
        return self.bound.intercepts(self._weights_of(name)) + self.readouts[name].offset

    # ---- variances ---------------------------------------------------------------------------

    def latent_covariance(self, X: Any) -> Array:
        """Return the posterior covariances of rows, of shape (n_systems, n_rows, n_rows)."""
        covariance = np.stack(
            [a * s.latent_covariance(X) for a, s in zip(self.amplitude, self.systems, strict=True)]
        )
        for C, root in zip(covariance, self._roots_of_bias(X, 1.0).T, strict=True):
            C += np.outer(root, root)
        return covariance

    def _roots_of_bias(self, X: Any, prior: float) -> Array:
        """Return the roots of what constants add to covariances, a column for each system."""
        bound = self.bound

        def score(V: Array) -> Array:
            return in_row_blocks(X, lambda rows: bound.cross_product(bound.rows_of(rows), V))

        return self.roots_of_bias(score, X.shape[0], prior)

    def roots_of_bias(self, score: Callable[[Array], Array], n: int, prior: float) -> Array:
        """Return the roots of what constants add to covariances of `n` numbers, a column each.

        `score` gives these numbers of functions with weights of training rows.
        """
        if not self.of_bias:
            return np.zeros((n, len(self.systems)))
        seen = score(np.column_stack([b.weights for b in self.of_bias]))
        roots = [b.root_covariance(s, prior) for b, s in zip(self.of_bias, seen.T, strict=True)]
        return np.column_stack(roots)

    def variance_of(self, prior: Array, cross: Callable[[slice], Array]) -> Array:
        """Return the posterior variances of numbers, exactly, a column for each system.

        `prior` are their variances before, and `cross` gives the covariances of some of them with
        the training rows, a column for each; both without amplitude.
        """
        columns = []
        for system in self.systems:
            variance, solved = system.variance_of(prior, cross, self.tol, self.n_outputs_a_system)
            _warn_of_unsolved(system, solved)
            columns.append(variance)
        return np.column_stack(columns) * self.amplitude

    def latent_variance(
        self, X: Any, method: VarianceName, n_bins: int | None, n_eigenvectors: int
    ) -> Array:
        """Return the posterior variance of latent functions, a column for each system (eq. 3)."""
        with may_overflow():
            variance = self._latent_variance(X, method, n_bins, n_eigenvectors)
            variance += self._roots_of_bias(X, 1.0) ** 2
        check_computed(variance, "Variances")
        return variance

    def _latent_variance(
        self, X: Any, method: VarianceName, n_bins: int | None, n_eigenvectors: int
    ) -> Array:
        columns = []
        for k, system in enumerate(self.systems):
            name = self._method_of(k, method)
            if name == "exact":
                n_outputs = self._n_solved(k) if method == "auto" else self.n_outputs_a_system
                columns.append(self._exact_variance(system, X, n_outputs))
            else:
                columns.append(in_row_blocks(X, self._variance(k, name, n_bins, n_eigenvectors).of))
        variance: Array = np.column_stack(columns) * self.amplitude
        return variance

    def _method_of(self, k: int, method: VarianceName) -> VarianceName:
        """Return how variances of a system are computed, once that is chosen."""
        if method == "auto":
            return "exact" if self.has_exact_variance(k) else "cached"
        # Where a matrix is factorised as a matter of course, there is nothing to save.
        return "exact" if method == "cached" and not self.bound.refines else method

    def has_exact_variance(self, k: int) -> bool:
        """Whether a system has, or is worth, a factor by which variances are exact.

        What is cached takes solves for some rows, which may be worth one too. Once it is decided,
        it stays so: variances must not change from call to call.
        """
        system, n_solved = self.systems[k], self._n_solved(k)
        return self._once(("has exact", k), lambda: system.uses_cholesky(n_solved))

    def _n_solved(self, k: int) -> int:
        """Return how many right-hand sides a system is solved for at once, at most."""
        return max(self.n_outputs_a_system, n_solved_of(self.systems[k].bound.n_rows))

    def std_error(self, method: VarianceName) -> float:
        """Return the mean relative error of standard deviations; 0 where they are exact.

        Raises
        ------
        AttributeError
            If they are bounds, whose distance is not measured.
        """
        if method not in ("auto", "exact", "cached"):
            raise AttributeError(f"std_error_ is not measured with variance={method!r}.")
        ks = [k for k in range(len(self.systems)) if self._method_of(k, method) == "cached"]
        return max((self.cached_variance(k).error for k in ks), default=0.0)

    def variance_bounds(self, X: Any, gap: float) -> tuple[Array, Array]:
        """Return what posterior variances are between, a column for each system."""
        if not self.bound.refines:
            # A factor of the matrix itself gives them exactly.
            variance = self.latent_variance(X, "exact", None, 0)
            return variance, variance
        bounds = [variance_bounds(system, X, gap) for system in self.systems]
        near = [
            are_near(system, *pair, gap) for system, pair in zip(self.systems, bounds, strict=True)
        ]
        if not np.all(near):
            warn(
                f"The bounds of {np.sum(~np.all(near, axis=0))} rows hold, but are further apart "
                "than asked for. Raise max_iter of a Solver, or noise.",
                ConvergenceWarning,
            )
        lower, upper = (np.column_stack(side) for side in zip(*bounds, strict=True))
        return lower * self.amplitude, upper * self.amplitude

    def _variance(
        self, k: int, name: VarianceName, n_bins: int | None, n_eigenvectors: int
    ) -> Variance:
        system = self.systems[k]
        if name == "cached":
            return self.cached_variance(k)
        if name == "fine":
            return self._once(
                (name, k, n_eigenvectors), lambda: FineVariance(system, n_eigenvectors)
            )
        bins = (n_bins or DEFAULT_BINS) if name == "coarse-quantized" else None
        return self._once((name, k, bins), lambda: CoarseVariance(system, bins))

    @property
    def has_cached_variance(self) -> bool:
        """Whether variances are at hand: by a factor, or from what was solved once."""
        return self.is_factorised or ("cached", 0) in self._made

    def cached_variance(self, k: int) -> CachedVariance:
        """Return the variances of a system, from what was solved once."""
        system = self.systems[k]
        return self._once(("cached", k), lambda: CachedVariance(system, system.bound.n_solved))

    def _exact_variance(self, system: System, X: Any, n_outputs: int) -> Array:
        variance, solved = system.latent_variance(X, self.tol, n_outputs)
        _warn_of_unsolved(system, solved)
        return variance

    # ---- functions of features, and of pairs -------------------------------------------------

    def read_features(self, name: str, X: Any, n_threads: int) -> Array:
        """Return what the features of every row add to a readout, without pairs and offset."""
        bound = self.additive
        score = self._once(
            ("features", name),
            lambda: ExactScore(bound.columns, self._weights_of(name), bound.n_threads),
        )
        return score.evaluate(bound.rows_of(X), n_threads)

    def feature_variance(self, X: Any) -> Array:
        """Return the posterior variance of that, exactly, a column for each system."""
        variance = self.variance_of(*self.additive.of_features(X))
        return variance + self._roots_of_bias(X, 0.0) ** 2

    def level_term(self, k: int, *, with_variance: bool) -> tuple[Array, Array | None]:
        """Return what a term on levels adds to means at its codes, and the variance of that."""
        bound = cast(LevelBound, self.bound)
        W = self._once(
            ("weights", "mean"), lambda: bound.weights_of_functions(self._weights_of("mean"))
        )
        ramps, of_term = bound.kernel.part(k)
        values: Array = ramps @ W[of_term]
        if not with_variance:
            return values, None
        variances = [system.factor.function_variance(k) for system in self.systems]
        return values, np.column_stack(variances) * self.amplitude

    def feature_term(self, feature: int) -> SmoothTerm | None:
        """Return the part of the kernel that is of one feature, where functions are smooth."""
        smooth = self.additive.smooth
        if smooth is None:
            return None
        return self._once(("term", feature), lambda: smooth.of_feature(feature))

    def pair_cells(self, name: str) -> Array:
        """Return what each cell of the pairs adds to a readout."""

        def make() -> Array:
            V = self._weights_of(name)
            return np.empty((0, V.shape[1])) if self.pairs is None else self.pairs.cell_values(V)

        return self._once(("cells", name), make)

    def pair_variance(self, k: int, cells: Array) -> Array:
        """Return the posterior variance of mixtures of a pair's cells, a column per system."""
        if self.pairs is None:
            raise ValueError("The kernel has no pairs.")
        return self.variance_of(*self.pairs.of_pair(k, cells))


def _warn_of_unsolved(system: System, solved: NDArray[np.bool_]) -> None:
    if not np.all(solved):
        warn(
            f"The variance of {np.sum(~solved)} rows did not converge in {system.solver.max_iter} "
            "iterations and is too large there. Raise max_iter of a Solver, tol or noise.",
            ConvergenceWarning,
        )
