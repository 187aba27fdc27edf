"""Searches for the best hyper-parameters, and what they leave behind."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy import linalg, optimize
from sklearn.exceptions import ConvergenceWarning

from histrs._progress import SearchProgress, TrainingProgress
from histrs._threads import blas_threads_at_most
from histrs._typing import Array
from histrs._warnings import warn
from histrs.gaussian_process._learning.hyperparameters import (
    SCALES,
    Bounds,
    Hyperparameters,
    SearchSpace,
    check_bounds,
)
from histrs.gaussian_process._learning.leave_one_out import WithLevel, learn_by_leaving_out
from histrs.gaussian_process._learning.likelihood import BaseLikelihood, Likelihood
from histrs.gaussian_process._learning.spectrum import Evaluation, Spectrum
from histrs.gaussian_process._options import LikelihoodSearch, OptimizerName

_MAX_ITER = 100
# Two steps in a row that gain less than this, a sample and output, are the last.
_SETTLED = 1e-4
# Edge of the first simplex, in logarithms.
_EDGE = 0.5
# Ratios of noise to the mean diagonal of the kernel that the search begins with the best of.
_RATIOS = np.logspace(-6, 3, 28)
# What a finer quadrature may move the logarithms of the optimum, or the likelihood of it in units
# of a sample and output, without calling for a finer one still.
_SMALL_MOVE = 0.05
_SMALL_CHANGE = 1e-5
# Rows up to which threads of BLAS mostly wait for one another.
_MANY_ROWS = 4096
_FEW_LEFT_OUT = 1024
# Values of each of the kernel's parameters of which the best is taken by leaving rows out, as
# multiples of the start, the smoothest first.
_TRIED = (0.03, 0.3, 1.0, 3.0)
# Variance of the level in units of the noise, or of the kernel: any level is as likely.
_LEVEL = 30.0


@dataclass
class History:
    """Every evaluation of a search, in order."""

    values: list[Hyperparameters] = field(default_factory=list)
    likelihoods: list[float] = field(default_factory=list)

    def arrays(self, names: list[str]) -> dict[str, Array]:
        """Return the likelihood and each hyper-parameter as arrays, an entry an evaluation."""
        found = {"log_marginal_likelihood": np.array(self.likelihoods)}
        return found | {name: np.array([v.get(name) for v in self.values]) for name in names}


@dataclass(frozen=True)
class Optimum:
    """Where a search ended."""

    values: Hyperparameters
    likelihood: float
    complaint: str | None
    """What the optimiser said when it did not converge."""


@dataclass
class _Objective:
    """The negative likelihood over a search space, for SciPy."""

    function: Callable[[Hyperparameters, list[str]], Evaluation]
    space: SearchSpace
    record: Callable[[Hyperparameters, float], None] | None
    start: Array
    with_gradient: bool
    worst: float = -np.inf

    def __post_init__(self) -> None:
        self.best: tuple[float, Array] = (np.inf, self.start)

    def __call__(self, theta: Array) -> Any:
        values = self.space.unpack(theta)
        names = self.space.names if self.with_gradient else []
        try:
            evaluation = self.function(values, names)
            value = -evaluation.value
            if not evaluation.solved and np.isfinite(self.worst):
                # What the solver leaves makes the likelihood too large.
                value = np.inf
        except (ValueError, linalg.LinAlgError):
            # Out there the system cannot be solved; at the start there is nothing to go back to.
            if not np.isfinite(self.worst):
                raise
            value = np.inf
        if not np.isfinite(value):
            value = self.worst + abs(self.worst) + 1.0
            return (value, np.zeros_like(theta)) if self.with_gradient else value
        if self.record is not None:
            self.record(values, -value)
        self.worst = max(self.worst, value)
        if value < self.best[0]:
            self.best = (value, theta.copy())
        if not self.with_gradient:
            return value
        return value, -self.space.pack_values(evaluation.gradient)


@dataclass
class _Settled:
    """Ends a search that gains no more than its noise."""

    least_gain: float
    last: float = np.inf
    n_small: int = 0

    def __call__(self, intermediate_result: optimize.OptimizeResult) -> None:
        value = float(intermediate_result.fun)
        self.n_small = self.n_small + 1 if self.last - value < self.least_gain else 0
        self.last = value
        if self.n_small == 2:
            raise StopIteration


@dataclass
class Search:
    """Maximises the likelihood, first over noise and amplitude, then over all.

    It begins with the best of some `kernels`, each with the noise and amplitude that suit it, where
    the likelihood may have several maxima. `callback` is told of every likelihood.
    """

    likelihood: BaseLikelihood
    space: SearchSpace
    method: OptimizerName
    callback: Callable[[float], None]
    kernels: Sequence[Any] = ()
    least_gain: float = 0.0
    history: History = field(default_factory=History, init=False)

    def _record(self, values: Hyperparameters, likelihood: float) -> None:
        self.history.values.append(values)
        self.history.likelihoods.append(likelihood)
        self.callback(likelihood)

    def run(self, n_restarts: int, make_rng: Callable[[], np.random.Generator]) -> Optimum:
        """Search from the start of the space and from some between its bounds; keep the best.

        There is a generator where there is something to draw.
        """
        low, high = self.space.bounds.T
        drawn = []
        if n_restarts > 0:
            rng = make_rng()
            drawn = [self.space.unpack(rng.uniform(low, high)) for _ in range(n_restarts)]
        optima = [self._run(self._best_start())]
        for start in drawn:
            # Between the bounds there may be starts at which nothing can be solved.
            with suppress(ValueError, linalg.LinAlgError):
                optima.append(self._run(start))
        return max(optima, key=lambda optimum: optimum.likelihood)

    def _best_start(self) -> Hyperparameters:
        """Return the best of the kernels to begin with, with its noise and amplitude."""
        start = self.space.start
        starts = [replace(start, kernel=kernel) for kernel in self.kernels]
        if not starts:
            return start
        if self._scales():
            optima = [self._search_scales(self.space.only(self._scales(), each)) for each in starts]
            return max(optima, key=lambda optimum: optimum.likelihood).values
        return max(starts, key=lambda values: self.likelihood.evaluate(values).value)

    def _scales(self) -> list[str]:
        return [name for name in self.space.names if name in SCALES]

    def _run(self, start: Hyperparameters) -> Optimum:
        names = self.space.names
        optimum = Optimum(start, -np.inf, None)
        scales = self._scales()
        if scales and self.likelihood.has_spectrum:
            optimum = self._search_scales(self.space.only(scales, start))
        if set(names) - set(scales) or not self.likelihood.has_spectrum:
            if start.kernel.scale_is_among(names):
                # It would only multiply them.
                names = [name for name in names if name != "amplitude"]
            space = self.space.only(names, optimum.values)
            n_outputs = self.likelihood.shape[1]
            optimum = self._search(self.likelihood.evaluate, space, self._record, n_outputs)
        return optimum

    def _search_scales(self, space: SearchSpace) -> Optimum:
        """Search noise and amplitude, whose likelihood costs no product with the kernel matrix."""
        spectrum = self.likelihood.spectrum(space.start.kernel)
        n_terms = np.prod(self.likelihood.shape)
        optimum = self._search_spectrum(spectrum, space)
        while spectrum.refine():
            before, optimum = optimum, self._search_spectrum(spectrum, space)
            move = np.abs(space.pack(optimum.values) - space.pack(before.values))
            change = abs(optimum.likelihood - before.likelihood)
            if np.all(move <= _SMALL_MOVE) or change <= _SMALL_CHANGE * n_terms:
                break
        return optimum

    def _search_spectrum(self, spectrum: Spectrum, space: SearchSpace) -> Optimum:
        """Search every pair of noise and amplitude by itself."""
        outputs = space.start.outputs(self.likelihood.shape[1])
        optima = [
            self._search_pair(spectrum, space.only(space.names, space.start.pair(k)), outputs[k])
            for k in range(len(outputs))
        ]
        values = space.start.with_values(
            {
                name: np.concatenate([optimum.values.get(name) for optimum in optima])
                for name in ("noise", "amplitude")
            }
        )
        complaints = [optimum.complaint for optimum in optima if optimum.complaint is not None]
        likelihood = sum(optimum.likelihood for optimum in optima)
        if len(optima) > 1:
            self._record(values, likelihood)
        return Optimum(values, likelihood, complaints[0] if complaints else None)

    def _search_pair(self, spectrum: Spectrum, space: SearchSpace, outputs: slice) -> Optimum:
        def evaluate(values: Hyperparameters, _: list[str] | None = None) -> Evaluation:
            return spectrum.evaluate(values.scales()[0], outputs)

        candidates = [space.start, *self._scale_candidates(spectrum, space, outputs)]
        likelihoods = [evaluate(values).value for values in candidates]
        best = space.only(space.names, candidates[int(np.nanargmax(likelihoods))])
        # The history is of all outputs.
        record = self._record if outputs == slice(0, self.likelihood.shape[1]) else None
        return self._search(evaluate, best, record, outputs.stop - outputs.start)

    def _scale_candidates(
        self, spectrum: Spectrum, space: SearchSpace, outputs: slice
    ) -> list[Hyperparameters]:
        """Return noises and amplitudes of every ratio, each with the amplitude that is best."""
        start = space.start.scales()[0]
        unit = self.likelihood.diagonal_mean(space.start.pair(0))
        found = []
        for ratio in _RATIOS * (unit if unit > 0.0 else 1.0):
            # Of kernels that nearly vanish, what overflows is left out below.
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                values = {"noise": ratio * start.amplitude}
                if "amplitude" in space.names:
                    amplitude = spectrum.best_amplitude(ratio, outputs)
                    values = {"noise": ratio * amplitude, "amplitude": amplitude}
                    if "noise" not in space.names:
                        values = {"noise": start.noise, "amplitude": start.noise / ratio}
            if all(np.isfinite(v) and v > 0.0 for v in values.values()):
                arrays = {name: np.array([value]) for name, value in values.items()}
                theta = space.pack(space.start.with_values(arrays))
                found.append(space.unpack(space.clip(theta)))
        return found

    def _search(
        self,
        function: Callable[[Hyperparameters, list[str]], Evaluation],
        space: SearchSpace,
        record: Callable[[Hyperparameters, float], None] | None,
        n_outputs: int,
    ) -> Optimum:
        start = space.clip(space.pack(space.start))
        with_gradient = self.method == "l-bfgs-b"
        objective = _Objective(function, space, record, start, with_gradient)
        options = (
            self._gradient_options(n_outputs)
            if with_gradient
            else self._simplex_options(space, start)
        )
        bounds = optimize.Bounds(*space.bounds.T)
        result = optimize.minimize(objective, start, bounds=bounds, **options)
        value, theta = objective.best
        # A line search may end in the noise of the solver, which does no harm once it has moved.
        settled_well = result.success or result.status == 99
        ends = (0, options["options"]["maxiter"])
        stuck = not settled_well and result.nit in ends
        return Optimum(space.unpack(theta), -value, str(result.message) if stuck else None)

    def _gradient_options(self, n_outputs: int) -> dict[str, Any]:
        settled = _SETTLED * float(self.likelihood.shape[0] * n_outputs)
        least_gain = max(settled, self.least_gain)
        return {
            "method": "L-BFGS-B",
            "jac": True,
            "callback": _Settled(least_gain),
            "options": {"maxiter": _MAX_ITER, "ftol": 1e-9},
        }

    def _simplex_options(self, space: SearchSpace, start: Array) -> dict[str, Any]:
        # Away from the bounds, where a corner would lie on the first.
        inward = np.where(start + _EDGE <= space.bounds[:, 1], _EDGE, -_EDGE)
        corners = np.vstack([start, start + np.diag(inward)])
        options = {
            "initial_simplex": np.clip(corners, *space.bounds.T),
            "xatol": 1e-2,
            "fatol": 1e-2,
            "maxiter": _MAX_ITER * max(len(start), 1),
        }
        return {"method": "Nelder-Mead", "options": options}


@dataclass
class Learner:
    """What a process says of searches for its hyper-parameters, and the history of the last one."""

    name: str
    """Of the process, for what it tells the user."""
    search: LikelihoodSearch
    bounds: Mapping[str, Any]
    """Of noise and amplitude."""
    seed: Any
    """Returns what all random choices begin with."""
    verbose: int
    warns: bool = True
    """Whether it tells the user; of parts of a blend, it does not."""
    least_gain: float = 0.0
    """Two steps in a row that gain less are the last."""
    history: dict[str, Array] | None = field(default=None, init=False)
    """Every evaluation of the last search; None where there was none."""

    def space(self, start: Hyperparameters) -> SearchSpace:
        """Return the space of the hyper-parameters that are learned."""
        bounds: dict[str, Bounds] = {
            name: check_bounds(name, pair) for name, pair in self.bounds.items()
        }
        bounds |= start.kernel.free()
        return SearchSpace(start, {name: b for name, b in bounds.items() if b != "fixed"})

    def best(
        self,
        start: Hyperparameters,
        likelihood: BaseLikelihood,
        names: Collection[str] | None = None,
    ) -> Hyperparameters:
        """Return hyper-parameters of largest marginal likelihood: all that are free, or some."""
        self.history = None
        space = self.space(start)
        if names is not None:
            space = space.only(names, start)
        if self.search.method is None or not space.names:
            return start
        space.check_start()
        if not likelihood.has_gradient and self.search.method == "l-bfgs-b":
            raise ValueError(
                "log_det='bound' has no gradient: choose the method 'nelder-mead' of a "
                "LikelihoodSearch."
            )
        if likelihood.targets_are_constant:
            self.warn(
                "y is constant, so hyper-parameters cannot be learned and are kept as given; "
                "check y."
            )
            return start
        kernels = space.start.kernel.starts(
            {name: space.bounds_of(name) for name in space.names if name not in SCALES}
        )
        few = likelihood.shape[0] <= _MANY_ROWS
        with (
            SearchProgress(self.name, self.verbose) as progress,
            blas_threads_at_most(1) if few else nullcontext(),
        ):
            search = Search(
                likelihood, space, self.search.method, progress, kernels, self.least_gain
            )
            best = search.run(self.search.n_restarts, lambda: np.random.default_rng(self.seed()))
        self.history = search.history.arrays(space.names)
        if best.complaint is not None:
            self.warn(
                f"The optimizer stopped early ({best.complaint}); the best hyper-parameters that "
                "it met are kept. Try other starting values, n_restarts of a LikelihoodSearch, or "
                "a smaller tol."
            )
        ends = space.at_bounds(space.pack(best.values))
        if ends:
            self.warn(
                f"The search ended with {' and '.join(ends)}, and these values are kept. Widen the "
                "bounds if you did not intend this."
            )
        return best.values

    def warn(self, message: str) -> None:
        """Warn of what a search could not do."""
        if self.warns:
            warn(f"{self.name}: {message}", ConvergenceWarning)

    def by_leaving_out(self, start: Hyperparameters, likelihood: Likelihood) -> Hyperparameters:
        """Return the hyper-parameters that predict the classes of rows best without these."""
        self.history = None
        space = self.space(start)
        space.check_start()
        if not space.names:
            return start
        if likelihood.targets_are_constant:
            self.warn(
                "y has one class, so hyper-parameters cannot be learned and are kept as given; "
                "give rows of two classes."
            )
            return start
        kernels = [start.kernel]
        for name in space.names:
            if name not in SCALES:
                value = start.kernel.parameter(name)
                kernels = [k.with_parameters({name: t * value}) for k in kernels for t in _TRIED]
        few = likelihood.shape[0] <= _FEW_LEFT_OUT
        with (
            TrainingProgress(self.name, self.verbose) as progress,
            blas_threads_at_most(1) if few else nullcontext(),
        ):
            self.history, chosen = learn_by_leaving_out(likelihood, space, kernels, progress)
        level = max(1.0, _LEVEL * float(chosen.noise[0] / chosen.amplitude[0]))
        return replace(chosen, kernel=WithLevel.of(chosen.kernel, level))
