"""The posterior of a Gaussian process: what predictions are made of, and never changes."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Self, TypeVar

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
from histrs.gaussian_process._bound.scores import Score
from histrs.gaussian_process._likelihoods.laplace import BiasSolution
from histrs.gaussian_process._options import Interpolation, VarianceName
from histrs.gaussian_process._posterior.cached_variance import CachedVariance, n_solved_of
from histrs.gaussian_process._posterior.variance import (
    DEFAULT_BINS,
    CoarseVariance,
    FineVariance,
    Variance,
    are_near,
    variance_bounds,
)
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
    _made: dict[Hashable, Any] = field(default_factory=dict, compare=False)

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

        Raises ValueError if it is none, with the kernel.
        """
        if not isinstance(self.bound, MinimaBound):
            raise ValueError(
                f"{self.system.kernel!r} is not a sum of functions of one or two features: fit "
                "Intersection or Splines, without levels, to split predictions into contributions."
            )
        return self.bound

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

    def once(self, key: Hashable, make: Callable[[], Made]) -> Made:
        """Return what is costly to make, made when it is first asked for.

        Threads that ask at once may make it twice, which does no harm.
        """
        if key not in self._made:
            self._made[key] = make()
        made: Made = self._made[key]
        return made

    # ---- means -------------------------------------------------------------------------------

    def weights_of(self, name: str) -> Array:
        """Return the weights of training rows with which a readout is predicted.

        Those of functions that a constraint replaces are below them.
        """
        weights: Array = self.bound.with_curves(self.weights) @ self.readouts[name].matrix
        return weights

    def score(
        self, name: str, n_bins: int | None = None, interpolation: Interpolation = "linear"
    ) -> Score:
        """Return a readout as a score of rows, less its offset; with bins, from a table."""
        return self.once(
            ("score", name, n_bins, interpolation),
            lambda: self.bound.score(self.weights_of(name), n_bins, interpolation),
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
        return self.bound.intercepts(self.weights_of(name)) + self.readouts[name].offset

    # ---- variances ---------------------------------------------------------------------------

    def latent_covariance(self, X: Any) -> Array:
        """Return the posterior covariances of rows, of shape (n_systems, n_rows, n_rows)."""
        covariance = np.stack(
            [a * s.latent_covariance(X) for a, s in zip(self.amplitude, self.systems, strict=True)]
        )
        for C, root in zip(covariance, self._roots_of_bias_at(X).T, strict=True):
            C += np.outer(root, root)
        return covariance

    def _roots_of_bias_at(self, X: Any) -> Array:
        """Return the roots of what constants add to covariances of rows."""

        def of_rows(rows: Any) -> Array:
            return self._roots_of_bias(
                partial(self.bound.cross_product, self.bound.rows_of(rows)), 1.0
            )

        return (
            in_row_blocks(X, of_rows) if self.of_bias else np.zeros((X.shape[0], len(self.systems)))
        )

    def _roots_of_bias(self, score: Callable[[Array], Array], prior: float) -> Array:
        """Return the roots of what constants add to covariances of numbers, a column a system.

        `score` gives these numbers of functions with weights of training rows.
        """
        seen = score(np.column_stack([b.weights for b in self.of_bias]))
        roots = [b.root_covariance(s, prior) for b, s in zip(self.of_bias, seen.T, strict=True)]
        return np.column_stack(roots)

    def variance_of(
        self,
        prior: Array,
        cross: Callable[[slice], Array],
        score: Callable[[Array], Array] | None = None,
    ) -> Array:
        """Return the posterior variances of numbers, exactly, a column for each system.

        `prior` are their variances before, and `cross` gives the covariances of some of them with
        the training rows, a column for each; both without amplitude. `score` gives these numbers of
        functions with weights of training rows, where a constant beside the kernel matters to them.
        """
        columns = []
        for system in self.systems:
            variance, solved = system.variance_of(prior, cross, self.tol, self.n_outputs_a_system)
            _warn_of_unsolved(system, solved)
            columns.append(variance)
        variances: Array = np.column_stack(columns) * self.amplitude
        if self.of_bias and score is not None:
            variances += self._roots_of_bias(score, 0.0) ** 2
        return variances

    def latent_variance(
        self, X: Any, method: VarianceName, n_bins: int | None, n_eigenvectors: int
    ) -> Array:
        """Return the posterior variance of latent functions, a column for each system (eq. 3)."""
        columns = []
        with may_overflow():
            for k, system in enumerate(self.systems):
                name = self._method_of(k, method)
                if name == "exact":
                    n_outputs = self._n_solved(k) if method == "auto" else self.n_outputs_a_system
                    variance, solved = system.latent_variance(X, self.tol, n_outputs)
                    _warn_of_unsolved(system, solved)
                else:
                    made = self._variance(k, name, n_bins, n_eigenvectors)
                    variance = in_row_blocks(X, made.of)
                columns.append(variance)
            variances: Array = np.column_stack(columns) * self.amplitude
            variances += self._roots_of_bias_at(X) ** 2
        check_computed(variances, "Variances")
        return variances

    def _method_of(self, k: int, method: VarianceName) -> VarianceName:
        """Return how variances of a system are computed, once that is chosen."""
        if method == "auto":
            # Decided once: variances must not change from call to call.
            system, n_solved = self.systems[k], self._n_solved(k)
            is_exact = self.once(("has exact", k), lambda: system.uses_cholesky(n_solved))
            return "exact" if is_exact else "cached"
        # Where a matrix is factorised as a matter of course, there is nothing to save.
        return "exact" if method == "cached" and not self.bound.refines else method

    def _n_solved(self, k: int) -> int:
        """Return how many right-hand sides a system is solved for at once, at most."""
        return max(self.n_outputs_a_system, n_solved_of(self.systems[k].bound.n_rows))

    def std_error(self, method: VarianceName) -> float:
        """Return the mean relative error of standard deviations; 0 where they are exact.

        Raises AttributeError if they are bounds, whose distance is not measured.
        """
        if method not in ("auto", "exact", "cached"):
            raise AttributeError(
                f"variance={method!r} has no std_error_: choose 'cached' or 'auto'."
            )
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
            return self.once(
                (name, k, n_eigenvectors), lambda: FineVariance(system, n_eigenvectors)
            )
        bins = (n_bins or DEFAULT_BINS) if name == "coarse-quantized" else None
        return self.once((name, k, bins), lambda: CoarseVariance(system, bins))

    @property
    def has_variances_at_hand(self) -> bool:
        """Whether variances take no solves any more: by a factor, or by what was solved once."""
        return self.is_factorised or ("cached", 0) in self._made

    def cached_variance(self, k: int) -> CachedVariance:
        """Return the variances of a system, from what was solved once."""
        system = self.systems[k]
        return self.once(("cached", k), lambda: CachedVariance(system, system.bound.n_solved))


def _warn_of_unsolved(system: System, solved: NDArray[np.bool_]) -> None:
    if not np.all(solved):
        warn(
            f"The variance of {np.sum(~solved)} rows did not converge in {system.solver.max_iter} "
            "iterations and is too large there. Raise max_iter of a Solver, tol or noise.",
            ConvergenceWarning,
        )
