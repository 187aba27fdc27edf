"""One target: its blend, how wide predictions are, and of what shape."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from histrs._checks.rows import in_row_blocks
from histrs._progress import StageProgress
from histrs._typing import Array
from histrs.gaussian_process._learning.distances import LearnedKernel
from histrs.gaussian_process._rows import rows_of
from histrs.gaussian_process._tabular.blend import simplex_weights
from histrs.gaussian_process._tabular.means import Blend, Located, rms
from histrs.gaussian_process._tabular.members import MemberName, Targets
from histrs.gaussian_process._tabular.rows import TableRows
from histrs.gaussian_process._tabular.shape import Shape
from histrs.gaussian_process._tabular.spread import Spread
from histrs.gaussian_process._tabular.transforms import IDENTITY, Transform, candidates

# Rows that transforms are compared on, and what a density must gain a row, in units of its log.
_TRIED_ROWS = 600
_GAIN = 0.02
# What a variation of noise may take of the log density a row, and what one row may say of it.
_LOSS = 0.05
_MOST_LOSS = 3.0
# Part of the training rows whose standard deviation is usual.
_USUAL = 0.9


@dataclass(frozen=True)
class RegressionFit:
    """A blend that was learned for one target, with the width and the shape of predictions."""

    blend: Blend
    spread: Spread
    shape: Shape
    left_out: Located
    """Of the training rows, each by the fit without it."""
    error: float
    """Root mean square error of these, in the unit of transformed targets."""
    plain: Blend | None = None
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
        found = replace(found, blend=found.blend.settled())
        if transform.name == "identity":
            return found
        # Nearly the same kernels, where members were kept.
        targets = replace(targets, before=found.blend.kernels, has_spread=False)
        progress.topic = "target as it is, "
        plain = Blend.of(targets, y, tuple(found.blend.errors), IDENTITY)
        told = targets.told
        means = np.column_stack([found.left_out_moments[0], plain.left_out_middle])
        shares = simplex_weights(y[told], means, rows_of(targets.weights, told))
        return replace(found, plain=plain, plain_share=float(shares[1]))

    @classmethod
    def _learned(
        cls, targets: Targets, y: Array, names: Sequence[MemberName] | None, transform: Transform
    ) -> Self:
        targets.progress.expect(1)
        blend = Blend.of(targets, y, names, transform)
        targets.progress("spread")
        told = replace(targets, T=blend.standardised(y)[:, None]).of_rows(targets.told)
        mean = blend.correction.apply(blend.left_out.mean)
        spread, left_out, shape = _with_spread(told, blend.left_out, mean)
        error = blend.unit * rms(told.T[:, 0] - mean, told.weights)
        return cls(blend, spread, shape, left_out, error)

    def extended(self, rows: TableRows, y: Array, weights: Array | None) -> RegressionFit:
        """Return the blend with further rows, and all that was learned."""
        plain = None if self.plain is None else self.plain.extended(rows, y, weights)
        return replace(self, blend=self.blend.extended(rows, y, weights), plain=plain)

    def located(self, rows: TableRows) -> Located:
        """Return predictions of rows."""
        mean, std = self.blend.located(rows)
        return Located(self.blend.correction.apply(mean), self.spread.std(rows, mean, std))

    # ---- in the unit of the target -------------------------------------------------------------

    def mean(self, rows: TableRows) -> Array:
        """Return means of the target."""
        if self.plain is None:
            return self.blend.middle(rows)
        return self.moments(rows, self.located(rows))[0]

    def moments(self, rows: TableRows, located: Located) -> tuple[Array, Array]:
        """Return means and standard deviations of the target."""
        mean, std = self._own_moments(located)
        return self._with_plain(mean, lambda plain: plain.middle(rows)), std

    @property
    def left_out_moments(self) -> tuple[Array, Array]:
        """Means and standard deviations of training rows, each by the fit without it."""
        mean, std = self._own_moments(self.left_out)
        return self._with_plain(mean, lambda plain: plain.left_out_middle), std

    def _left_out_density(self, y: Array, weights: Array | None) -> float:
        """Return the mean log density of training rows, each by the fit without it."""
        mean, std = self.left_out
        t = self.blend.standardised(y)
        log_density = -0.5 * ((t - mean) / std) ** 2 - np.log(std * self.blend.unit)
        return float(np.average(log_density + self.blend.transform.log_slope(y), weights=weights))

    def _with_plain(self, mean: Array, ask: Callable[[Blend], Array]) -> Array:
        """Return means, part of which is what the fit of the target itself says."""
        if self.plain is None or self.plain_share == 0.0:
            return mean
        return np.asarray((1.0 - self.plain_share) * mean + self.plain_share * ask(self.plain))

    def _own_moments(self, located: Located) -> tuple[Array, Array]:
        # The mean of what is wider than nearly all that was seen is its tail's, which none knows.
        most = float(np.quantile(self.left_out.std, _USUAL))
        is_identity = self.blend.transform.name == "identity"

        def of_rows(at: Array) -> Array:
            mean, std = at.T
            if is_identity:
                return np.column_stack(
                    [self.blend.target(mean), self.blend.unit * std * self.shape.std(mean)]
                )
            usual = np.minimum(std, most)
            values = self.blend.target(mean[:, None] + usual[:, None] * self.shape.values(mean))
            # Far more than usual is nearly all of it a multiple: of a category not met, say.
            wider = std / np.maximum(usual, np.finfo(np.float64).tiny)
            return np.column_stack([values.mean(axis=1), wider * values.std(axis=1)])

        both = in_row_blocks(np.column_stack(located), of_rows)
        return both[:, 0], both[:, 1]

    def quantiles(self, located: Located, probabilities: Array) -> Array:
        """Return quantiles of the target, a column for each probability."""
        u = self.shape.quantiles(located.mean, probabilities)
        return self.blend.target(located.mean[:, None] + located.std[:, None] * u)

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
        values = self.blend.target(at).reshape(len(weights), -1)
        of_values = np.repeat(weights / u.shape[1], u.shape[1], axis=1)
        mean = np.sum(of_values * values, axis=1)
        std = np.sqrt(np.sum(of_values * (values - mean[:, None]) ** 2, axis=1))
        mean = self._with_plain(
            mean, lambda plain: np.sum(weights * plain.middle(rows).reshape(weights.shape), axis=1)
        )
        quantiles = _weighted_quantiles(values, of_values, probabilities)
        return np.column_stack([mean, std, quantiles])

    def log_density(self, rows: TableRows, weights: Array | None, y: Array) -> Array:
        """Return the log density of targets, by one prediction a row, or several with weights."""
        located = self.located(rows)
        weights = np.ones((len(y), 1)) if weights is None else weights
        t = self.blend.standardised(y)
        mean, std = (part.reshape(weights.shape) for part in located)
        density = self.shape.density(mean, (t[:, None] - mean) / std) / std
        mixed = np.log(np.sum(weights * density, axis=1))
        return np.asarray(mixed - np.log(self.blend.unit) + self.blend.transform.log_slope(y))


def _weighted_quantiles(values: Array, weights: Array, probabilities: Array) -> Array:
    """Return quantiles of each row of values."""
    order = np.argsort(values, axis=1, kind="stable")
    values = np.take_along_axis(values, order, axis=1)
    passed = np.cumsum(np.take_along_axis(weights, order, axis=1), axis=1)
    found = np.empty((len(values), len(probabilities)))
    for row, (of_row, up_to) in enumerate(zip(values, passed, strict=True)):
        found[row] = np.interp(probabilities * up_to[-1], up_to, of_row)
    return found


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
        few = replace(few, before=fits[-1].blend.kernels)
    scores = [fit._left_out_density(y, few.weights) for fit in fits]
    best = int(np.argmax(scores))
    if scores[best] <= scores[0] + _GAIN:
        best = 0
    return tried[best], fits[best].blend.kernels
