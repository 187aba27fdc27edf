"""The member of functions on levels, where targets are classes: log odds, by Newton's method."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_expit

from histrs._typing import Array
from histrs.gaussian_process._bound.base import Bound
from histrs.gaussian_process._likelihoods.families import Bernoulli
from histrs.gaussian_process._likelihoods.laplace import Mode, find_mode
from histrs.gaussian_process._options import Solver
from histrs.gaussian_process._posterior.posterior import Posterior
from histrs.gaussian_process._systems.system import System
from histrs.gaussian_process._tabular.groups import Group
from histrs.gaussian_process._tabular.members import Member, Targets
from histrs.gaussian_process._tabular.partial_dependence import averaged
from histrs.gaussian_process._tabular.rows import TableRows

# Prior variances that are tried, in units of what suits small effects.
_VARIANCES = (1.0, 0.5)
# Largest entry of the gradient that is left.
_TOL = 1e-2
# Entries of matrices between codes, over all classes: Newton steps on more take longer than all
# else of a fit.
_MOST_ENTRIES = 5e7


class _Found(NamedTuple):
    """A mode, less what only its search asks for."""

    system: System
    weights: Array
    bias: float


@dataclass(frozen=True, kw_only=True)
class LogOdds(Member):
    r"""Functions on levels whose sum is the log odds of a class, of each class or of the second.

    Kernel and relative variances are those that least squares learned. With :math:`p = 1 / (1 +
    e^{-f})`, an effect on `f` is an effect on `p` over :math:`p (1 - p)`. So the first variances
    are the variances of the indicators over :math:`(p (1 - p))^2`. The multiple of these with the
    least log loss of left-out rows is taken.
    """

    biases: Array
    row_weights: Array | None

    @property
    def variances(self) -> tuple[float, ...]:
        """Prior variances of functions, for each output."""
        return tuple(system.amplitude for system in self.posterior.systems)

    def _probabilities(self, rows: TableRows) -> Array:
        return np.asarray(expit(super().mean(rows) + self.biases))

    def mean(self, rows: TableRows) -> Array:
        """Return indicators, standardised."""
        centre, unit = scale_of(self.T)
        return (self._probabilities(rows) - centre) / unit

    def extended(self, rows: TableRows, T: Array, weights: Array | None) -> Self:
        """Return the member with further rows, and all that was learned."""
        bound = self.posterior.bound.inserted(self.view(rows), weights)
        before, n = self.row_weights, len(self.T)
        if before is not None or weights is not None:
            parts = (before, n), (weights, len(T))
            weights = np.concatenate([np.ones(k) if w is None else w for w, k in parts])
        T = np.vstack([self.T, T])
        pairs = zip(T.T, self.variances, strict=True)
        found = [_found(_mode(bound, t > 0.0, v, weights), bound) for t, v in pairs]
        return self.of(found, T, weights)

    def averaged(self, parts: list[TableRows]) -> tuple[Array, Array]:
        """Return mean and standard deviation of the average indicator over groups of rows.

        The standard deviation is that of the log odds times the slope of the indicator.
        """
        # With factors that nothing keeps.
        systems = tuple(replace(system) for system in self.posterior.systems)
        posterior = replace(self.posterior, systems=systems, _made={})
        _, std = averaged(posterior, [self.view(part) for part in parts])
        centre, unit = scale_of(self.T)
        p = [self._probabilities(part) for part in parts]
        means = np.stack([of_rows.mean(axis=0) for of_rows in p])
        slopes = np.stack([np.mean(of_rows * (1.0 - of_rows), axis=0) for of_rows in p])
        return (means - centre) / unit, slopes / unit * std

    @classmethod
    def of(cls, found: list[_Found], T: Array, row_weights: Array | None) -> Self:
        """Return the member of modes that were found."""
        return cls(
            "levels",
            Posterior(
                tuple(mode.system for mode in found),
                np.column_stack([mode.weights for mode in found]),
                {},
                _TOL,
            ),
            T,
            biases=np.array([mode.bias for mode in found]),
            row_weights=row_weights,
        )


def instead_of(group: Group, targets: Targets) -> Group:
    """Return a group of functions on levels that least squares learned, as log odds.

    With too many codes and classes, it stays as it is.
    """
    (learned,) = group.learned
    least_squares = learned.member().posterior
    bound, amplitude = least_squares.bound.lighter(), least_squares.system.amplitude
    n_codes = float(sum(bound.kernel.n_codes))
    if n_codes**2 * targets.T.shape[1] > _MOST_ENTRIES:
        return group
    centre, unit = scale_of(targets.T)
    pairs = zip(targets.T.T, unit, strict=True)
    best = [_best(bound, t > 0.0, amplitude / u**2, targets) for t, u in pairs]
    odds, found = zip(*best, strict=True)
    means = ((expit(np.column_stack(odds)) - centre) / unit)[targets.told]
    member = LogOdds.of(list(found), targets.T, targets.weights)
    return replace(group, learned=(replace(learned, means=means, member=lambda: member),))


def _best(
    bound: Bound, positive: NDArray[np.bool_], variance: float, targets: Targets
) -> tuple[Array, _Found]:
    """Return the log odds of rows that are left out where their loss is least, and the mode."""
    tried, start = [], None
    for multiple in _VARIANCES:
        mode = _mode(bound, positive, multiple * variance, targets.weights, start)
        odds = mode.left_out(targets.stays) + mode.bias
        losses = -log_expit(np.where(positive, odds, -odds))
        loss = float(np.average(losses, weights=targets.weights))
        tried.append((loss, odds, _found(mode, bound)))
        start = mode.weights
    _, odds, found = min(tried, key=lambda entry: entry[0])
    return odds, found


def _found(mode: Mode, bound: Bound) -> _Found:
    return _Found(replace(mode.system, bound=bound), mode.weights, mode.bias)


def _mode(
    bound: Bound,
    positive: NDArray[np.bool_],
    variance: float,
    row_weights: Array | None,
    start: Array | None = None,
) -> Mode:
    base = System(bound=bound, noise=1.0, amplitude=variance, solver=Solver(), row_scale=None)
    return find_mode(base, Bernoulli(), positive, row_weights, _TOL, start)


def scale_of(T: Array) -> tuple[Array, Array]:
    """Return frequencies of classes and standard deviations of indicators, from these."""
    low, high = T.min(axis=0), T.max(axis=0)
    return -low / (high - low), 1.0 / (high - low)
