"""How wide predictions are: a second process on the squares of residuals that are left out."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from histrs._typing import Array
from histrs.gaussian_process._learning.leave_one_out import leave_one_out
from histrs.gaussian_process._posterior.posterior import Posterior
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


@dataclass(frozen=True)
class Spread:
    r"""The variance of a residual over what the members say it is.

    Squared residuals of rows that are left out, over the variances that the blend gives them, are
    :math:`\exp(g(x))` times a constant times a chi square of one degree. Their logarithms are
    regressed on the columns, on the prediction and on its logarithmic standard deviation, by a sum
    of functions on levels. Where that does not raise the density of left-out rows, it is constant.
    """

    posterior: Posterior | None
    scale: float
    """What standard deviations are multiplied by."""

    @classmethod
    def of(cls, targets: Targets, mean: Array, std: Array) -> tuple[Spread, Array]:
        """Learn from left-out means and standard deviations of the rows of targets.

        Also returns the standard deviation of each of these rows by the fit without it.
        """
        weights = targets.weights
        u = (targets.T[:, 0] - mean) / std
        square = float(np.average(u**2, weights=weights))
        plain = cls(None, np.sqrt((len(u) * square + _USUAL) / (len(u) + _USUAL)))
        # Constant targets have no residuals.
        if len(u) < _MIN_ROWS or square == 0.0:
            return plain, plain.scale * std
        z = np.log((u / plain.scale) ** 2 + _LEAST)
        level = float(np.average(z, weights=weights))
        of_z = replace(targets, T=(z - level)[:, None])
        X = cls._columns(targets.rows, mean, std)
        posterior = learn_levels(X, of_z, 0)
        g = _bounded(leave_one_out(posterior, of_z.T, targets.stays)[0][:, 0])
        scaled = (u / plain.scale) ** 2 * np.exp(-g)
        constant = float(np.average(scaled, weights=weights))
        before = (u / plain.scale) ** 2
        after = scaled / constant + g + np.log(constant)
        gains = 0.5 * (before - after)
        error = gains.std() / np.sqrt(len(gains))
        gain = float(np.average(gains, weights=weights))
        if gain < max(_GAIN, _SURELY * error):
            return plain, plain.scale * std
        scale = plain.scale * np.sqrt(constant)
        return cls(posterior, scale), np.asarray(scale * std * np.exp(0.5 * g))

    @staticmethod
    def _columns(rows: TableRows, mean: Array, std: Array) -> Array:
        return np.hstack([rows.values, mean[:, None], np.log(std)[:, None], rows.codes])

    def std(self, rows: TableRows, mean: Array, std: Array) -> Array:
        """Return standard deviations, of what the blend says of rows."""
        if self.posterior is None:
            return self.scale * std
        bound = self.posterior.bound
        codes = bound.rows_of(self._columns(rows, mean, std))
        g = bound.cross_product(codes, self.posterior.weights)[:, 0]
        return np.asarray(self.scale * std * np.exp(0.5 * _bounded(g)))


def _bounded(g: Array) -> Array:
    return np.clip(g, -_MOST, _MOST)
