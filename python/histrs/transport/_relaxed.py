"""What unbalanced and partial transport share: plans that need not keep the mass."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from histrs import _histrs
from histrs._checks.validation import count_threads, to_core
from histrs._typing import Array, Matrix
from histrs.transport._arguments import (
    check_ground_distance,
    check_max_iter,
    check_one,
    check_pair,
    refuse_impossible,
)
from histrs.transport._distances import SinkhornInfo, warn_of_worst

Vector = Array
UnbalancedCost: TypeAlias = Literal["penalized", "transport", "regularized"]
Problem: TypeAlias = tuple[Vector, Matrix, Matrix | None]


def costs(
    problem: Problem,
    reg: float,
    penalties: tuple[float, float] | None,
    mass: float | None,
    tol: float,
    max_iter: int,
    cost: UnbalancedCost,
    n_jobs: int | None,
) -> tuple[NDArray[Any], SinkhornInfo]:
    """Return the costs of all pairs; either penalties or a mass, which may be None, is given."""
    M, X, Y = problem
    options = (reg, penalties, mass, tol, check_max_iter(max_iter), cost, False)
    values, errors, n_iter, _ = _histrs.relaxed_distances(
        to_core(X), None if Y is None else to_core(Y), M, *options, count_threads(n_jobs)
    )
    warn_of_worst(errors, tol, max_iter)
    return values, SinkhornInfo(errors <= tol, errors, n_iter.astype(np.intp))


def plan(
    a: ArrayLike,
    b: ArrayLike,
    M: ArrayLike,
    reg: float,
    penalties: tuple[float, float] | None,
    mass: float | None,
    tol: float,
    max_iter: int,
    n_jobs: int | None,
) -> Vector:
    """Return the plan of a pair, as `costs` has it."""
    a, b = check_one(a, b)
    M, X, Y = checked_problem(a[None, :], b[None, :], M)
    assert Y is not None
    options = (reg, penalties, mass, tol, check_max_iter(max_iter), "transport", True)
    values, errors, _, potentials = _histrs.relaxed_distances(
        to_core(X), to_core(Y), M, *options, count_threads(n_jobs)
    )
    refuse_impossible(float(values[0, 0]))
    warn_of_worst(errors, tol, max_iter)
    assert potentials is not None
    return plan_of_potentials(potentials, M, reg)


def plan_of_potentials(potentials: tuple[Vector, Vector], M: Vector, reg: float) -> Vector:
    """Return the plan of the only pair."""
    alpha, beta = potentials[0][0, 0], potentials[1][0, 0]
    plan: Vector = np.exp((alpha[:, None] + beta - M) / reg)
    return plan


def checked_problem(X: ArrayLike | Matrix, Y: ArrayLike | Matrix | None, M: ArrayLike) -> Problem:
    """Return the cost matrix and both sides."""
    X, Y = check_pair(X, Y)
    return check_ground_distance(M, X.shape[1], (X if Y is None else Y).shape[1]), X, Y
