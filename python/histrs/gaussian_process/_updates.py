"""Training rows that come and go: equal ones are one, and systems go with them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from histrs._repeats import DistinctRows, distinct_rows
from histrs._solvers.preconditioners import Indices
from histrs._typing import Array
from histrs._weights import over_unit
from histrs.gaussian_process._doors import refuse_distributed
from histrs.gaussian_process._likelihoods.classes import one_an_output
from histrs.gaussian_process._likelihoods.patterns import TrainingRows
from histrs.gaussian_process._rows import GivenRows, appended, roots, rows_of
from histrs.gaussian_process._systems.rows import insert_rows, left_over, remove_rows
from histrs.gaussian_process._systems.system import System


def distinct(model: Any, rows: TrainingRows) -> DistinctRows:
    """Return which rows are equal, targets too; each is told apart where it tells dispersion."""
    Y = rows.Y
    if not model._merges_rows:
        return DistinctRows(None, np.arange(len(Y)), rows.weights)
    numbers = Y if Y.dtype.kind == "f" else np.unique(Y, return_inverse=True)[1]
    return distinct_rows(rows.checked, numbers, rows.weights, rows.copies)


def add(model: Any, rows: TrainingRows) -> None:
    """Add checked rows to a fitted process, equal ones as one."""
    found = distinct(model, rows)
    X, y = found.rows(rows.checked, rows.Y)
    n = len(model.Y_fit_)
    _keep_what_stays(model, found.stays, len(y))
    _insert(model, model._coordinates(X, found.weights, reset=False), y, found.weights)
    further = GivenRows.of(found.groups, rows.weights)
    model._given = model._given.followed_by(further.shifted(n))


def remove(model: Any, removed: Indices) -> None:
    """Remove some of the rows that were given to a process: of equal ones, the others stay."""
    given, lighter = model._given.without(removed)
    if len(given.learned) == 0:
        raise ValueError(
            "All training rows of positive weight would be forgotten: keep one at least, or "
            "start with a new estimator."
        )
    n, left, gone = len(model.Y_fit_), lighter.left, lighter.touched
    if len(left) > 0:
        X = model._state()["X_fit_"][left]
        _keep_what_stays(model, rows_of(model._stays, left), len(left))
        _insert(model, X, model._targets_given()[left], lighter.weights)
    if len(gone) > 0:
        # The posterior of an unpickled model is made while rows and weights belong together.
        model._state()
        kept = left_over(len(model.Y_fit_), gone)
        targets, start = model._targets_given()[kept], model._standard_weights[kept]
        model.sample_weight_fit_ = rows_of(model.sample_weight_fit_, kept)
        model._stays = rows_of(model._stays, kept)
        _solve(model, targets, start, partial(_systems_without, model, gone))
    model._given = given.moved(n, lighter)


def _keep_what_stays(model: Any, stays: Array | None, n_new: int) -> None:
    """Keep what stays of further rows, behind those that there are."""
    if model._stays is not None or stays is not None:
        before = np.zeros(len(model.Y_fit_)) if model._stays is None else model._stays
        model._stays = np.append(before, np.zeros(n_new) if stays is None else stays)


def _insert(model: Any, X: Any, y: NDArray[Any], weights: Array | None) -> None:
    """Add training rows behind those that there are, of distinct rows and their weights."""
    model._state()
    start, before = model._standard_weights, model.sample_weight_fit_
    start = np.vstack([start, np.zeros((len(y), start.shape[1]))])
    targets = np.concatenate([model._targets_given(), y])
    added = over_unit(np.ones(len(y)) if weights is None else weights, model._weight_unit)
    if before is None and np.all(added == 1.0):
        added = None
    model.sample_weight_fit_ = appended(before, len(model.Y_fit_), added)
    _solve(model, targets, start, partial(_systems_with, model, X, added))


def _solve(
    model: Any, targets: NDArray[Any], start: Array, systems_of: Callable[[int], tuple[System, ...]]
) -> None:
    """Solve for the targets of rows that changed, by systems of so many outputs."""
    Y, weights = model._standardised(targets, start)
    systems = one_an_output(systems_of(Y.shape[1]), Y.shape[1])
    model._solve_targets(systems, Y, weights)


def _systems_now(model: Any) -> list[System]:
    """Return systems to change, under what is now set of the solver."""
    refuse_distributed(model, "A change of rows")
    solver, n_threads = model._asked.solver, model._asked.n_threads
    systems = model._systems_to_change()
    bound = systems[0].bound
    if bound.n_threads != n_threads:
        bound = bound.with_threads(n_threads)
    if bound is systems[0].bound and systems[0].solver == solver:
        return list(systems)
    return [replace(system, bound=bound, solver=solver) for system in systems]


def _systems_with(model: Any, X: Any, weights: Array | None, n_outputs: int) -> tuple[System, ...]:
    """Return the systems with further rows, and their weights, behind their own."""
    first, *others = _systems_now(model)
    first.bound.check_size(first.bound.n_rows + X.shape[0], 1 + len(others))
    # Latent functions have systems in no scale of their rows.
    scale = roots(weights) if model._latent is None else None
    grown = insert_rows(first, X, n_outputs, scale, weights=weights)
    bound = grown.bound
    return grown, *(
        insert_rows(one, X, n_outputs, scale, weights=weights, bound=bound) for one in others
    )


def _systems_without(model: Any, removed: Indices, n_outputs: int) -> tuple[System, ...]:
    """Return the systems without some of their rows."""
    first, *others = _systems_now(model)
    shrunk = remove_rows(first, removed, n_outputs)
    bound = shrunk.bound
    return shrunk, *(remove_rows(one, removed, n_outputs, bound=bound) for one in others)
