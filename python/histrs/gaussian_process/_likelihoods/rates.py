r"""Targets whose mean is the exponential of a latent function: counts, and positive numbers.

A row of exposure `e` and offset `o` has the mean :math:`\mu = e\, e^{o + f}`, and the variance
:math:`\phi \mu` (Poisson) or :math:`\phi \mu^2` (gamma) with the dispersion :math:`\phi`. Targets
over :math:`E = e\, e^o` are rates whose mean is :math:`e^f`; those of counts weigh `E`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, TypeAlias, cast, get_args

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats
from sklearn.metrics import d2_tweedie_score
from sklearn.utils.validation import check_consistent_length, column_or_1d

from histrs._typing import Array
from histrs._weights import over_unit
from histrs.gaussian_process._learning.hyperparameters import Hyperparameters
from histrs.gaussian_process._learning.likelihood import BaseLikelihood
from histrs.gaussian_process._likelihoods.families import Gamma, Poisson
from histrs.gaussian_process._likelihoods.laplace import (
    LaplaceLikelihood,
    Mode,
    evidence_of_modes,
    modes_of,
    weights_or_ones,
)
from histrs.gaussian_process._likelihoods.patterns import centred
from histrs.gaussian_process._precision import is_single
from histrs.gaussian_process._systems.system import System

RateName: TypeAlias = Literal["poisson", "gamma"]
RATES: tuple[RateName, ...] = get_args(RateName)
# Events that are taken for none at all, whose rate has no logarithm.
_NO_EVENT = 0.5
# A variance that is no more than the mean, but for rounding.
_NO_EXCESS = 1e-9


class Regression(NamedTuple):
    """The regression that is like the likelihood somewhere."""

    targets: Array
    weights: Array

    @property
    def centred(self) -> Array:
        """Targets less their mean, as a column."""
        return centred(self.targets[:, None], self.weights)[1]


@dataclass(frozen=True)
class LatentRates:
    """Rates that follow a latent function: by Laplace's approximation."""

    name: RateName
    tol: float

    @property
    def _family(self) -> Poisson | Gamma:
        return Poisson() if self.name == "poisson" else Gamma()

    @property
    def least_dispersion(self) -> float:
        """The dispersion of counts of independent events, or none."""
        return 1.0 if self.name == "poisson" else 0.0

    def unit_of(self, rates: Array, weights: Array | None) -> tuple[float, Array | None, float]:
        """Return the mean rate, the weights of rates in its unit, and what a weight of 1 was.

        A count weighs as many events as are expected of it.
        """
        w = weights_or_ones(weights, len(rates))
        total, unit = float(w @ rates), 1.0
        if self.name == "poisson":
            total = max(total, _NO_EVENT)
            unit = float(w.sum()) / total
        mean, w = total / float(w.sum()), over_unit(w, unit)
        return mean, None if np.all(w == 1.0) else w, unit

    def started(self, Y: Array, weights: Array | None) -> Regression:
        """Return the regression that hyper-parameters are first learned from."""
        w, y = weights_or_ones(weights, len(Y)), Y[:, 0]
        f = self._family.start(y, w)
        information = self._family.curvature(f)
        return Regression(f + self._family.slope(y, f) / information, w * information)

    def at_mode(self, mode: Mode) -> Regression:
        """Return the regression at the mode."""
        return Regression(mode.targets - mode.bias, np.square(cast(Array, mode.system.row_scale)))

    def modes(
        self, base: System, Y: Array, sample_weight: Array | None, start: Array | None
    ) -> list[Mode]:
        """Return the mode, from `start` as weights that count the amplitude in."""
        return modes_of(base, self._family, Y, sample_weight, self.tol, start)

    def evidence(
        self, base: System, Y: Array, sample_weight: Array | None, kernel_on: Callable[[Any], Any]
    ) -> BaseLikelihood:
        """Return the log marginal likelihood as a function of hyper-parameters.

        `kernel_on` returns a kernel on the rows of `base`.
        """

        def of(values: Hyperparameters) -> tuple[float, float]:
            changed = replace(base, bound=kernel_on(values.kernel)).with_scales(values.scales()[0])
            return evidence_of_modes(changed, self._family, Y, sample_weight, self.tol)

        return LaplaceLikelihood(of, Y, self.tol)

    def std(self, mean: Array, dispersion: float, latent: Array) -> Array:
        """Return standard deviations of targets, from the variance of their latent functions."""
        # In the unit of huge targets it may be beyond double precision.
        with np.errstate(over="ignore"):
            own = dispersion * mean**self._family.power
            return np.sqrt(own + mean**2 * np.expm1(latent))

    def quantiles(self, p: Array, mean: Array, std: Array) -> Array:
        """Return quantiles of targets, of shape (n_rows, n_quantiles).

        Gamma distributions have the mean and the standard deviation. For counts, the rate of a
        Poisson distribution has a gamma distribution, so that these are negative binomial.
        """
        mean, variance = mean[:, None], std[:, None] ** 2
        if self.name == "gamma":
            return np.asarray(stats.gamma.ppf(p, mean**2 / variance, scale=variance / mean))
        excess = np.maximum(variance - mean, _NO_EXCESS * mean)
        return np.asarray(stats.nbinom.ppf(p, mean**2 / excess, mean / (mean + excess)))

    def score(self, mean: Array, y: Array, weights: Array | None) -> float:
        """Return the part of the deviance that means explain."""
        power = self._family.power
        return float(d2_tweedie_score(y, mean, power=power, sample_weight=weights))


