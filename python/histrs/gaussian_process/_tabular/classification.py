"""Classes: members that regress indicators, and the probabilities that they say together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from histrs._typing import Array
from histrs.gaussian_process._row_weights import rows_of
from histrs.gaussian_process._tabular.blend import ClassPool
from histrs.gaussian_process._tabular.groups import learned_names
from histrs.gaussian_process._tabular.members import Member, MemberName, Targets, learn
from histrs.gaussian_process._tabular.rows import TableRows


@dataclass(frozen=True)
class ClassFit:
    """A blend that was learned for classes."""

    members: tuple[Member, ...]
    pool: ClassPool
    centre: Array
    """Frequencies of classes: of the second of two, or of each."""
    unit: Array
    """Standard deviations of their indicators."""
    loss: float
    """Log loss of training rows, each by scores of the fits without it."""
    errors: Array
    """Root mean square error of the indicators by each member, as scores say them."""

    @classmethod
    def of(
        cls,
        targets: Targets,
        codes: NDArray[np.intp],
        n_classes: int,
        names: Sequence[MemberName] | None,
    ) -> Self:
        """Learn from the rows of `targets`, and from the classes of these."""
        names = learned_names(targets.rows.with_values.shape[1]) if names is None else names
        indicators = (codes[:, None] == np.arange(n_classes)).astype(np.float64)
        if n_classes == 2:
            indicators = indicators[:, 1:]
        centre = np.average(indicators, axis=0, weights=targets.weights)
        unit = np.sqrt(centre * (1.0 - centre))
        targets = replace(targets, T=np.ascontiguousarray((indicators - centre) / unit))
        members = tuple(learn(name, targets) for name in names)
        rows = targets.told
        found = np.stack([member.left_out(targets)[0] for member in members], axis=1)
        scores, codes, weights = centre + unit * found, codes[rows], rows_of(targets.weights, rows)
        pool = ClassPool(scores, codes, weights)
        off = scores - indicators[rows, None]
        errors = np.sqrt(np.average(np.mean(off**2, axis=2), axis=0, weights=weights))
        return cls(members, pool, centre, unit, pool.loss(scores, codes, weights), errors)

    def scores(self, rows: TableRows) -> Array:
        """Return what each member says of rows, as probabilities."""
        found = np.stack([member.mean(rows) for member in self.members], axis=1)
        return np.asarray(self.centre + self.unit * found)
