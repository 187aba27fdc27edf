"""How wide predictions are: a second process on the squares of residuals that are left out."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from histrs._repeats import equal_rows
from histrs._typing import Array
from histrs.gaussian_process._bound.scores import Score
from histrs.gaussian_process._kernels.levels import LevelKernel
from histrs.gaussian_process._learning.leave_one_out import leave_one_out
from histrs.gaussian_process._tabular.members import Targets, learn_levels
from histrs.gaussian_process._tabular.rows import TableRows

# Rows below which no variation of noise can be told.
_MIN_ROWS = 50
# Rows that what the members say of their errors counts for.
_USUAL = 20.0
# Of squared standardised residuals, what counts as zero.
_LEAST = 1e-3
# Logarithms of variances are at most so far from their mean.
_MOST = 4.0
# Gain of log density a row that a variation of noise must bring, and standard errors of it.
_GAIN = 0.002
_SURELY = 1.0
# Multiple of the median standard deviation up to which left-out rows tell whether it is right.
_SEEN = 3.0


@dataclass(frozen=True)
class Spread:
    r"""The variance of a residual over what the members say it is.

    Squared residuals of rows that are left out, over the variances that the blend gives them, are
    :math:`\exp(g(x))` times a constant times a chi square of one degree. Their logarithms are
    regressed on the columns, on the prediction and on its logarithmic standard deviation, by a sum
    of functions on levels. Where that does not raise the density of left-out rows, `g` is 0.

    Left-out rows tell nothing of rows that are much less certain: those of a category that training
    had not, or beyond the range of a column. So the excess is never made less than members say.
    """

    functions: tuple[LevelKernel, Score] | None
    scale: float
    """What standard deviations are multiplied by."""
    widest: float = np.inf
    """The standard deviation up to which left-out rows tell whether it is right."""
    least: float = 0.0
    """What an excess over this is multiplied by at least."""

    @classmethod
    def candidates(cls, targets: Targets, mean: Array, std: Array) -> list[tuple[Spread, Array]]:
        """Learn from left-out means and standard deviations of the rows of targets.

        Returns one without `g`, and one with it where that raises the normal density, each with
        the standard deviation of each of these rows by the fit without it.
        """
        n = len(mean)
        weights = np.ones(n) if targets.weights is None else targets.weights
        u = (targets.T[:, 0] - mean) / std
        square = float(np.average(u**2, weights=weights))
        plain = cls(None, float(np.sqrt((n * square + _USUAL) / (n + _USUAL))))
        found = [plain._bounded_below(u, std, np.zeros(n), weights)]
        # Constant targets have no residuals.
        if n < _MIN_ROWS or square == 0.0:
            return found
        z = np.log((u / plain.scale) ** 2 + _LEAST)
        level = float(np.average(z, weights=weights))
        of_z = replace(targets, T=(z - level)[:, None])
        # What is left out of rows of equal columns differs by their own targets, which it tells.
        groups = equal_rows(targets.rows.with_values)
        X = cls._columns(targets.rows, _averaged(mean, groups), _averaged(std, groups))
        posterior = learn_levels(X, of_z, 0)
        g = _bounded(leave_one_out(posterior, of_z.T, targets.stays)[0][:, 0])
        before = (u / plain.scale) ** 2
        constant = float(np.average(before * np.exp(-g), weights=weights))
        gains = 0.5 * (before - before * np.exp(-g) / constant - g - np.log(constant))
        error = gains.std() / np.sqrt(n)
        if np.average(gains, weights=weights) < max(_GAIN, _SURELY * error):
            return found
        functions = posterior.bound.kernel, posterior.bound.score(posterior.weights, None, "linear")
        varied = cls(functions, plain.scale * np.sqrt(constant))
        return [*found, varied._bounded_below(u, std, g, weights)]

    @staticmethod
    def _columns(rows: TableRows, mean: Array, std: Array) -> Array:
        return np.hstack([rows.values, mean[:, None], np.log(std)[:, None], rows.codes])

    def std(self, rows: TableRows, mean: Array, std: Array) -> Array:
        """Return standard deviations, of what the blend says of rows."""
        if self.functions is None:
            return self._scaled(std, np.zeros(len(std)))
        kernel, score = self.functions
        g = score.evaluate(kernel.codes(self._columns(rows, mean, std), 1), 1)[:, 0]
        return self._scaled(std, _bounded(g))

    def _bounded_below(
        self, u: Array, std: Array, g: Array, weights: Array
    ) -> tuple[Spread, Array]:
        """Return it with a least excess, and the standard deviations of left-out rows."""
        widest = _SEEN * _median(std, weights)
        seen = std <= widest
        # The shape of residuals multiplies again, by their size.
        squares = (u[seen] / self.scale) ** 2 * np.exp(-g[seen])
        left = float(np.sqrt(np.average(squares, weights=weights[seen])))
        found = replace(self, widest=widest, least=1.0 / left if left > 0.0 else 0.0)
        return found, found._scaled(std, g)

    def _scaled(self, std: Array, g: Array) -> Array:
        factor, seen = self.scale * np.exp(0.5 * g), np.minimum(std, self.widest)
        excess = np.sqrt(std**2 - seen**2)
        return np.asarray(np.hypot(factor * seen, np.maximum(factor, self.least) * excess))


def _median(values: Array, weights: Array) -> float:
    order = np.argsort(values, kind="stable")
    passed = np.cumsum(weights[order])
    return float(values[order[np.searchsorted(passed, 0.5 * passed[-1])]])


def _averaged(values: Array, groups: NDArray[np.intp]) -> Array:
    """Return the mean of the group that each value is in."""
    return np.asarray((np.bincount(groups, values) / np.bincount(groups))[groups])


def _bounded(g: Array) -> Array:
    return np.clip(g, -_MOST, _MOST)
