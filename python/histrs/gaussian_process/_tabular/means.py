"""The blend of one target: members, their weights, and where they say that rows are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from histrs._typing import Array
from histrs.gaussian_process._kernels.distances import DistanceMixture
from histrs.gaussian_process._learning.distances import LearnedKernel
from histrs.gaussian_process._likelihoods.patterns import centred, over, spreads
from histrs.gaussian_process._rows import rows_of
from histrs.gaussian_process._tabular.blend import kept_weights, mixture_moments, simplex_weights
from histrs.gaussian_process._tabular.groups import learn_groups, made_strict, members_of
from histrs.gaussian_process._tabular.members import Member, MemberName, Targets
from histrs.gaussian_process._tabular.rows import TableRows
from histrs.gaussian_process._tabular.shape import Correction
from histrs.gaussian_process._tabular.together import means_of, predictions_of
from histrs.gaussian_process._tabular.transforms import Transform

# What the weight of a column adds to squared errors of members, over the rows.
_HANDICAP = 4.0
# What follows the members.
_STAGES = ("blend", "solve")
# Ranges of the targets that others may be outside of these.
_REACH = 10.0


class Located(NamedTuple):
    """Predictions of a transformed target: where, and how wide."""

    mean: Array
    std: Array

    @classmethod
    def of(cls, means: Array, variances: Array, weights: Array) -> Located:
        """Return mean and standard deviation of a mixture, of its members' in columns."""
        mean, variance = mixture_moments(means, variances, weights)
        return cls(mean, np.sqrt(variance))


@dataclass(frozen=True)
class Blend:
    """Members that were learned for one target, with their weights."""

    transform: Transform
    centre: float
    unit: float
    """Of transformed targets."""
    reach: tuple[float, float]
    """What a target may be: inverses of transforms leave all bounds where noise is wide."""
    members: tuple[Member, ...]
    weights: Array
    correction: Correction
    left_out: Located
    """What members say of the training rows, each by the fit without it, before the correction."""
    errors: dict[MemberName, float]
    """Root mean square error of these, by the members of each name, in the unit of `unit`."""

    @classmethod
    def of(
        cls, targets: Targets, y: Array, names: Sequence[MemberName] | None, transform: Transform
    ) -> Self:
        """Learn from the rows of `targets`, and from `y`."""
        t = transform.apply(y)
        (centre,), less_mean = centred(t[:, None], targets.weights)
        (unit,) = spreads(t[:, None], targets.weights)
        targets = replace(targets, T=over(less_mean, np.array([unit])))
        progress = targets.progress
        progress.expect(len(_STAGES))
        groups, told = learn_groups(names, targets), targets.told
        t_told, row_weights = targets.T[told, 0], rows_of(targets.weights, told)

        def weighed() -> tuple[Array, Array, NDArray[np.intp], Array]:
            """Return means and variances by members, which are kept, and the weights of these."""
            found = [group.left_out for group in groups]
            means, variances = (np.column_stack(part) for part in zip(*found, strict=True))
            handicaps = [group.handicap(len(t), _HANDICAP) for group in groups]
            shares = simplex_weights(t_told, means, row_weights, handicaps)
            return means, variances, *kept_weights(shares)

        progress(_STAGES[0])
        means, variances, kept, weights = weighed()
        while made_strict(groups, kept, targets):
            means, variances, kept, weights = weighed()
        left_out = Located.of(means[:, kept], variances[:, kept], weights)
        progress(_STAGES[1])
        members, of_members = members_of([groups[k] for k in kept], weights)
        errors = unit * rms(t_told[:, None] - means[:, kept], row_weights)
        return cls(
            transform,
            centre,
            unit,
            (y.min() - _REACH * np.ptp(y), y.max() + _REACH * np.ptp(y)),
            members,
            of_members,
            Correction.of(t_told - left_out.mean, left_out.mean, row_weights),
            left_out,
            {groups[k].name: error for k, error in zip(kept, errors, strict=True)},
        )

    @property
    def kernels(self) -> dict[MemberName, LearnedKernel]:
        """Kernels of distances, with their noise."""
        systems = [(member.name, member.posterior.system) for member in self.members]
        return {
            name: LearnedKernel(system.kernel, system.noise)
            for name, system in systems
            if isinstance(system.kernel, DistanceMixture)
        }

    def settled(self) -> Blend:
        """Return the blend with members whose variances are cheap, if these are as good."""
        return replace(self, members=tuple(member.settled() for member in self.members))

    def extended(self, rows: TableRows, y: Array, weights: Array | None) -> Blend:
        """Return the blend with further rows, and all that was learned."""
        with np.errstate(invalid="ignore", divide="ignore"):
            t = self.standardised(y)
        if not np.all(np.isfinite(t)):
            worst = y[np.flatnonzero(~np.isfinite(t))[0]]
            raise ValueError(
                f"A target is {worst:.3g}, which the transform {self.transform.name!r} of the fit "
                "does not take: leave the row out, or call fit with all rows."
            )
        extended = (member.extended(rows, t[:, None], weights) for member in self.members)
        return replace(self, members=tuple(extended))

    def located(self, rows: TableRows) -> Located:
        """Return predictions of rows, before the correction."""
        found = predictions_of(self.members, rows)
        means = np.column_stack([mean[:, 0] for mean, _ in found])
        return Located.of(means, np.column_stack([variance for _, variance in found]), self.weights)

    # ---- in the unit of the target -------------------------------------------------------------

    def standardised(self, y: Array) -> Array:
        """Return targets, transformed and standardised."""
        return np.asarray((self.transform.apply(y) - self.centre) / self.unit)

    def target(self, t: Array) -> Array:
        """Return targets of standardised transformed ones."""
        y = self.transform.inverse(self.centre + self.unit * t)
        return y if self.transform.name == "identity" else np.clip(y, *self.reach)

    def middle(self, rows: TableRows) -> Array:
        """Return targets in the middle of predictions: their means, if there is no transform."""
        means = np.column_stack([mean[:, 0] for mean in means_of(self.members, rows)])
        return self.target(self.correction.apply(means @ self.weights))

    @property
    def left_out_middle(self) -> Array:
        """The same of the training rows, each by the fit without it."""
        return self.target(self.correction.apply(self.left_out.mean))


def rms(errors: Array, row_weights: Array | None) -> Any:
    """Return root mean squares of columns."""
    weights = np.ones(len(errors)) if row_weights is None else row_weights
    return np.sqrt(weights @ errors**2 / weights.sum())
