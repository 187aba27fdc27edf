"""Members that are learned, some of which are several processes with a fraction each."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from histrs._threads import blas_threads_at_most, in_threads
from histrs._typing import Array
from histrs.gaussian_process._kernels.even import EvenMixture
from histrs.gaussian_process._learning.even import likely_kernels
from histrs.gaussian_process._tabular.blend import mixture_moments
from histrs.gaussian_process._tabular.members import (
    MOST_COLUMNS,
    MOST_FACTORISED,
    Learned,
    Member,
    MemberName,
    Targets,
    learn,
    learned_of_all_pairs,
    learned_without,
)

# Rows up to which kernels are averaged that treat all columns alike: so many, or so many a column,
# since fewer say too little of its weight. And rows up to which there are no others.
_MOST_EVEN = 1000
_EVEN_A_COLUMN = 50
_ONLY_EVEN = 100
# Rows that tell how probable these kernels are.
_ROWS_OF_EVEN = 500
# Rows from which and up to which rows are left out of learning too, and what part of the weights
# of columns then count.
_STRICT_ROWS = (10, 300)
_COUNT = 0.25
_LEARNED: tuple[MemberName, ...] = ("levels", "radial", "ranks")
# By how long they take.
_ORDER: tuple[MemberName, ...] = ("radial", "ranks", "levels", "even")


@dataclass(frozen=True)
class Group:
    """Processes of one name, with their fractions, which sum to one."""

    name: MemberName
    learned: tuple[Learned, ...]
    shares: Array
    n_weights: float
    """How many weights of columns count that rows had a say in."""
    is_strict: bool = False
    """Whether rows were left out of learning too."""

    def handicap(self, n_rows: int, of_weight: float) -> float:
        """Return what squared errors of rows that are left out are multiplied by.

        All rows had a say in the weights of columns, each of which adds so much over the rows.
        """
        return 1.0 + of_weight * self.n_weights / n_rows

    @property
    def left_out_means(self) -> Array:
        """Means of rows that are left out, of all targets."""
        means = np.stack([part.means for part in self.learned])
        return np.asarray(np.tensordot(self.shares, means, 1))

    @property
    def left_out(self) -> tuple[Array, Array]:
        """Means and variances of rows that are left out, of one target."""
        means = np.column_stack([part.means[:, 0] for part in self.learned])
        variances = np.column_stack([part.variances for part in self.learned])
        return mixture_moments(means, variances, self.shares)


def made_strict(groups: list[Group], kept: NDArray[np.intp], targets: Targets) -> bool:
    """Replace what kept members say of few rows by what they say without these.

    Say whether there was any to replace.
    """
    some = [k for k in kept.tolist() if _may_be_strict(groups[k].name, targets)]
    some = [k for k in some if not groups[k].is_strict]
    targets.progress.expect(len(some))
    found = _in_threads(_strict, [groups[k] for k in some], targets)
    for k, group in zip(some, found, strict=True):
        groups[k] = group
    return len(some) > 0


def _strict(group: Group, targets: Targets) -> Group:
    targets.progress(f"{group.name}, left-out rows")
    learned = tuple(learned_without(group.name, part, targets) for part in group.learned)
    return replace(group, learned=learned, is_strict=True)


def _may_be_strict(name: MemberName, targets: Targets) -> bool:
    few, many = _STRICT_ROWS
    is_learned = name in ("radial", "ranks") and not targets.is_trial
    return is_learned and few <= len(targets.T) <= many


def members_of(groups: Sequence[Group], weights: Array) -> tuple[tuple[Member, ...], Array]:
    """Return the processes of groups, fitted to all rows, and the weight of each."""
    members = tuple(part.member() for group in groups for part in group.learned)
    shares = [w * group.shares for w, group in zip(weights, groups, strict=True)]
    return members, np.concatenate(shares)


def names_for(n_rows: int, n_columns: int) -> tuple[MemberName, ...]:
    """Return the members that suit so many rows and columns."""
    if n_rows <= _ONLY_EVEN:
        return ("even",)
    learned = _LEARNED[1:] if n_columns > MOST_COLUMNS else _LEARNED
    has_even = n_rows <= min(max(_MOST_EVEN, _EVEN_A_COLUMN * n_columns), MOST_FACTORISED)
    return ("even", *learned) if has_even else learned


def learn_groups(names: Sequence[MemberName] | None, targets: Targets) -> list[Group]:
    """Return members of these names; None is those that suit the number of rows."""
    n_columns = targets.rows.with_values.shape[1]
    names = names_for(len(targets.T), n_columns) if names is None else names
    targets.progress.expect(len(names))
    # The longest first.
    longest = sorted(names, key=_ORDER.index)
    by_name = dict(zip(longest, _in_threads(_learned, longest, targets), strict=True))
    return [by_name[name] for name in names]


def _learned(name: MemberName, targets: Targets) -> Group:
    if name == "even":
        return _even(targets)
    return Group(name, (learn(name, targets),), np.ones(1), _count(name, targets))


def _in_threads(work: Callable[..., Any], items: Sequence[Any], targets: Targets) -> list[Any]:
    """Return what `work` makes of each item and the targets, by as many threads as there are.

    BLAS's own threads mostly wait for one another on matrices of few rows. Of many rows, a member
    uses all threads, and Ctrl-C must stop it.
    """
    if targets.n_threads == 1 or len(targets.T) > MOST_FACTORISED:
        return [work(item, targets) for item in items]
    with blas_threads_at_most(1), warnings.catch_warnings():
        # Filters are the process's: those that SciPy's searches set and take back would cross.
        warnings.filterwarnings("ignore", "The line search algorithm")
        return in_threads(work, items, [targets] * len(items), n_threads=targets.n_threads)


def _count(name: MemberName, targets: Targets) -> float:
    n_columns = float(targets.rows.with_values.shape[1])
    return _COUNT * n_columns if _may_be_strict(name, targets) else n_columns


def _even(targets: Targets) -> Group:
    """Return an average over kernels in which all columns are alike, by their evidence."""
    targets.progress("even")
    targets = targets.of_rows(targets.told)
    few = targets.of_rows(np.sort(targets.order[:_ROWS_OF_EVEN]))
    X = few.rows.with_values
    start = EvenMixture.start(X, few.rows.values.shape[1])
    likely = likely_kernels(start, X, few.T, few.weights, few.stays)
    parts = start.parts(targets.rows.with_values, None, targets.n_threads)
    learned = [
        learned_of_all_pairs("even", kernel, noise, noise, targets, parts)
        for kernel, noise, _ in likely
    ]
    return Group("even", tuple(learned), np.array([p for *_, p in likely]), 0)
