"""Classes: members that regress indicators, and the probabilities that they say together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from histrs._typing import Array
from histrs.gaussian_process._rows import rows_of
from histrs.gaussian_process._tabular import log_odds
from histrs.gaussian_process._tabular.blend import ClassPool, kept_weights, simplex_weights
from histrs.gaussian_process._tabular.groups import learn_groups, made_strict, members_of
from histrs.gaussian_process._tabular.members import Member, MemberName, Targets
from histrs.gaussian_process._tabular.rows import TableRows
from histrs.gaussian_process._tabular.together import means_of

# What the weight of a column adds to squared errors of members, over the rows: more than for
# numbers, since an indicator says less than one.
_HANDICAP = 8.0
# What follows the members.
_STAGES = ("blend", "solve")


@dataclass(frozen=True)
class ClassFit:
    """A blend that was learned for classes."""

    members: tuple[Member, ...]
    weights: Array
    """Of members, which sum to one."""
    pool: ClassPool
    centre: Array
    """Frequencies of classes: of the second of two, or of each."""
    unit: Array
    """Standard deviations of their indicators."""
    loss: float
    """Log loss of training rows, each by scores of the fits without it."""
    errors: dict[MemberName, float]
    """Root mean square error of the indicators, by the members of each name."""

    @classmethod
    def of(
        cls,
        targets: Targets,
        codes: NDArray[np.intp],
        n_classes: int,
        names: Sequence[MemberName] | None,
    ) -> Self:
        """Learn from the rows of `targets`, and from the classes of these."""
        indicators = _indicators(codes, n_classes)
        centre = np.average(indicators, axis=0, weights=targets.weights)
        unit = np.sqrt(centre * (1.0 - centre))
        T = np.ascontiguousarray((indicators - centre) / unit)
        targets = replace(targets, T=T, has_spread=False)
        progress = targets.progress
        progress.begin_part()
        progress.expect(len(_STAGES))
        groups, rows = learn_groups(names, targets), targets.told
        weights, of_rows = rows_of(targets.weights, rows), indicators[rows]

        def weighed() -> tuple[Array, NDArray[np.intp], Array]:
            """Return scores of members, which are kept, and the weights of these."""
            found = np.stack([group.left_out_means for group in groups], axis=2)
            scores = centre[:, None] + unit[:, None] * found
            handicaps = [group.handicap(len(T), _HANDICAP) for group in groups]
            of_all = None if weights is None else np.repeat(weights, len(centre))
            of_members = scores.reshape(-1, len(groups))
            shares = simplex_weights(of_rows.ravel(), of_members, of_all, handicaps)
            return scores, *kept_weights(shares)

        progress(_STAGES[0])
        scores, kept, shares = weighed()
        while made_strict(groups, kept, targets):
            scores, kept, shares = weighed()
        for k in kept:
            if groups[k].name == "levels":
                progress.expect(1)
                progress("levels, log odds")
                groups[k] = log_odds.instead_of(groups[k], targets)
                scores, kept, shares = weighed()
        blended, codes = scores[:, :, kept] @ shares, codes[rows]
        pool = ClassPool(blended, codes, weights, rows_of(targets.stays, rows))
        progress(_STAGES[1])
        members, of_members = members_of([groups[k] for k in kept], shares)
        off = np.mean((scores - of_rows[:, :, None]) ** 2, axis=1)
        errors = np.sqrt(np.average(off, axis=0, weights=weights))
        return cls(
            members,
            of_members,
            pool,
            centre,
            unit,
            pool.loss(blended, codes, weights),
            {groups[k].name: float(errors[k]) for k in kept},
        )

    def extended(self, rows: TableRows, codes: NDArray[np.intp], weights: Array | None) -> ClassFit:
        """Return the blend with further rows, and all that was learned."""
        T = (_indicators(codes, len(self.pool.frequencies)) - self.centre) / self.unit
        members = tuple(member.extended(rows, T, weights) for member in self.members)
        return replace(self, members=members)

    def scores(self, rows: TableRows) -> Array:
        """Return what the blend says of rows, as probabilities."""
        found = np.stack(means_of(self.members, rows), axis=2)
        return np.asarray(self.centre + self.unit * (found @ self.weights))

    def probabilities(self, rows: TableRows, weights: Array | None) -> Array:
        """Return probabilities of classes, of several predictions a row with weights."""
        return averaged_rows(self.pool.probabilities(self.scores(rows)), weights)


def averaged_rows(found: Array, weights: Array | None) -> Array:
    """Return weighted means of several predictions of each row; None for one."""
    if weights is None:
        return found
    return np.asarray(np.einsum("ij,ijk->ik", weights, found.reshape(*weights.shape, -1)))


def _indicators(codes: NDArray[np.intp], n_classes: int) -> Array:
    """Return indicators of the second of two classes, or of each."""
    indicators = (codes[:, None] == np.arange(n_classes)).astype(np.float64)
    return np.asarray(indicators[:, 1:] if n_classes == 2 else indicators)