def refuse_rates(model: Any, what: str) -> None:
    """Refuse what only a process has that is not the logarithm of means."""
    if isinstance(model._latent, LatentRates):
        raise ValueError(
            f"{what} does not work with likelihood={model.likelihood!r}: it needs "
            'likelihood="gaussian".'
        )


def multiplier(
    likelihood: str, n_rows: int, exposure: ArrayLike | None, offset: ArrayLike | None
) -> Array:
    """Return what multiplies the rate of each row, checked; what is added to it for Gaussians."""
    found = np.zeros(n_rows)
    if offset is not None:
        found += _column("offset", offset, n_rows)
    if likelihood == "gaussian":
        if exposure is not None:
            raise ValueError(
                "exposure is of counts, and likelihood='gaussian' has none: choose "
                "likelihood='poisson', or give an offset."
            )
        return found
    with np.errstate(over="ignore"):
        found = np.exp(found)
        if exposure is not None:
            found *= _column("exposure", exposure, n_rows)
    bad = np.flatnonzero(~((found > 0.0) & (found < np.inf)))
    if len(bad) > 0:
        raise ValueError(
            f"exposure times exp(offset) is {found[bad[0]]} in row {bad[0]}: leave out rows "
            "without exposure, and give positive and finite numbers for all others."
        )
    return found


def _column(name: str, given: ArrayLike, n_rows: int) -> Array:
    column = np.asarray(column_or_1d(given, dtype=np.float64))
    if len(column) != n_rows:
        raise ValueError(f"{name} has {len(column)} entries, and X {n_rows} rows: give one a row.")
    bad = np.flatnonzero(~np.isfinite(column))
    if len(bad) > 0:
        raise ValueError(f"{name}[{bad[0]}] = {column[bad[0]]}: give finite numbers.")
    return column


def as_rates(
    likelihood: str,
    y: ArrayLike,
    sample_weight: ArrayLike | None,
    exposure: ArrayLike | None,
    offset: ArrayLike | None,
) -> tuple[Any, Any]:
    """Return targets and weights that say the same without exposure and offset, checked."""
    if likelihood == "gaussian":
        if exposure is None and offset is None:
            return y, sample_weight
        targets = np.asarray(y, dtype=np.float64)
        shift = multiplier(likelihood, len(targets), exposure, offset)
        return targets - (shift if targets.ndim == 1 else shift[:, None]), sample_weight
    targets = np.asarray(column_or_1d(y, dtype=np.float64))
    _check_targets(likelihood, targets)
    of_rows = multiplier(likelihood, len(targets), exposure, offset)
    if likelihood == "poisson" and (exposure is not None or offset is not None):
        check_consistent_length(targets, sample_weight)
        weights = 1.0 if sample_weight is None else column_or_1d(sample_weight, dtype=np.float64)
        sample_weight = weights * of_rows
    rates = targets / of_rows
    return rates.astype(np.float32) if is_single(y) else rates, sample_weight


def _check_targets(likelihood: str, y: Array) -> None:
    is_bad, what = (y < 0.0, "negative") if likelihood == "poisson" else (y <= 0.0, "not positive")
    bad = np.flatnonzero(is_bad)
    if len(bad) > 0:
        raise ValueError(
            f"y[{bad[0]}] = {y[bad[0]]} is {what}, which likelihood={likelihood!r} does not take: "
            "leave the row out, or choose likelihood='gaussian'."
        )
