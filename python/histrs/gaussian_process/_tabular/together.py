"""What members say of the same rows: kernels that mix the same matrices share these."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from sklearn.utils import gen_batches

from histrs._typing import Array
from histrs.gaussian_process._kernels.even import EvenMixture
from histrs.gaussian_process._tabular.members import Member
from histrs.gaussian_process._tabular.rows import TableRows

# Entries of the matrices that are mixed at once.
_ENTRIES = 1 << 18


def means_of(members: Sequence[Member], rows: TableRows) -> list[Array]:
    """Return the means of each member, of shape (n_rows, n_targets)."""
    alike = [member for member in members if _mixes(member)]
    shared = iter(_shared(alike, rows, has_variances=False))
    return [next(shared)[0] if _mixes(member) else member.mean(rows) for member in members]


def predictions_of(members: Sequence[Member], rows: TableRows) -> list[tuple[Array, Array]]:
    """Return the means of each member, and the variances, noise counted in."""
    alike = [member for member in members if _mixes(member)]
    shared = iter(_shared(alike, rows, has_variances=True))
    return [next(shared) if _mixes(member) else member.predict(rows) for member in members]


def _mixes(member: Member) -> bool:
    return isinstance(member.posterior.system.kernel, EvenMixture)


def _shared(
    members: Sequence[Member], rows: TableRows, *, has_variances: bool
) -> list[tuple[Array, Array]]:
    """Return what members say whose kernels mix the same matrices of the same rows."""
    if len(members) == 0:
        return []
    X, bound = members[0].view(rows), members[0].posterior.bound
    found = [(np.empty((len(X), member.T.shape[1])), np.zeros(len(X))) for member in members]
    for some in gen_batches(len(X), max(1, _ENTRIES // bound.n_rows)):
        parts = bound.kernel.parts(X[some], bound.X, bound.n_threads)
        for member, (means, variances) in zip(members, found, strict=True):
            kernel, V = member.posterior.system.kernel, member.posterior.weights
            mixed = kernel.mixed(parts)
            # The level apart: beside its variance, digits of the rest would be lost.
            means[some] = kernel.amplitude * (mixed @ V) + kernel.level * V.sum(axis=0)
            if has_variances:
                variances[some] = member.variance(X[some], kernel.of_mixed(mixed))
    return found
