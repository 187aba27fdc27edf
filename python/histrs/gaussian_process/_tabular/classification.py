"""Classes: members that regress indicators, and the probabilities that they say together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from histrs._solvers.block_cg import Array
from histrs.gaussian_process._row_weights import rows_of
from histrs.gaussian_process._tabular.blend import ClassPool
from histrs.gaussian_process._tabular.groups import learn_groups
from histrs.gaussian_process._tabular.members import Member, MemberName, Targets
from histrs.gaussian_process._tabular.rows import TableRows


@dataclass(frozen=True)
class ClassFit:
    """A blend that was learned for classes."""

    groups: tuple[tuple[Member, ...], ...]
    shares: tuple[Array, ...]
    """Of the members of each group, which sum to one."""
    pool: ClassPool
    centre: Array
    """Frequencies of classes: of the second of two, or of each."""
    unit: Array
    """Standard deviations of their indicators."""
    loss: float
    """Log loss of training rows, each by scores of the fits without it."""
    errors: Array
    """Root mean square error of the indicators by each group, as scores say them."""

    @classmethod
    def of(
        cls,
        targets: Targets,
        codes: NDArray[np.intp],
        n_classes: int,
        names: Sequence[MemberName] | None,
    ) -> Self:
        """Learn from the rows of `targets`, and from the classes of these."""
        indicators = (codes[:, None] == np.arange(n_classes)).astype(np.float64)
        if n_classes == 2:
            indicators = indicators[:, 1:]
        centre = np.average(indicators, axis=0, weights=targets.weights)
        unit = np.sqrt(centre * (1.0 - centre))
        T = np.ascontiguousarray((indicators - centre) / unit)
        targets = replace(targets, T=T, has_spread=False)
        learned = learn_groups(names, targets)
        rows = targets.told
        found = np.stack([group.left_out_means for group in learned], axis=1)
        scores, codes, weights = centre + unit * found, codes[rows], rows_of(targets.weights, rows)
        pool = ClassPool(scores, codes, weights)
        off = scores - indicators[rows, None]
        errors = np.sqrt(np.average(np.mean(off**2, axis=2), axis=0, weights=weights))
        groups, shares = zip(*((tuple(g.members()), g.shares) for g in learned), strict=True)
        loss = pool.loss(scores, codes, weights)
        return cls(groups, shares, pool, centre, unit, loss, errors)

    @property
    def members(self) -> list[tuple[float, Member]]:
        """All members with their weights in sums of functions."""
        parts = zip(self.groups, self.shares, strict=True)
        return [
            (share / len(self.groups), member)
            for group, shares in parts
            for member, share in zip(group, shares, strict=True)
        ]

    def scores(self, rows: TableRows) -> Array:
        """Return what each group says of rows, as probabilities."""
        parts = zip(self.groups, self.shares, strict=True)
        found = [
            np.tensordot(shares, np.stack([member.mean(rows) for member in group]), 1)
            for group, shares in parts
        ]
        return np.asarray(self.centre + self.unit * np.stack(found, axis=1))
