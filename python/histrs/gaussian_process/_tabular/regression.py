"""One target: members, their weights, how wide predictions are, and of what shape."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from histrs._checks.rows import in_row_blocks
from histrs._progress import StageProgress
from histrs._typing import Array
from histrs.gaussian_process._kernels.distances import DistanceMixture
from histrs.gaussian_process._learning.distances import LearnedKernel
from histrs.gaussian_process._likelihoods.patterns import centred, over, spreads
from histrs.gaussian_process._rows import rows_of
from histrs.gaussian_process._tabular.blend import kept_weights, mixture_moments, simplex_weights
from histrs.gaussian_process._tabular.groups import learn_groups, made_strict, members_of
from histrs.gaussian_process._tabular.members import Member, MemberName, Targets
from histrs.gaussian_process._tabular.rows import TableRows
from histrs.gaussian_process._tabular.shape import Correction, Shape
from histrs.gaussian_process._tabular.spread import Spread
from histrs.gaussian_process._tabular.together import means_of, predictions_of
from histrs.gaussian_process._tabular.transforms import IDENTITY, Transform, candidates

# What the weight of a column adds to squared errors of members, over the rows.
_HANDICAP = 4.0
# What follows the members.
_STAGES = ("blend", "solve", "spread")
# Rows that transforms are compared on, and what a density must gain a row, in units of its log.
_TRIED_ROWS = 600
_GAIN = 0.02
# What a variation of noise may take of the log density a row, and what one row may say of it.
_LOSS = 0.05
_MOST_LOSS = 3.0
# Ranges of the targets that others may be outside of these.
_REACH = 10.0
# Part of the training rows whose standard deviation is usual.
_USUAL = 0.9


class Located(NamedTuple):
    """Predictions of a transformed target: where, and how wide."""

    mean: Array
    std: Array


@dataclass(frozen=True)
class RegressionFit:
    """A blend that was learned for one target."""

    transform: Transform
    centre: float
    unit: float
    """Of transformed targets."""
    reach: tuple[float, float]
    """What a target may be: inverses of transforms leave all bounds where noise is wide."""
    members: tuple[Member, ...]
    weights: Array
    spread: Spread
    correction: Correction
    shape: Shape
    left_out: Located
    """Of the training rows, each by the fit without it."""
    error: float
    """Root mean square error of these, in the unit of transformed targets."""
    errors: dict[MemberName, float]
    """The same of each name alone."""
    plain: RegressionFit | None = None
    """A blend that was learned for the target itself, where this one is for another of it."""
    plain_share: float = 0.0
    """Its part in means: squared errors of the target are not those of what it becomes."""

    @classmethod
    def of(
        cls,
        targets: Targets,
        y: Array,
        names: Sequence[MemberName] | None,
        transform: Transform | None,
    ) -> Self:
        """Learn from the rows of `targets`, and from `y`."""
        progress, progress.topic = targets.progress, ""
        progress.begin_part()
        progress.expect(1)
        if transform is None:
            transform, of_few = _chosen(targets, y)
            targets = replace(targets, before=of_few)
        found = cls._learned(targets, y, names, transform)
        # Of other fits, only means are asked for.
        progress("variances")
        found = replace(found, members=tuple(member.settled() for member in found.members))
        if transform.name == "identity":
            return found
        # Nearly the same kernels, where members were kept.
        targets, progress.topic = replace(targets, before=found._kernels), "target as it is, "
        plain = cls._learned(targets, y, tuple(found.errors), IDENTITY)
        told = targets.told
        means = np.column_stack([fit.left_out_moments[0] for fit in (found, plain)])
        shares = simplex_weights(y[told], means, rows_of(targets.weights, told))
        return replace(found, plain=plain, plain_share=float(shares[1]))

    @classmethod
    def _learned(
        cls, targets: Targets, y: Array, names: Sequence[MemberName] | None, transform: Transform
    ) -> Self:
        t = transform.apply(y)
        (centre,), less_mean = centred(t[:, None], targets.weights)
        (unit,) = spreads(t[:, None], targets.weights)
        targets = replace(targets, T=over(less_mean, np.array([unit])))
        progress = targets.progress
        progress.expect(len(_STAGES))
        groups = learn_groups(names, targets)
        progress(_STAGES[0])
        told = targets.told

        def weighed() -> tuple[Array, Array, NDArray[np.intp], Array]:
            """Return means and variances by members, which are kept, and the weights of these."""
            found = [group.left_out for group in groups]
            means, variances = (np.column_stack(part) for part in zip(*found, strict=True))
            handicaps = [group.handicap(len(t), _HANDICAP) for group in groups]
            of_told = targets.T[told, 0], means, rows_of(targets.weights, told)
            return means, variances, *kept_weights(simplex_weights(*of_told, handicaps))

        means, variances, kept, weights = weighed()
        while made_strict(groups, kept, targets):
            means, variances, kept, weights = weighed()
        blended = _blended(means[:, kept], variances[:, kept], weights)
        progress(_STAGES[1])
        members, of_members = members_of([groups[k] for k in kept], weights)
        progress(_STAGES[2])
        targets = targets.of_rows(told)
        t_told = targets.T[:, 0]
        correction = Correction.of(t_told - blended.mean, blended.mean, targets.weights)
        spread, left_out, shape = _with_spread(targets, blended, correction.apply(blended.mean))
        errors = unit * _rms(targets.T - means[:, kept], targets.weights)
        return cls(
            transform,
            centre,
            unit,
            (y.min() - _REACH * np.ptp(y), y.max() + _REACH * np.ptp(y)),
            members,
            of_members,
            spread,
            correction,
            shape,
            left_out,
            unit * _rms(t_told - left_out.mean, targets.weights),
            {groups[k].name: error for k, error in zip(kept, errors, strict=True)},
        )

    @property
    def _kernels(self) -> dict[MemberName, LearnedKernel]:
        """Kernels of distances, with their noise."""
        systems = [(member.name, member.posterior.system) for member in self.members]
        return {
            name: LearnedKernel(system.kernel, system.noise)
            for name, system in systems
            if isinstance(system.kernel, DistanceMixture)
        }

    def extended(self, rows: TableRows, y: Array, weights: Array | None) -> RegressionFit:
        """Return the blend with further rows, and all that was learned."""
        with np.errstate(invalid="ignore", divide="ignore"):
            T = ((self.transform.apply(y) - self.centre) / self.unit)[:, None]
        if not np.all(np.isfinite(T)):
            worst = y[np.flatnonzero(~np.isfinite(T[:, 0]))[0]]
            raise ValueError(
                f"A target is {worst:.3g}, which the transform {self.transform.name!r} of the fit "
                "does not take: leave the row out, or call fit with all rows."
            )
        members = tuple(member.extended(rows, T, weights) for member in self.members)
        plain = None if self.plain is None else self.plain.extended(rows, y, weights)
        return replace(self, members=members, plain=plain)

    def located(self, rows: TableRows) -> Located:
        """Return predictions of rows."""
        found = predictions_of(self.members, rows)
        means = np.column_stack([mean[:, 0] for mean, _ in found])
        variances = np.column_stack([variance for _, variance in found])
        mean, std = _blended(means, variances, self.weights)
        return Located(self.correction.apply(mean), self.spread.std(rows, mean, std))

    # ---- in the unit of the target -------------------------------------------------------------

    def target(self, t: Array) -> Array:
        """Return targets of standardised transformed ones."""
        y = self.transform.inverse(self.centre + self.unit * t)
        return y if self.transform.name == "identity" else np.clip(y, *self.reach)

    def mean(self, rows: TableRows) -> Array:
        """Return means of the target."""
        if self.plain is None:
            means = np.column_stack([mean[:, 0] for mean in means_of(self.members, rows)])
            return self.target(self.correction.apply(means @ self.weights))
        return self.moments(rows, self.located(rows))[0]

    def moments(self, rows: TableRows, located: Located) -> tuple[Array, Array]:
        """Return means and standard deviations of the target."""
        mean, std = self._own_moments(located)
        return self._with_plain(mean, lambda plain: plain.mean(rows)), std

    @property
    def left_out_moments(self) -> tuple[Array, Array]:
        """Means and standard deviations of training rows, each by the fit without it."""
        mean, std = self._own_moments(self.left_out)
        return self._with_plain(mean, lambda plain: plain.left_out_moments[0]), std

    def _left_out_density(self, y: Array, weights: Array | None) -> float:
        """Return the mean log density of training rows, each by the fit without it."""
        mean, std = self.left_out
        t = (self.transform.apply(y) - self.centre) / self.unit
        log_density = -0.5 * ((t - mean) / std) ** 2 - np.log(std * self.unit)
        return float(np.average(log_density + self.transform.log_slope(y), weights=weights))

    def _with_plain(self, mean: Array, ask: Callable[[RegressionFit], Array]) -> Array:
        """Return means, part of which is what the fit of the target itself says."""
        if self.plain is None or self.plain_share == 0.0:
            return mean
        return np.asarray((1.0 - self.plain_share) * mean + self.plain_share * ask(self.plain))

    def _own_moments(self, located: Located) -> tuple[Array, Array]:
        # The mean of what is wider than nearly all that was seen is its tail's, which none knows.
        most = float(np.quantile(self.left_out.std, _USUAL))
        is_identity = self.transform.name == "identity"

        def of_rows(at: Array) -> Array:
            mean, std = at.T
            if is_identity:
                return np.column_stack([self.target(mean), self.unit * std * self.shape.std(mean)])
            usual = np.minimum(std, most)
            values = self.target(mean[:, None] + usual[:, None] * self.shape.values(mean))
            # Far more than usual is nearly all of it a multiple: of a category not met, say.
            wider = std / np.maximum(usual, np.finfo(np.float64).tiny)
            return np.column_stack([values.mean(axis=1), wider * values.std(axis=1)])

        both = in_row_blocks(np.column_stack(located), of_rows)
        return both[:, 0], both[:, 1]

    def quantiles(self, located: Located, probabilities: Array) -> Array:
        """Return quantiles of the target, a column for each probability."""
        u = self.shape.quantiles(located.mean, probabilities)
        return self.target(located.mean[:, None] + located.std[:, None] * u)

    def answer(
        self, rows: TableRows, weights: Array | None, probabilities: Array, only_mean: bool
    ) -> Array:
        """Return mean, standard deviation and quantiles of rows, a column for each.

        `weights` are those of several predictions a row; None for one. With `only_mean`, the
        standard deviation is none.
        """
        if weights is not None:
            return self.mixed(rows, weights, probabilities)
        if only_mean:
            mean = self.mean(rows)
            return np.column_stack([mean, np.zeros(len(mean))])
        located = self.located(rows)
        quantiles = self.quantiles(located, probabilities)
        return np.column_stack([*self.moments(rows, located), quantiles])

    def mixed(self, rows: TableRows, weights: Array, probabilities: Array) -> Array:
        """Return mean, standard deviation and quantiles of mixtures of several predictions a row.

        `weights` are of shape (n_rows, n_predictions), those of a row one after the other.
        """
        located = self.located(rows)
        u = self.shape.values(located.mean)
        at = located.mean[:, None] + located.std[:, None] * u
        values = self.target(at).reshape(len(weights), -1)
        of_values = np.repeat(weights / u.shape[1], u.shape[1], axis=1)
        mean = np.sum(of_values * values, axis=1)
        std = np.sqrt(np.sum(of_values * (values - mean[:, None]) ** 2, axis=1))
        mean = self._with_plain(
            mean, lambda plain: np.sum(weights * plain.mean(rows).reshape(weights.shape), axis=1)
        )
        quantiles = _weighted_quantiles(values, of_values, probabilities)
        return np.column_stack([mean, std, quantiles])

    def log_density(self, rows: TableRows, weights: Array | None, y: Array) -> Array:
        """Return the log density of targets, by one prediction a row, or several with weights."""
        located = self.located(rows)
        weights = np.ones((len(y), 1)) if weights is None else weights
        t = (self.transform.apply(y) - self.centre) / self.unit
        mean, std = (part.reshape(weights.shape) for part in located)
        density = self.shape.density(mean, (t[:, None] - mean) / std) / std
        mixed = np.log(np.sum(weights * density, axis=1))
        return np.asarray(mixed - np.log(self.unit) + self.transform.log_slope(y))


def _weighted_quantiles(values: Array, weights: Array, probabilities: Array) -> Array:
    """Return quantiles of each row of values."""
    order = np.argsort(values, axis=1, kind="stable")
    values = np.take_along_axis(values, order, axis=1)
    passed = np.cumsum(np.take_along_axis(weights, order, axis=1), axis=1)
    found = np.empty((len(values), len(probabilities)))
    for row, (of_row, up_to) in enumerate(zip(values, passed, strict=True)):
        found[row] = np.interp(probabilities * up_to[-1], up_to, of_row)
    return found


def _rms(errors: Array, row_weights: Array | None) -> Any:
    weights = np.ones(len(errors)) if row_weights is None else row_weights
    return np.sqrt(weights @ errors**2 / weights.sum())


def _blended(means: Array, variances: Array, weights: Array) -> Located:
    """Return mean and standard deviation of a mixture."""
    mean, variance = mixture_moments(means, variances, weights)
    return Located(mean, np.sqrt(variance))


def _with_spread(targets: Targets, blended: Located, mean: Array) -> tuple[Spread, Located, Shape]:
    """Return the spread of predictions, with left-out rows and the shape of their residuals.

    Targets of few values have residuals of few sizes, which a spread that varies blurs: it must not
    take much of the density that left-out rows have with their shape.
    """
    t, found, logs = targets.T[:, 0], [], []
    for spread, std in Spread.candidates(targets, *blended):
        u = (t - mean) / std
        shape = Shape(u, mean, targets.weights)
        found.append((spread, Located(mean, std), shape))
        logs.append(np.log(shape.density(mean, u) / std))
    losses = np.clip(logs[0] - logs[-1], -_MOST_LOSS, _MOST_LOSS)
    return found[0] if np.average(losses, weights=targets.weights) > _LOSS else found[-1]


def _chosen(targets: Targets, y: Array) -> tuple[Transform, dict[MemberName, LearnedKernel]]:
    """Return the transform with which rows that are left out are predicted best.

    It is judged by the density of the target, as a few rows and one member tell it, whose kernel
    is returned too.
    """
    tried, fits = candidates(y), []
    if len(tried) == 1:
        return IDENTITY, {}
    some = np.sort(targets.order[:_TRIED_ROWS])
    few, y = targets.of_rows(some), y[some]
    few = replace(few, progress=StageProgress("", 0), is_trial=True)
    targets.progress.expect(len(tried))
    for transform in tried:
        targets.progress(f"target transform {transform.name}")
        fits.append(RegressionFit._learned(few, y, ("ranks",), transform))
        few = replace(few, before=fits[-1]._kernels)
    scores = [fit._left_out_density(y, few.weights) for fit in fits]
    best = int(np.argmax(scores))
    if scores[best] <= scores[0] + _GAIN:
        best = 0
    return tried[best], fits[best]._kernels
