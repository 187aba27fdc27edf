"""The member of functions on levels, where targets are classes: log odds, by Newton's method."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_expit

from histrs._typing import Array
from histrs.gaussian_process._bound.base import Bound
from histrs.gaussian_process._likelihoods.laplace import Mode, find_mode
from histrs.gaussian_process._options import Solver
from histrs.gaussian_process._posterior.posterior import Posterior
from histrs.gaussian_process._systems.system import System
from histrs.gaussian_process._tabular.groups import Group
from histrs.gaussian_process._tabular.members import Member, Targets
from histrs.gaussian_process._tabular.rows import TableRows

# Prior variances that are tried, in units of what suits small effects.
_VARIANCES = (0.5, 1.0, 2.0)
# Largest entry of the gradient that is left.
_TOL = 1e-3
# More classes stay regressed: each has Newton steps of its own.
MOST_CLASSES = 10


@dataclass(frozen=True, kw_only=True)
class LogOdds(Member):
    r"""Functions on levels whose sum is the log odds of a class, of each class or of the second.

    Kernel and relative variances are those that least squares learned. With
    :math:`p = 1 / (1 + e^{-f})`, an effect on `p` is one on `f` over :math:`p (1 - p)`: so
    variances begin with those of the indicators times that squared, and the best multiple is that
    with the least log loss of rows that are left out.
    """

    variances: tuple[float, ...]
    """Of functions, for each output."""
    biases: Array
    row_weights: Array | None

    def mean(self, rows: TableRows) -> Array:
        """Return indicators, standardised."""
        centre, unit = _scale(self.T)
        return (expit(super().mean(rows) + self.biases) - centre) / unit

    def extended(self, rows: TableRows, T: Array, weights: Array | None) -> Self:
        """Return the member with further rows, and all that was learned."""
        bound = self.posterior.bound.inserted(self.view(rows), weights)
        before, n = self.row_weights, len(self.T)
        if before is not None or weights is not None:
            parts = (before, n), (weights, len(T))
            weights = np.concatenate([np.ones(k) if w is None else w for w, k in parts])
        T = np.vstack([self.T, T])
        pairs = zip(T.T, self.variances, strict=True)
        modes = [_mode(bound, t > 0.0, v, weights) for t, v in pairs]
        return self.of(modes, T, weights)

    @classmethod
    def of(cls, modes: list[Mode], T: Array, row_weights: Array | None) -> Self:
        """Return the member of modes that were found."""
        system = modes[0].system
        # Only its kernel and rows are asked for: without the factor.
        system = replace(system, bound=system.bound.lighter())
        weights = np.column_stack([mode.weights for mode in modes])
        posterior = Posterior((system,), weights, {}, _TOL)
        return cls(
            "levels",
            posterior,
            T,
            variances=tuple(mode.system.amplitude for mode in modes),
            biases=np.array([mode.bias for mode in modes]),
            row_weights=row_weights,
        )


def instead_of(group: Group, targets: Targets) -> Group:
    """Return a group of functions on levels that least squares learned, as log odds."""
    (learned,) = group.learned
    least_squares = learned.member().posterior
    bound, amplitude = least_squares.bound, least_squares.system.amplitude
    centre, unit = _scale(targets.T)
    modes = [
        _best(bound, t > 0.0, amplitude / u**2, targets)
        for t, u in zip(targets.T.T, unit, strict=True)
    ]
    odds = np.column_stack([mode.left_out(targets.stays) + mode.bias for mode in modes])
    means = ((expit(odds) - centre) / unit)[targets.told]
    member = LogOdds.of(modes, targets.T, targets.weights)
    return replace(group, learned=(replace(learned, means=means, member=lambda: member),))


def _best(bound: Bound, positive: NDArray[np.bool_], variance: float, targets: Targets) -> Mode:
    found, start = [], None
    for multiple in _VARIANCES:
        mode = _mode(bound, positive, multiple * variance, targets.weights, start)
        odds = mode.left_out(targets.stays) + mode.bias
        losses = -log_expit(np.where(positive, odds, -odds))
        found.append((float(np.average(losses, weights=targets.weights)), mode))
        start = mode.weights
    return min(found, key=lambda pair: pair[0])[1]


def _mode(
    bound: Bound,
    positive: NDArray[np.bool_],
    variance: float,
    row_weights: Array | None,
    start: Array | None = None,
) -> Mode:
    base = System(bound=bound, noise=1.0, amplitude=variance, solver=Solver(), row_scale=None)
    return find_mode(base, positive, row_weights, _TOL, start)


def _scale(T: Array) -> tuple[Array, Array]:
    """Return frequencies of classes and standard deviations of indicators, from these."""
    low, high = T.min(axis=0), T.max(axis=0)
    return -low / (high - low), 1.0 / (high - low)
